"""Reports missing compilers and emulators at the start of a build."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from firmwright.documents.document import make_diagnostic_in
from firmwright.documents.yaml_text import Pointer
from firmwright.emulator import load_emulator
from firmwright.errors import Diagnostic, DiagnosticError, UserError
from firmwright.toolchain import explain_missing_compiler
from firmwright.toolchain.descriptions import is_custom_file

from .job import Job
from .task import run_action


def preceding_tasks(job: Job) -> list[str]:
    return [f"_programs:{job.bundle_name}"] if any(find_missing_programs(job)) else []


def make_tasks(jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
    """Yield a failing task for each job with missing programs, which reports the programs.

    Only builds depend on this task, because other commands may not need the programs.
    """
    for job in jobs:
        for name in preceding_tasks(job):
            refuse = partial(refuse_missing_programs, job)
            yield {"basename": name, "actions": [(run_action, [job, name, refuse])]}


def refuse_missing_programs(job: Job) -> None:
    raise DiagnosticError(find_missing_programs(job))


def find_missing_programs(job: Job) -> Iterator[Diagnostic]:
    """Yield a message and a remedy for each missing program, at the key that needs the program.

    The function starts no program, because up-to-date builds would wait for the program.
    """
    if job.has_stage("objects") and (compiler := explain_missing(job)):
        yield locate_missing_program(job, ("toolchain",), ("toolchains", 0), compiler)
    emulated = job.can_emulate and job.recipe.run.board is None
    if emulated and (reason := load_emulator(job.emulator).explain_unusable(job.platform)):
        yield locate_missing_program(job, ("run", "emulator"), ("emulators", 0), reason)


def explain_missing(job: Job) -> str:
    try:
        return explain_missing_compiler(job.build.toolchain, job.platform.architecture)
    except UserError as error:  # the installation is incomplete
        return str(error)


def locate_missing_program(
    job: Job, key: Pointer, platform_key: Pointer, message: str
) -> Diagnostic:
    """Return the message at the key of the recipe, or at the key of the platform.

    Users do not change the files of built-in platforms. Messages about these files are at the
    recipe's key ``platform``.
    """
    recipe = job.recipe
    if recipe.states(key):
        return recipe.make_diagnostic(key, message)
    if is_custom_file(recipe.platform):
        return make_diagnostic_in(recipe.path.parent / recipe.platform, platform_key, message)
    return recipe.make_diagnostic(("platform",), message)
