"""The command ``firmwright``: the same tasks as ``doit``, in a folder without a dodo.py."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from firmwright import __version__
from firmwright.pipeline.command_line import find_build_root, run_tasks, set_variables
from firmwright.pipeline.installed import LISTS, print_lists
from firmwright.pipeline.recipe_words import enter_repository
from firmwright.recipe.overrides import list_overrides

COMMANDS = {
    "build": "build the bundle of each recipe",
    "lock": "write what a recipe reads to a lock beside it; a build that reads else then fails",
    "list": "list the tasks of each recipe",
    "explain": "tell where every operator runs, and why not elsewhere; needs no compiler",
    "info": "show a task of a recipe: its files, and why it would run",
    "clean": "remove what was built",
    "forget": "forget what was built, so that everything runs again",
}
VARIABLES = {name: override.help for name, override in list_overrides().items()} | {
    "outdir": "build here instead of build/<recipe name>"
}
"""The task file's variables: options here, and ``name=value`` as for doit."""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    main = argparse.ArgumentParser(
        prog="firmwright", description="One YAML recipe in, one reproducible firmware bundle out."
    )
    main.add_argument("--version", action="version", version=f"firmwright {__version__}")
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, sentence in COMMANDS.items():
        command = commands.add_parser(name, help=sentence, description=sentence)
        command.add_argument(
            "recipes", nargs="+", metavar="RECIPE", help="a recipe file, or name=value as for doit"
        )
        for variable, meaning in VARIABLES.items():
            command.add_argument(f"--{variable}", help=meaning)
        if name == "build":
            command.add_argument("-n", "--jobs", default="1", help="stages to run side by side")
            command.add_argument(
                "-q", "--quiet", action="store_true", help="print nothing but mistakes"
            )
        if name == "explain":
            command.add_argument("--json", action="store_true", help="print JSON, of one recipe")
        if name == "lock":
            command.add_argument("--check", action="store_true", help="compare, write nothing")
        if name == "info":
            command.add_argument("--task", default="bundle", help="the stage (default: bundle)")
    new = commands.add_parser("new", help="begin something of your own").add_subparsers(
        dest="kind", required=True, metavar="KIND"
    )
    sentence = "write a platform file and a board's folder, copied from ready ones, to be changed"
    board = new.add_parser("board", help=sentence, description=sentence)
    board.add_argument("name", metavar="NAME", help="the platform's and the board's name")
    board.add_argument("--like", required=True, metavar="PLATFORM", help="the ready platform")
    sentence = "write a recipe for a model, samples, dodo.py and what CI runs, to be changed"
    begin = commands.add_parser("init", help=sentence, description=sentence)
    begin.add_argument("model", metavar="MODEL", help="a model file")
    begin.add_argument("--platform", default="rv32-bare", help="what to build for")
    for name, (sentence, _) in LISTS.items():
        commands.add_parser(name, help=sentence, description=sentence)
    return main


def begin(options: argparse.Namespace) -> int:
    """Write the first files of a board or a repository here; return the exit code."""
    from firmwright.errors import UserError

    try:
        told = begin_board(options) if options.command == "new" else begin_repository(options)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(told))
    return 0


def begin_board(options: argparse.Namespace) -> list[str]:
    """Write a board of the user's own; return what to tell."""
    from firmwright.project.new_board import write_new_board

    name = options.name
    written = write_new_board(name, options.like, Path())
    use = f"Build for it with platform={name}.yaml, or `platform: {name}.yaml` in a recipe."
    return [*(f"wrote {path}" for path in written), use]


def begin_repository(options: argparse.Namespace) -> list[str]:
    """Write the first files of a repository; return what to tell."""
    from firmwright.project.new_repository import write_new_repository

    written = write_new_repository(options.model, options.platform, Path())
    told = [f"{'wrote' if new else 'left as it is:'} {path}" for path, new in written.items()]
    return [*told, f"Build with: firmwright build {Path(options.model).stem}.yaml"]


def is_recipe(word: str) -> bool:
    """Tell a recipe from a variable, ``name=value``."""
    return "=" not in word or word.startswith("recipe=")


def to_doit_arguments(options: argparse.Namespace) -> list[str]:
    """Translate to doit's own command line."""
    recipes = [word.removeprefix("recipe=") for word in options.recipes if is_recipe(word)]
    variables = [word for word in options.recipes if not is_recipe(word)]
    if recipes:
        variables.append(f"recipe={','.join(recipes)}")
    for name in VARIABLES:
        if getattr(options, name) is not None:
            variables.append(f"{name}={getattr(options, name)}")
    quiet = ["--output-file", os.devnull] if getattr(options, "quiet", False) else []
    command = {
        "build": ["run", *quiet, "-n", getattr(options, "jobs", "1"), "build"],
        "explain": ["run", "--output-file", os.devnull],
        "lock": ["run", "locked" if getattr(options, "check", False) else "lock"],
        "list": ["list", "--all"],
        "info": ["info"],
        "clean": ["clean", "--clean-all"],
        "forget": ["forget", "--all"],
    }[options.command]
    return [*command, *variables]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 a stage failed, 2 wrong usage."""
    options = make_parser().parse_args(arguments)
    if options.command in ("init", "new"):
        return begin(options)
    if options.command in LISTS:
        return print_lists(options.command)
    enter_repository()
    given = to_doit_arguments(options)
    set_variables(given)
    from firmwright.tasks import dodo  # it reads the variables while it is imported

    if options.command == "explain":
        from firmwright.pipeline.explain import print_explanations
        from firmwright.terminal.library_output import LIBRARY_LOG, keep_library_output

        given += [job.task_name("partition") for job in dodo.get_jobs()]
        with redirect_stdout(sys.stderr):
            failed = run_tasks(dodo, given)
        with keep_library_output(find_build_root() / LIBRARY_LOG):
            return failed or print_explanations(dodo.get_jobs(), options.json)
    if options.command == "info":
        given += [job.task_name(options.task) for job in dodo.get_jobs()]
    return run_tasks(dodo, given)


if __name__ == "__main__":
    sys.exit(main())
