"""The command ``firmwright``: the same tasks as ``doit``, in a folder without a dodo.py."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from firmwright import __version__

COMMANDS = {
    "build": "build the bundle of each recipe",
    "list": "list the tasks of each recipe",
    "info": "show a task of a recipe: its files, and why it would run",
    "clean": "remove what was built",
    "forget": "forget what was built, so that everything runs again",
}
TASK_FILE = "firmwright.tasks.dodo"
"""Imported by name: the tasks import firmwright, firmwright does not know them."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    main = argparse.ArgumentParser(
        prog="firmwright", description="One YAML recipe in, one reproducible firmware bundle out."
    )
    main.add_argument("--version", action="version", version=f"firmwright {__version__}")
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, sentence in COMMANDS.items():
        command = commands.add_parser(name, help=sentence, description=sentence)
        command.add_argument("recipes", nargs="+", metavar="RECIPE", help="a recipe file")
        command.add_argument("--platform", help="build for this platform instead of the recipe's")
        command.add_argument("--target", help='this target mix instead, e.g. "soma_dory, c"')
        command.add_argument("--toolchain", help="compile with this toolchain")
        command.add_argument("--emulator", help="run in this emulator")
        command.add_argument("--samples", help="run this many samples")
        command.add_argument("--outdir", help="build here instead of build/<recipe name>")
        if name == "build":
            command.add_argument("-n", "--jobs", default="1", help="stages to run side by side")
        if name == "info":
            command.add_argument("--task", default="bundle", help="the stage (default: bundle)")
    return main


def doit_arguments(options: argparse.Namespace, recipes: Sequence[str]) -> list[str]:
    """Translate to doit's own command line."""
    variables = [f"recipe={','.join(recipes)}"]
    for name in ("platform", "target", "toolchain", "emulator", "samples", "outdir"):
        if getattr(options, name) is not None:
            variables.append(f"{name}={getattr(options, name)}")
    if options.command == "build":
        return ["run", "-n", options.jobs, "build", *variables]
    if options.command == "list":
        return ["list", "--all", *variables]
    if options.command == "info":
        return ["info", *variables]
    if options.command == "clean":
        return ["clean", "--clean-all", *variables]
    return ["forget", "--all", *variables]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 a stage failed, 2 wrong usage."""
    from doit.cmd_base import ModuleTaskLoader
    from doit.doit_cmd import DoitMain

    options = parser().parse_args(arguments)
    given = doit_arguments(options, options.recipes)
    # The tasks read doit's variables while they are imported, so these come first.
    DoitMain.process_args(DoitMain, given)
    tasks = importlib.import_module(TASK_FILE)
    if options.command == "info":
        given += [job.task(options.task) for job in tasks.jobs()]
    return DoitMain(ModuleTaskLoader(tasks)).run(given) or 0


if __name__ == "__main__":
    sys.exit(main())
