"""Passes the modules and answers of a build to later forks of this process."""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from pkgutil import resolve_name

import msgspec

from firmwright.bundle.components import read_license
from firmwright.errors import UserError
from firmwright.folders import PREFIXES
from firmwright.recipe.custom_code import find_custom_code
from firmwright.shared_cache.entry import CacheError
from firmwright.toolchain.compilers import ANSWERS, Question

from . import artifacts
from .artifact import Artifact
from .code_digest import CODE_FOLDERS, code_digest
from .command_line import load_jobs, make_catalog, set_variables
from .job import Job, Stage
from .recipe_arguments import find_recipes
from .stage_cache import find_cached, load_cache
from .task import (
    collect_configuration,
    find_deciding_packages,
    import_stages,
    list_dependencies,
    make_tasks,
)

STATEFUL = "firmwright.tasks.dodo"
"""The module of the task file, which reads the command line during its import."""

PACKAGES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
"""Folders that change when a package is installed or removed."""


def list_imported(known: Collection[str]) -> list[str]:
    """Return the imported modules except ``known``, the user's modules and the task file."""
    prefixes = (*PREFIXES, sysconfig.get_path("stdlib"), *PACKAGES)
    names = []
    for name, module in [each for each in sys.modules.items() if each[0] not in known]:
        file = getattr(module, "__file__", None) or ""
        if file.startswith(prefixes) and not name.startswith((STATEFUL, "__")):
            names.append(name)
    return names


def learn(modules: Iterable[str], answers: Iterable[tuple[Question, str]]) -> None:
    """Import the modules of a build, and keep the answers of programs, such as their versions.

    An import can fail if the module must be imported through its package.
    """
    for name in modules:
        with suppress(ImportError):
            import_module(name)
    ANSWERS.update((tuple(question), answer) for question, answer in answers)


def report_learned(known: Collection[str]) -> str:
    return json.dumps([list_imported(known), [*ANSWERS.items()]])


def learn_report(text: str) -> None:
    learn(*json.loads(text))
    learn_records()


def read_fixed_files() -> None:
    """Read the files that no build changes."""
    code_digest(CODE_FOLDERS)
    list(make_catalog().platforms.values())
    for package in find_deciding_packages():
        with suppress(PackageNotFoundError):
            read_license(package)
    learn_records()


def rehearse(
    arguments: Sequence[str], pipeline: tuple[Stage, ...], of_networks: tuple[Stage, ...]
) -> None:
    """Load a recipe and describe its stages without running them, and import their modules.

    Forks then inherit the caches. All modules are imported if the recipe has an error, which its
    build reports, or if it has custom code, which other recipes must not see. No module is imported
    if the user's cache has the result of the first stage, because the build then probably restores
    all results.
    """
    set_variables(arguments)
    with suppress(UserError):
        (layers,) = find_recipes()
        if not find_custom_code(layers):
            jobs = load_jobs(pipeline, of_networks)
            list(make_tasks(jobs))
            for job in jobs:
                stages = [each for each in job.stages.values() if job.has_stage(each.name)]
                import_stages(() if is_cached(job, stages[0]) else stages)
            return
    import_stages(pipeline)


def is_cached(job: Job, stage: Stage) -> bool:
    """Return whether the user's cache has the result of a stage that reads no other stage."""
    configuration = collect_configuration(job, stage)
    try:
        return bool(find_cached(job, stage, configuration, list_dependencies(job, stage), {}))
    except CacheError:
        load_cache.cache_clear()  # each job opens the cache again, and notes the error
        return False


def learn_records() -> None:
    """Let msgspec prepare the classes of records that a build has read, once for all forks."""
    for artifact in vars(artifacts).values():
        if isinstance(artifact, Artifact) and artifact.kind.partition(":")[0] in sys.modules:
            kind = resolve_name(artifact.kind)
            if is_dataclass(kind):
                msgspec.json.Decoder(kind)
