"""Compilers and emulators that a build needs and this machine lacks: told when it begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from firmwright.documents.document import make_diagnostic_in
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import Diagnostic, DiagnosticError, UserError
from firmwright.toolchain import explain_missing_compiler
from firmwright.toolchain.descriptions import is_own_file

from .job import Job
from .task import run_action
from .tools import explain_missing_emulator


def preceding_tasks(job: Job) -> list[str]:
    """Return the task that comes before all stages of a recipe that cannot be built here."""
    return [f"_programs:{job.bundle_name}"] if any(find_missing_programs(job)) else []


def make_tasks(jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
    """Yield for each job that lacks programs the task that says so, and fails.

    Only a build waits for it: other commands may do without the programs.
    """
    for job in jobs:
        for name in preceding_tasks(job):
            refuse = partial(refuse_missing_programs, job)
            yield {"basename": name, "actions": [(run_action, [job, name, refuse])]}


def refuse_missing_programs(job: Job) -> None:
    """Raise DiagnosticError with all that is missing."""
    raise DiagnosticError(find_missing_programs(job))


def find_missing_programs(job: Job) -> Iterator[Diagnostic]:
    """Yield what is missing and how to get it, at the word that asks for it.

    No program is started: a build with nothing to do would wait for it.
    """
    if job.has_stage("objects") and (compiler := explain_missing(job)):
        yield place_program(job, ("toolchain",), ("toolchains", 0), compiler)
    emulated = job.can_emulate and job.recipe.run.board is None
    if emulated and (emulator := explain_missing_emulator(job.emulator, job.platform)):
        yield place_program(job, ("run", "emulator"), ("emulators", 0), emulator)


def explain_missing(job: Job) -> str:
    """Say what the compiler or its folder lacks; empty where all is there."""
    try:
        return explain_missing_compiler(job.build.toolchain, job.platform.architecture)
    except UserError as error:  # half installed
        return str(error)


def place_program(job: Job, key: Pointer, platform_key: Pointer, message: str) -> Diagnostic:
    """Return the message at the key of the recipe, or else at that of the platform.

    The files of firmwright's own platforms are not the user's to change: the recipe's key
    ``platform`` stands for them.
    """
    recipe = job.recipe
    if recipe.states(key):
        return recipe.make_diagnostic(key, message)
    if is_own_file(recipe.platform):
        return make_diagnostic_in(recipe.path.parent / recipe.platform, platform_key, message)
    return recipe.make_diagnostic(("platform",), message)
