"""lock: what a build reads, by digest and version, written beside the recipe or compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from doit.tools import config_changed

from firmwright.created_folders import INDEX_FILE
from firmwright.errors import UserError
from firmwright.recipe.lock import Lock, compare_locks, read_lock, write_lock
from firmwright.recipe.recipe import lock_path
from firmwright.toolchain import load_platform, platform_names, toolchain_names

from . import inputs
from .job import Job
from .task import Title, run_action

MAX_LISTED = 20
"""Differences that a message lists."""

TASK_DOCS = {
    "lock": "write the digests of all that the recipe reads",
    "locked": "compare all that the recipe reads with its lock",
    "locked-files": "compare the files that the recipe reads with its lock",
}


def list_alternatives() -> set[str]:
    """Return the names of toolchains and emulators: a lock may have others than a build uses."""
    emulators = (name for p in platform_names() for name in load_platform(p).emulators)
    return {*toolchain_names(), *emulators}


def check_lock(job: Job, found: Lock) -> None:
    """Raise UserError where the recipe's lock has something else; nothing without a lock."""
    locked = read_lock(job.recipe.path)
    problems = compare_locks(locked, found, list_alternatives()) if locked else []
    if problems:
        more = [f"  and {len(problems) - MAX_LISTED} more"] if len(problems) > MAX_LISTED else []
        shown = [f"  {problem}" for problem in problems[:MAX_LISTED]]
        first = f"{lock_path(job.recipe.path)}: the build reads something else than is locked:"
        accept = f"where that is meant, `{lock_command(job)}` writes the lock anew"
        raise UserError("\n".join([first, *shown, *more, accept]))


def lock_command(job: Job) -> str:
    """Return the command that locks what was asked for, also on the command line."""
    overrides = [f"{name}={value}" for name, value in job.words.items()]
    return " ".join(["firmwright lock", str(job.recipe.path), *overrides])


def update_lock(job: Job, platforms: list[Job]) -> None:
    """Write the lock; it keeps its entries of other toolchains and emulators.

    Raises UserError where one lock cannot hold for all ``platforms`` that the recipe is built for.
    """
    refuse_other_files(job, platforms)
    found = inputs.collect_inputs(job)
    before = found
    with suppress(UserError):  # a damaged lock is replaced
        before = read_lock(job.recipe.path) or found
    kept = {n: version for n, version in before.versions.items() if n in list_alternatives()}
    merged = replace(
        found,
        versions=dict(sorted({**kept, **found.versions}.items())),
        programs=dict(sorted({**before.programs, **found.programs}.items())),
    )
    changed = write_lock(job.recipe.path, merged)
    job.note(f"{lock_path(job.recipe.path)}: {'written' if changed else 'is as it was'}")


def refuse_other_files(job: Job, platforms: list[Job]) -> None:
    """Raise UserError where another of the platforms has other files of the user's."""
    files = {*inputs.user_files(job)}
    for other in platforms:
        if {*inputs.user_files(other)} != files:
            names = f"'{job.platform.name}' and '{other.platform.name}'"
            message = f"{names} read other files, and a lock has those of one; name one platform"
            raise UserError(f"{lock_path(job.recipe.path)}: {message}")


def check_all(job: Job) -> None:
    if not job.lock_files:
        path = lock_path(job.recipe.path)
        raise UserError(f"{path}: no such file; `{lock_command(job)}` writes it")
    check_lock(job, inputs.collect_inputs(job))


def check_files(job: Job) -> None:
    """Compare what is known before anything is built."""
    locked = read_lock(job.recipe.path)
    assert locked is not None
    check_lock(job, replace(inputs.collect_fixed_inputs(job), samples=locked.samples))


def preceding_tasks(job: Job) -> list[str]:
    """Return the task that comes before all stages of a recipe with a lock."""
    return [f"locked-files:{job.bundle_name}"] if job.lock_files else []


def make_tasks(jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
    """Yield for each job the task that writes its lock, and those that compare with one."""
    for name, sentence in TASK_DOCS.items():
        yield {"basename": name, "name": None, "doc": sentence}
    platforms: dict[Path, list[Job]] = {}
    for job in (job for job in jobs if not job.members):  # those are locked by themselves
        alike = platforms.setdefault(job.outdir, [])
        # One after another, for they write the same file.
        before = [f"lock:{alike[-1].bundle_name}"] if alike else []
        alike.append(job)
        sampled = inputs.find_sampled(job).values()
        read = [str(job.folder(record.stage) / INDEX_FILE) for record in sampled]
        write = partial(update_lock, platforms=alike)
        yield {**make_task(job, "lock", write, read, False), "task_dep": before}
        yield make_task(job, "locked", check_all, read, False)
        if job.lock_files:
            files = [str(path) for path in (*inputs.user_files(job), *job.lock_files)]
            unchanged = config_changed({"tools": inputs.stamp_tools(job)})
            yield make_task(job, "locked-files", check_files, files, unchanged)


def make_task(
    job: Job, name: str, action: Callable[[Job], None], dependencies: list[str], unchanged: Any
) -> dict[str, Any]:
    return {
        "basename": name,
        "name": job.bundle_name,
        "doc": TASK_DOCS[name],
        "title": Title(job, name),
        "actions": [(run_action, [job, f"{name}:{job.bundle_name}", partial(action, job)])],
        "file_dep": dependencies,
        "uptodate": [unchanged],
        "verbosity": 2,
    }
