"""The commands of fleets: ``doit fleet``, ``firmwright fleet`` and ``firmwright matrix``."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from doit import doit_cmd, get_var
from doit.cmd_base import Command

from firmwright.data.fetch import MIRROR_VARIABLE
from firmwright.errors import UserError, did_you_mean, to_printable
from firmwright.pipeline.command_line import (
    NO_USER_CODE,
    find_build_root,
    place_paths,
    prepare_build_root,
    set_variables,
)
from firmwright.pipeline.recipe_words import enter_repository, find_recipes, find_start
from firmwright.recipe.overrides import list_overrides
from firmwright.shared_cache import cache

from .matrix import FleetJob, cross, read_fleet
from .outcome import Outcome
from .report import PAGE, RESULTS, count, read_results, write_report
from .run import FleetError, Workers, connect, require_extra, run_jobs
from .table import FleetScreen, Watch
from .worker import Order, build, describe_worker, digest_recipe

BUILT, FAILED, STOPPED, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: all jobs are built, some failed, the fleet could not be run to its end."""

COMMANDS = ("fleet", "matrix")

FLEET_FILE = "fleet.yaml"
FOLDER = "fleet"
"""In the build folder: the jobs' own build folders, and the report."""

VARIABLES = ("fleet", "scheduler", "workers", "outdir", "recipe", NO_USER_CODE, *list_overrides())
"""What a word of the command line, ``name=value``, may set."""

PASSED_ON = (MIRROR_VARIABLE, cache.PLACE, cache.ROLE, cache.LIMIT)
"""Variables of the environment that workers elsewhere get too."""

MOST_IN_MATRIX = 256
"""Jobs that GitHub takes in one matrix."""


@dataclass(frozen=True)
class Fleet:
    """The jobs of a command, and who does them: ``scheduler`` is None for this machine alone."""

    jobs: list[FleetJob]
    scheduler: str | None
    workers: int
    folder: Path


def add_commands(commands: Any) -> None:
    """Add the parsers of these commands to those of the command line."""
    sentence = "build recipes for many platforms, on this machine or on a dask cluster"
    codes = "exit code: 0 all are built, 1 some failed, 2 the fleet was stopped"
    fleet = commands.add_parser("fleet", help=sentence, description=sentence, epilog=codes)
    fleet.add_argument("--scheduler", help="the address of a dask scheduler, tcp://…")
    fleet.add_argument("-n", "--workers", help="builds side by side on this machine")
    fleet.add_argument("--outdir", help="build here instead of build/")
    sentence = "print the jobs of a fleet, for the matrix of a CI"
    matrix = commands.add_parser("matrix", help=sentence, description=sentence)
    matrix.add_argument("--json", action="store_true", help="print JSON, as GitHub's matrix takes")
    for parser in (fleet, matrix):
        help = f"a fleet file (default: {FLEET_FILE}), or name=value as for doit"
        parser.add_argument("words", nargs="*", metavar="FLEET", help=help)


def run_command(options: argparse.Namespace) -> int:
    """Run one of the commands of ``firmwright``; return the exit code."""
    given = [word if "=" in word else f"fleet={word}" for word in options.words]
    for name in ("scheduler", "workers", "outdir"):
        if getattr(options, name, None) is not None:
            given.append(f"{name}={getattr(options, name)}")
    enter_repository()
    set_variables(given)
    return print_matrix(options.json) if options.command == "matrix" else run_fleet()


class DoitCommand(Command):  # type: ignore[misc]
    """`doit fleet`."""

    name = "fleet"
    doc_purpose = "build recipes for many platforms, on this machine or on a dask cluster"
    doc_usage = "fleet=fleet.yaml workers=4 scheduler=tcp://…"
    doc_description = None

    def execute(self, _options: Any, words: list[str]) -> int:
        if words:
            print(f"fleet: '{words[0]}' means nothing here; a fleet is named by fleet={words[0]}",
                  file=sys.stderr)  # fmt: skip
            return STOPPED
        enter_repository()
        return run_fleet()


def print_matrix(as_json: bool) -> int:
    """Print the jobs of the fleet that the command line names; return the exit code."""
    try:
        jobs = read_jobs()
    except UserError as error:
        print(to_printable(str(error)), file=sys.stderr)
        return STOPPED
    if len(jobs) > MOST_IN_MATRIX:
        print(f"{len(jobs)} jobs: GitHub takes {MOST_IN_MATRIX} in a matrix", file=sys.stderr)
    lines = {job.name: shlex.join(job.list_words()) for job in jobs}
    if as_json:
        print(json.dumps({"include": [{"name": n, "words": w} for n, w in lines.items()]}))
    else:
        print("\n".join(f"{name}  {words}" for name, words in lines.items()))
    return BUILT


def run_fleet() -> int:
    """Build the fleet that the command line names; return the exit code."""
    try:
        fleet = read_words()
        require_extra()
        before = read_results(fleet.folder / RESULTS)
        return build_all(fleet, before)
    except UserError as error:
        print(to_printable(str(error)), file=sys.stderr)
        return STOPPED


def read_words() -> Fleet:
    """Return what the command line asks for; UserError for a mistake."""
    jobs = read_jobs()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    workers = get_var("workers", str(cores or 1))
    if not (workers.isascii() and workers.isdigit() and int(workers)):
        raise UserError(f"workers={workers}: expected a whole number from 1 on")
    if get_var("scheduler") is not None and get_var("workers") is not None:
        raise UserError("workers=: a scheduler has workers of its own; leave one of them out")
    prepare_build_root()
    folder = find_build_root() / FOLDER
    return Fleet(jobs, get_var("scheduler"), min(int(workers), len(jobs)), folder)


def read_jobs() -> list[FleetJob]:
    """Return the jobs that the command line names; UserError for a mistake."""
    given = doit_cmd._CMDLINE_VARS or {}
    for name, value in sorted(given.items()):
        if name not in VARIABLES:
            raise UserError(f"{name}=: unknown variable '{name}'{did_you_mean(name, VARIABLES)}")
        if not value:
            raise UserError(f"{name}=: a value is missing")
    words = {name: text for name, text in given.items() if name in list_overrides()}
    if "recipe" in given:
        if "fleet" in given:
            raise UserError("fleet= and recipe= both name recipes; leave one of them out")
        platforms = words.pop("platform", "").split(",")
        jobs = cross(find_recipes(), [p.strip() for p in platforms if p.strip()], find_start())
    else:
        jobs = read_fleet(find_start() / get_var("fleet", FLEET_FILE))
    words = place_paths(words, Path(FLEET_FILE))
    if NO_USER_CODE in given:
        words[NO_USER_CODE] = given[NO_USER_CODE]
    return [add_words(job, words) for job in jobs]


def add_words(job: FleetJob, words: dict[str, str]) -> FleetJob:
    """Return a job with words that are the same for all; UserError for one that it has."""
    for name in words.keys() & job.words.keys():
        raise UserError(f"{name}={words[name]}: the fleet says {name}={job.words[name]} itself")
    return replace(job, words={**job.words, **words})


def build_all(fleet: Fleet, before: dict[str, Outcome]) -> int:
    """Build all jobs and write the report; return the exit code."""
    screen = FleetScreen(sys.stdout, len(fleet.jobs))
    outcomes: dict[str, Outcome] = {}
    code = BUILT
    try:
        with connect(fleet.scheduler, fleet.workers) as client:
            workers = Workers(client, describe_worker, describe_worker(), Watch(screen))
            for outcome in run_jobs(make_orders(fleet), build, workers):
                outcomes[outcome.job] = outcome
    except FleetError as error:
        screen.close()
        print(to_printable(str(error)), file=sys.stderr)
        code = STOPPED
    except KeyboardInterrupt:
        screen.close()
        print("\ninterrupted; finished stages are kept", file=sys.stderr)
        code = INTERRUPTED
    names = [job.name for job in fleet.jobs]
    write_report(fleet.folder, names, outcomes, before)
    screen.print_hanging("", f"{count(names, outcomes)}; {fleet.folder / PAGE}")
    failed = any(outcome.failure for outcome in outcomes.values())
    return code or (FAILED if failed else BUILT)


def make_orders(fleet: Fleet) -> list[Order]:
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return [
        Order(
            job,
            root=str(Path.cwd()),
            outdir=str((fleet.folder / job.name).absolute()),
            environment=environment,
            recipe_digest=digest_recipe(Path(job.recipe)),
        )
        for job in fleet.jobs
    ]
