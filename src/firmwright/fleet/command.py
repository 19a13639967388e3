"""Defines the fleet commands: ``doit fleet``, ``firmwright fleet`` and ``firmwright matrix``."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from doit import doit_cmd, get_var
from doit.cmd_base import Command

from firmwright.errors import UserError
from firmwright.pipeline.command_line import (
    NO_USER_CODE,
    rebase_paths,
    reject_repeated_arguments,
    set_variables,
)
from firmwright.pipeline.recipe_arguments import (
    enter_repository,
    find_recipes,
    find_start,
    read_platforms,
)
from firmwright.recipe.overrides import is_key, list_overrides, refuse_unknown_key
from firmwright.terminal.guard import end_with_reader

from .matrix import FleetJob, check_overrides, cross, read_fleet

PRINTED, REFUSED = 0, 2

COMMANDS = ("fleet", "matrix")

FLEET_FILE = "fleet.yaml"
VARIABLES = ("fleet", "scheduler", "workers", "outdir", "recipe", NO_USER_CODE, *list_overrides())
"""The arguments ``name=value`` with short names. All other keys of a recipe are also accepted."""

MOST_IN_MATRIX = 256
"""The maximum number of jobs in one matrix of GitHub."""


def add_commands(commands: Any) -> None:
    sentence = "build recipes for many platforms, on this machine or on a dask cluster"
    codes = "exit code: 0 all builds succeeded, 1 a build failed, 2 the fleet was stopped"
    fleet = commands.add_parser("fleet", help=sentence, description=sentence, epilog=codes)
    fleet.add_argument("--scheduler", help="the address of a dask scheduler, tcp://…")
    fleet.add_argument("-n", "--workers", help="maximum number of parallel builds on this machine")
    fleet.add_argument("--outdir", help="build here instead of build/")
    sentence = "print the jobs of a fleet, for the matrix of a CI workflow"
    matrix = commands.add_parser("matrix", help=sentence, description=sentence)
    matrix.add_argument("--json", action="store_true", help="print JSON for GitHub's matrix")
    fleet.add_argument("--json", action="store_true", help="print the results as JSON")
    for parser in (fleet, matrix):
        help = f"a fleet file (default: {FLEET_FILE}), or name=value as with doit"
        parser.add_argument("arguments", nargs="*", metavar="FLEET", help=help)


def run_command(options: argparse.Namespace) -> int:
    files = [argument for argument in options.arguments if "=" not in argument]
    if len(files) > 1:
        print(f"{' '.join(files)}: one fleet file at a time", file=sys.stderr)
        return REFUSED
    given = [argument if "=" in argument else f"fleet={argument}" for argument in options.arguments]
    for name in ("scheduler", "workers", "outdir"):
        if getattr(options, name, None) is not None:
            given.append(f"{name}={getattr(options, name)}")
    enter_repository()
    set_variables(given)
    return print_matrix(options.json) if options.command == "matrix" else run(options.json)


def run(as_json: bool = False) -> int:
    # Imported late, because other commands show no fleet.
    from .fleet_run import run_fleet

    return run_fleet(read_jobs, as_json)


class DoitCommand(Command):  # type: ignore[misc]
    """`doit fleet`."""

    name = "fleet"
    doc_purpose = "build recipes for many platforms, on this machine or on a dask cluster"
    doc_usage = "fleet=fleet.yaml workers=4 scheduler=tcp://…"
    doc_description = None

    def execute(self, _options: Any, arguments: list[str]) -> int:
        if arguments:
            hint = f"write fleet={arguments[0]} to name a fleet"
            print(f"fleet: unknown argument '{arguments[0]}'; {hint}", file=sys.stderr)
            return REFUSED
        enter_repository()
        return run()


def print_matrix(as_json: bool) -> int:
    """Print the jobs of the fleet that the command line names. Return the exit code."""
    end_with_reader()
    try:
        jobs = read_jobs()
    except UserError as error:
        print(error, file=sys.stderr)
        return REFUSED
    if as_json and len(jobs) > MOST_IN_MATRIX:
        hint = "split the fleet into files, or build all of it in one job by `firmwright fleet`"
        print(
            f"{len(jobs)} jobs: GitHub supports {MOST_IN_MATRIX} in a matrix; {hint}",
            file=sys.stderr,
        )
        return REFUSED
    lines = {job.name: shlex.join(job.list_arguments()) for job in jobs}
    if as_json:
        print(json.dumps({"include": [{"name": n, "arguments": a} for n, a in lines.items()]}))
    else:
        print("\n".join(f"{name}  {arguments}" for name, arguments in lines.items()))
    return PRINTED


def read_jobs() -> list[FleetJob]:
    """Return the jobs that the command line names. Raises UserError if an argument is wrong."""
    given = doit_cmd._CMDLINE_VARS or {}
    reject_repeated_arguments()
    for name, value in sorted(given.items()):
        if name not in VARIABLES:
            refuse_unknown_key(name, VARIABLES)
        if not value:
            raise UserError(f"{name}=: a value is missing; write {name}=VALUE, or remove it")
    overrides = {name: text for name, text in given.items() if is_key(name)}
    if "recipe" in given:
        if "fleet" in given:
            raise UserError("fleet= and recipe= both name recipes; remove one of them")
        overrides.pop("platform", None)
        jobs = cross(find_recipes(), read_platforms(), find_start())
    else:
        jobs = read_fleet(find_start() / get_var("fleet", FLEET_FILE))
    overrides = rebase_paths(overrides, Path(FLEET_FILE))
    check_overrides(overrides)
    if NO_USER_CODE in given:
        overrides[NO_USER_CODE] = given[NO_USER_CODE]
    return [add_overrides(job, overrides) for job in jobs]


def add_overrides(job: FleetJob, overrides: dict[str, str]) -> FleetJob:
    """Return a job with the arguments for all jobs.

    Raises UserError if the job already has one of these arguments.
    """
    for name in overrides.keys() & job.overrides.keys():
        raise UserError(
            f"{name}={overrides[name]}: the fleet's file states {name}={job.overrides[name]}; "
            "change it there"
        )
    return replace(job, overrides={**job.overrides, **overrides})
