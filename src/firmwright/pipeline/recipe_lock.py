"""Writes the lock of a recipe, or compares the inputs of a build with the lock.

The lock contains the digests and versions of a build's inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from doit import get_var
from doit.tools import config_changed

from firmwright.created_folders import INDEX_FILE
from firmwright.documents.chain import EXTENDS
from firmwright.errors import UserError
from firmwright.folders import TOP
from firmwright.recipe.lock import Lock, compare_locks, name_files, read_lock, write_lock
from firmwright.recipe.recipe import lock_path
from firmwright.toolchain import load_platform, platform_names, toolchain_names

from . import build_inputs
from .build_root import list_package_folders
from .command_line import UPDATE
from .devices import find_packages
from .job import Job
from .task import make_job_task, refuse_task

MAX_LISTED = 20
TASK_DOCS = {
    "lock": "write the digests of all inputs of the recipe",
    "locked": "compare all inputs of the recipe with its lock",
    "locked-files": "compare the files that the recipe reads with its lock",
}


def list_alternatives() -> set[str]:
    emulators = (name for p in platform_names() for name in load_platform(p).emulators)
    return {*toolchain_names(), *emulators}


def check_lock(job: Job, new_lock: Lock) -> None:
    """Raise UserError if the inputs differ from the recipe's lock. A missing lock is accepted."""
    locked = read_lock(job.recipe.path)
    new_lock = build_inputs.add_request(job, new_lock, locked)
    problems = compare_locks(locked, new_lock, list_alternatives()) if locked else []
    if problems:
        more = [f"  and {len(problems) - MAX_LISTED} more"] if len(problems) > MAX_LISTED else []
        shown = [f"  {problem}" for problem in problems[:MAX_LISTED]]
        first = f"{lock_path(job.recipe.path)}: the inputs of the build differ from the lock:"
        accept = f"if that is intended, `{job.name_command('lock')}` writes the lock again"
        raise UserError("\n".join([first, *shown, *more, accept]))


def update_lock(job: Job, platforms: list[Job]) -> None:
    """Write the lock, and keep the entries for other platforms.

    Raises UserError if one lock cannot be valid for all ``platforms`` of the recipe.
    """
    refuse_other_files(job, platforms)
    new_lock = build_inputs.add_request(job, build_inputs.collect_inputs(job))
    key = get_var(UPDATE)
    before = new_lock
    with suppress(UserError):  # this command replaces a damaged lock
        before = read_lock(job.recipe.path) or new_lock
    merged = merge_locks(before, new_lock) if key is None else update_entry(job, new_lock, key)
    changed = write_lock(job.recipe.path, merged)
    job.note(f"{lock_path(job.recipe.path)}: {'written' if changed else 'is as it was'}")
    note_distant_bases(job)


def merge_locks(before: Lock, new_lock: Lock) -> Lock:
    """Return the new lock with the old entries of other toolchains, emulators and overlays.

    A platform without an emulator does not run samples, so the old samples of the run also remain.
    """
    kept = {n: version for n, version in before.versions.items() if n in list_alternatives()}
    samples = dict(new_lock.samples)
    if before.files == new_lock.files and not samples.get("run") and "run" in before.samples:
        samples["run"] = before.samples["run"]
    return replace(
        new_lock,
        samples=samples,
        versions=dict(sorted({**kept, **new_lock.versions}.items())),
        programs=dict(sorted({**before.programs, **new_lock.programs}.items())),
        bases=dict(sorted({**(before.bases or {}), **(new_lock.bases or {})}.items()))
        or new_lock.bases,
    )


def update_entry(job: Job, new_lock: Lock, key: str) -> Lock:
    """Return the old lock with new entries for the files and samples of one key.

    The key ``extends`` selects all bases. Raises UserError if there is no lock, or if the key has
    no digests.
    """
    before = read_lock(job.recipe.path)
    if before is None:
        raise UserError(
            f"{lock_path(job.recipe.path)}: no such file; first lock the whole recipe: "
            f"`{job.name_command('lock')}`"
        )
    folder = job.recipe.path.parent
    files = {*map(build_inputs.to_absolute, job.recipe.list_files(key))}
    every = name_files(build_inputs.user_files(job), folder, find_packages(job.recipe))
    named = {name for name, path in every.items() if build_inputs.to_absolute(path) in files}
    bases = merge_locks(before, new_lock).bases if key == EXTENDS else before.bases
    if not named and key not in new_lock.samples and not (key == EXTENDS and new_lock.bases):
        of_files = [known for known in job.recipe.data if job.recipe.list_files(known)]
        keys = dict.fromkeys([*of_files, *new_lock.samples, *([EXTENDS] if new_lock.bases else [])])
        message = f"the lock has no digest of the key '{key}'; it has digests of"
        raise UserError(f"--update: {message} {', '.join(keys)}")
    kept = {name: digest for name, digest in before.files.items() if name in new_lock.files}
    renewed = {name: new_lock.files[name] for name in named}
    samples = {key: new_lock.samples[key]} if key in new_lock.samples else {}
    return replace(
        before,
        files=dict(sorted({**kept, **renewed}.items())),
        samples={**before.samples, **samples},
        bases=bases,
    )


def note_distant_bases(job: Job) -> None:
    """Note the bases outside the recipe's git repository, or outside the current folder.

    Bases in installed packages are omitted, because packages have versions.
    """
    top = Path.cwd()
    above = [top, *job.recipe.path.absolute().parents]
    root = next((folder for folder in above if (folder / ".git").exists()), top)
    known = [root, *map(Path, list_package_folders()), TOP]
    for base in job.recipe.bases:
        if not any(build_inputs.to_absolute(base).is_relative_to(folder) for folder in known):
            job.note(
                f"{base}: the recipe extends this file, which is outside of the recipe's "
                "repository; copy the file into the repository"
            )


def refuse_other_files(job: Job, platforms: list[Job]) -> None:
    """Raise UserError if the user files differ between the platforms."""
    files = {*build_inputs.user_files(job)}
    for other in platforms:
        if {*build_inputs.user_files(other)} != files:
            names = f"'{job.platform.name}' and '{other.platform.name}'"
            message = f"{names} read different files, which one lock cannot have; name one platform"
            raise UserError(f"{lock_path(job.recipe.path)}: {message}")


def explain_missing_lock(job: Job) -> str:
    return f"{lock_path(job.recipe.path)}: no such file; `{job.name_command('lock')}` writes it"


def check_all(job: Job) -> None:
    if not job.lock_files:
        raise UserError(explain_missing_lock(job))
    check_lock(job, build_inputs.collect_inputs(job))


def check_files(job: Job) -> None:
    """Compare the lock with the inputs that exist before the build."""
    locked = read_lock(job.recipe.path)
    assert locked is not None
    check_lock(job, replace(build_inputs.collect_fixed_inputs(job), samples=locked.samples))


def preceding_tasks(job: Job) -> list[str]:
    return [f"locked-files:{job.bundle_name}"] if job.lock_files else []


def make_tasks(jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
    """Yield the tasks that write each job's lock or compare inputs with the lock."""
    single = [job for job in jobs if not job.members]  # members have separate locks
    yield from make_groups(single)
    platforms: dict[Path, list[Job]] = {}
    for job in single:
        alike = platforms.setdefault(job.outdir, [])
        # The tasks run one after the other, because they write one file.
        before = [f"lock:{alike[-1].bundle_name}"] if alike else []
        alike.append(job)
        sampled = build_inputs.find_sampled(job).values()
        read = [str(job.folder(record.stage) / INDEX_FILE) for record in sampled]
        write = partial(update_lock, platforms=alike)
        yield {**make_task(job, "lock", write, read, False), "task_dep": before}
        # A missing lock is an error before the stages run.
        yield make_task(job, "locked", check_all, read if job.lock_files else [], False)
        if job.lock_files:
            files = [*build_inputs.user_files(job), *job.recipe.bases, *job.lock_files]
            decisive = {"tools": build_inputs.stamp_tools(job), "overrides": job.overrides}
            unchanged = config_changed(decisive)
            yield make_task(job, "locked-files", check_files, [*map(str, files)], unchanged)


def make_groups(jobs: list[Job]) -> Iterator[dict[str, Any]]:
    """Yield the group of each name; ``locked-files`` fails if no job has a lock."""
    for name, sentence in TASK_DOCS.items():
        group = {"basename": name, "name": None, "doc": sentence}
        absent = name == "locked-files" and not any(job.lock_files for job in jobs)
        messages = dict.fromkeys(map(explain_missing_lock, jobs)) if absent else ()
        yield refuse_task(group, messages) if messages else group


def make_task(
    job: Job, name: str, action: Callable[[Job], None], dependencies: list[str], unchanged: Any
) -> dict[str, Any]:
    needed = {"file_dep": dependencies, "uptodate": [unchanged]}
    return make_job_task(job, name, TASK_DOCS[name], action, **needed)
