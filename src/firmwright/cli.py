"""Runs the command ``firmwright``: the tasks of ``doit``, in a folder without a dodo.py."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import redirect_stdout
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright import __version__, bundle_parsers, first_commands
from firmwright.documents.chain import list_chain
from firmwright.errors import UserError, did_you_mean
from firmwright.fleet import command as fleet_command
from firmwright.pipeline import show
from firmwright.pipeline.build_root import find_build_root
from firmwright.pipeline.command_line import (
    NO_USER_CODE,
    SCHEDULER,
    UPDATE,
    add_no_user_code,
    check_variables,
    run_tasks,
    set_variables,
)
from firmwright.pipeline.installed import LISTS, print_lists
from firmwright.pipeline.profile import DEBUG, DRY_RUN, LOG, PROFILE, VERBOSE, WHY
from firmwright.pipeline.recipe_arguments import begin_log, enter_repository, find_recipes
from firmwright.recipe.overrides import list_overrides
from firmwright.report.outcomes import CheckedLocks, Outcomes
from firmwright.task_options import COMMAND_OPTIONS, EXCLUSIVE
from firmwright.terminal.annotations import annotate_errors
from firmwright.terminal.arguments import Parser, list_commands
from firmwright.terminal.guard import end_with_reader, guard_output
from firmwright.terminal.help_pages import describe_page

if TYPE_CHECKING:
    from firmwright.pipeline.job import Job

COMMANDS = {
    "build": "build the bundle of each recipe",
    "watch": "build, and build again whenever a file changes",
    "lock": "write the digest of each input of a recipe; a build with other inputs then fails",
    "tune": "find the fastest C of each layer, and store it for later builds",
    "search": "find the type of each layer's weights, and store it for later builds",
    "reproduce": "build each recipe twice in different environments, and compare the bundles",
    "list": "list the tasks of each recipe",
    "graph": "print the stages of a recipe, each with the stages whose results it reads",
    "export": "package the network for another build system",
    "explain": "show the device of every operator, and the rules of the devices that reject it",
    "info": "show a task of a recipe: its files, and the reason why it would run",
    "clean": "remove all build results",
    "forget": "delete the records of finished stages, so that every stage runs again",
}
VARIABLES = {name: override.help for name, override in list_overrides().items()} | {
    "outdir": "build here instead of build/<recipe name>"
}
"""The variables of the task file: options of these commands, or ``name=value`` as in doit."""


def make_parser() -> argparse.ArgumentParser:
    main = Parser(
        prog="firmwright", description="One YAML recipe in, one reproducible firmware bundle out."
    )
    main.add_argument("--version", action="version", version=f"firmwright {__version__}")
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, sentence in COMMANDS.items():
        command = commands.add_parser(name, help=sentence, description=sentence)
        command.add_argument(
            "recipes", nargs="+", metavar="RECIPE", help="a recipe file, or name=value as with doit"
        )
        for variable, meaning in VARIABLES.items():
            option = "as" if name == variable == "export" else variable
            command.add_argument(f"--{option}", dest=variable, help=meaning)
        add_no_user_code(command)
        exclusive = EXCLUSIVE.get(name, ())
        group = command.add_mutually_exclusive_group() if exclusive else command
        for flags, settings in COMMAND_OPTIONS.get(name, {}).items():
            parent = group if flags[0] in exclusive else command
            parent.add_argument(*flags, **settings)
    first_commands.add_commands(commands)
    bundle_parsers.add_commands(commands)
    fleet_command.add_commands(commands)
    show.add_command(commands)
    add_vendor(commands)
    for name, (sentence, _) in LISTS.items():
        listing = commands.add_parser(name, help=sentence, description=sentence)
        listing.add_argument("--json", action="store_true", help="print JSON")
    sentence = "print a script for a shell that completes commands, recipes and names"
    completion = commands.add_parser("completion", help=sentence, description=sentence)
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="the name of the shell")
    sentence = "print the manual page, for man: firmwright man > firmwright.1"
    commands.add_parser("man", help=sentence, description=sentence)
    for name, each in list_commands(main):
        each.epilog = describe_page(name, each.epilog)
        for kind, inner in list_commands(each):
            inner.epilog = describe_page(f"{name} {kind}", inner.epilog)
    return main


def add_vendor(commands: Any) -> None:
    sentence = "copy every input of recipes into a folder, for builds without internet access"
    codes = "exit code: 0 complete, 1 an input is missing (with --check), 2 an error"
    vendor = commands.add_parser("vendor", help=sentence, description=sentence, epilog=codes)
    vendor.add_argument("arguments", nargs="+", metavar="RECIPE", help="a recipe, or name=value")
    vendor.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="the new folder")
    vendor.add_argument("--check", action="store_true", help="list missing inputs without copying")
    tools = "also download the wheels of the installed Python packages with pip"
    vendor.add_argument("--tools", action="store_true", help=tools)


def is_recipe(argument: str) -> bool:
    return "=" not in argument or argument.startswith("recipe=")


def to_doit_arguments(options: argparse.Namespace) -> list[str]:
    recipes = [
        argument.removeprefix("recipe=") for argument in options.recipes if is_recipe(argument)
    ]
    variables = [argument for argument in options.recipes if not is_recipe(argument)]
    if options.no_user_code:
        variables.append(f"{NO_USER_CODE}=1")
    for switch in (PROFILE, WHY, DRY_RUN, VERBOSE, DEBUG):
        if getattr(options, switch, False):
            variables.append(f"{switch}=1")
    for name in (SCHEDULER, UPDATE, LOG):
        if getattr(options, name, None) is not None:
            variables.append(f"{name}={getattr(options, name)}")
    if recipes:
        variables.append(f"recipe={','.join(recipes)}")
    for name in VARIABLES:
        if getattr(options, name) is not None:
            variables.append(f"{name}={getattr(options, name)}")
    quiet = ["--output-file", os.devnull] if getattr(options, "quiet", False) else []
    jobs = getattr(options, "jobs", None)
    side_by_side = ["-n", jobs] if jobs else []
    build = ["run", *quiet, *side_by_side, "build"]
    command = {
        "build": build,
        "watch": build,
        "export": ["run", "build"],
        "explain": ["run", "--output-file", os.devnull],
        "lock": ["run", "locked" if getattr(options, "check", False) else "lock"],
        "reproduce": ["run", "reproduce"],
        "tune": ["run", *side_by_side, "tune"],
        "search": ["run", *side_by_side, "search"],
        "list": ["list", "--all"],
        "graph": [],
        "info": ["info"],
        "clean": ["clean", "--clean-all"],
        "forget": ["forget"],
    }[options.command]
    return [*command, *variables]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Return the exit code: 0 done, 1 a stage failed, 2 wrong usage."""
    guard_output()
    annotate_errors()
    options = make_parser().parse_args(arguments)
    for commands, run in OTHERS:
        if options.command in commands:
            return run(options)
    if options.command in LISTS:
        end_with_reader()
        return print_lists(options.command, options.json)
    if options.command == "completion":
        from firmwright.terminal.completion import render_completion

        print(render_completion(options.shell, make_parser()), end="")
        return 0
    enter_repository()
    given = to_doit_arguments(options)
    set_variables(given)
    begin_log()
    from firmwright.tasks import dodo  # the module reads the variables during its import

    if options.command in SPECIAL:
        return SPECIAL[options.command](options, given)
    return run_tasks(dodo, given)


def find_task(jobs: Sequence[Job], stage: str) -> str:
    """Return the task of a stage. Raises UserError if there is not exactly one task."""
    known = {name for job in jobs for name in job.stages if job.has_stage(name)}
    tasks = dict.fromkeys(job.task_name(stage) for job in jobs if job.has_stage(stage))
    if stage not in known:
        raise UserError(f"--task: no stage '{stage}'{did_you_mean(stage, known)}")
    first, *others = tasks
    if others:
        listed = ", ".join((first, *others))
        raise UserError(f"info supports one recipe and one platform; found: {listed}")
    return first


def watch_recipes(options: argparse.Namespace) -> int:
    """Build after every change until ctrl-C, and return the exit code."""
    from firmwright.watch import watch

    enter_repository()
    given = to_doit_arguments(options)
    set_variables(given)
    begin_log()
    try:
        check_variables()
        recipes = find_recipes()
    except UserError as error:
        print(error, file=sys.stderr)
        return 1

    def build() -> int:
        from firmwright.tasks import dodo

        return run_tasks(dodo, given)

    def list_paths() -> Iterator[str]:
        from firmwright.pipeline.snapshot_files import list_job_files
        from firmwright.tasks import dodo

        return (str(path) for job in dodo.get_jobs() for path in list_job_files(job))

    return watch(build, list_paths, [str(file) for each in recipes for file in list_chain(each)])


def vendor_inputs(options: argparse.Namespace) -> int:
    """Copy the inputs of recipes into a folder, or check the folder. Return the exit code."""
    from firmwright.rebuild.vendor import vendor

    folder = options.to.absolute()
    enter_repository()
    recipes = [argument for argument in options.arguments if "=" not in argument]
    variables = [argument for argument in options.arguments if "=" in argument]
    set_variables([*variables, f"recipe={','.join(recipes)}"])
    from firmwright.tasks import dodo

    return vendor(dodo.get_jobs(), folder, options.check, options.tools)


def print_manual(_options: argparse.Namespace) -> int:
    from firmwright.terminal.manual import render_manual

    end_with_reader()
    print(render_manual(make_parser()), end="")
    return 0


def run_on_bundles(options: argparse.Namespace) -> int:
    if options.command not in bundle_parsers.ONLINE:
        end_with_reader()
    from firmwright import bundle_commands

    return bundle_commands.run_command(options)


OTHERS: tuple[tuple[Container[str], Callable[[argparse.Namespace], int]], ...] = (
    (first_commands.COMMANDS, first_commands.run_command),
    (("watch",), watch_recipes),
    (("man",), print_manual),
    (bundle_parsers.COMMANDS, run_on_bundles),
    (fleet_command.COMMANDS, fleet_command.run_command),
    (("show",), show.run_command),
    (("vendor",), vendor_inputs),
)
"""Commands that do not need the task file, and the functions that run them."""


def print_graph(options: argparse.Namespace, _given: Sequence[str]) -> int:
    """Print the stages of the only job. Return the exit code, 2 if there is not exactly one job."""
    from firmwright.pipeline.network_jobs import leave_out_members
    from firmwright.pipeline.stage_graph import FORMATS, read_stages
    from firmwright.tasks import dodo

    end_with_reader()
    jobs = leave_out_members(dodo.get_jobs())
    if len(jobs) != 1:
        message = f"graph needs one recipe and one platform; {len(jobs)} were named"
        print(message, file=sys.stderr)
        return 2
    print(FORMATS[options.format](read_stages(jobs[0])))
    return 0


def explain(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Run the stages that an explanation needs, and print the explanation. Return the exit code."""
    from firmwright.pipeline.explain import find_needed_stage, print_explanations
    from firmwright.stages.layer import print_layer
    from firmwright.tasks import dodo
    from firmwright.terminal.guard import LIBRARY_LOG, keep_library_output

    jobs = dodo.get_network_jobs()
    stages = [(job, find_needed_stage(job, options.layer)) for job in jobs]
    tasks = dict.fromkeys(job.task_name(stage) for job, stage in stages)
    with redirect_stdout(sys.stderr):
        failed = run_tasks(dodo, [*given, *tasks])
    end_with_reader()
    if failed:
        return failed
    with keep_library_output(find_build_root() / LIBRARY_LOG):
        if options.layer is not None:
            return print_layer(jobs, options.layer, options.json)
        return print_explanations(jobs, options.json)


def list_tasks(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Print the tasks of the recipes, as doit or as JSON. Return the exit code."""
    from firmwright.tasks import dodo

    if not options.json:
        return run_tasks(dodo, given)
    from firmwright.ir.records import format_record
    from firmwright.terminal.doit_commands import list_all

    end_with_reader()
    print(format_record(list_all(dodo), "tasks.schema.json"), end="")
    return 0


def build_recipes(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Build the recipes, and print the progress or JSON. Return the exit code."""
    from firmwright.tasks import dodo
    from firmwright.terminal import answers

    build = partial(run_tasks, dodo, given)
    return answers.print_json(build, Outcomes) if options.json else build()


def export_networks(_options: argparse.Namespace, given: Sequence[str]) -> int:
    """Build the recipes with their exports. Return the exit code, 2 if a recipe has no `export`."""
    from firmwright.pipeline.network_jobs import leave_out_members
    from firmwright.tasks import dodo

    for job in leave_out_members(dodo.get_jobs()):
        if not job.recipe.export:
            print(f"{job.recipe.layers}: the key `export` is missing; add it, or --as NAME",
                  file=sys.stderr)  # fmt: skip
            return 2
    return run_tasks(dodo, given)


def show_info(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Print a task of one recipe. Return the exit code: 0 up to date, 1 it would run."""
    from firmwright.tasks import dodo
    from firmwright.terminal import answers

    try:
        task = find_task(dodo.get_jobs(), options.task)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    show = partial(run_tasks, dodo, [*given, task])
    return answers.print_json(show, itemgetter(0)) if options.json else show()


def lock_recipes(options: argparse.Namespace, given: Sequence[str]) -> int:
    """Write or check the locks of recipes with all of their overlays. Return the exit code."""
    from firmwright.pipeline.locked_overlays import lock_in_turn
    from firmwright.tasks import dodo
    from firmwright.terminal import answers

    lock = partial(lock_in_turn, dodo, partial(run_tasks, dodo, given))
    try:
        return answers.print_json(lock, CheckedLocks) if options.json else lock()
    except UserError as error:
        print(error, file=sys.stderr)
        return 1


SPECIAL = {
    "build": build_recipes,
    "explain": explain,
    "export": export_networks,
    "graph": print_graph,
    "info": show_info,
    "list": list_tasks,
    "lock": lock_recipes,
}
"""Commands that need the jobs, or print JSON."""


if __name__ == "__main__":
    sys.exit(main())
