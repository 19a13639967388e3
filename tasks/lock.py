"""lock: what a build read, by digest and version; written beside the recipe, or compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doit import get_var
from doit.exceptions import TaskFailed
from doit.tools import config_changed

from firmwright.data.sources import Source
from firmwright.errors import UserError
from firmwright.recipe.recipe import lock_path

from . import accuracy, artifacts, calibration, firmware, model, run
from .compilers import identity
from .extensions import extension_files, library_files
from .freshness import digest
from .jobs import OVERRIDES, Job
from .network import rewrite_files
from .stage import INDEX

if TYPE_CHECKING:
    from firmwright.lock import Lock

SHOWN = 20
"""Differences that a message lists."""

SENTENCES = {
    "lock": "write the digests of all that the recipe reads beside it",
    "locked": "compare all that the recipe reads with its lock",
    "locked-files": "compare the files that the recipe reads with its lock",
}


def user_files(job: Job) -> list[Path]:
    """Return every file of the user's that decides about the bundle, but the recipe."""
    files = [*model.inputs(job), *rewrite_files(job), *extension_files(job), *job.device_files]
    files += [*library_files(job), *firmware.inputs(job)]
    files += [*run.inputs(job), *job.platform_files]
    if job.has("calibration"):
        files += calibration.inputs(job)
    if job.has("accuracy"):
        files += accuracy.inputs(job)
    return list(dict.fromkeys(files))


def sampling_stages(job: Job) -> list[str]:
    """Return the stages that record the digests of samples which the recipe names."""
    own_run = job.recipe.run.inputs is not None
    stages = ["calibration", "accuracy", *(["run"] if own_run else [])]
    return [stage for stage in stages if job.has(stage)]


def shows_pictures(job: Job) -> bool:
    recipe = job.recipe
    holders = [recipe.run, recipe.evaluate, recipe.quantize and recipe.quantize.calibration]
    named = [h.inputs for h in holders if h and isinstance(h.inputs, tuple)]
    sources: list[Source] = [source for inputs in named for _, source in inputs]
    return any(source.kind == "pictures" for source in sources)


def versions(job: Job) -> dict[str, str]:
    """Return the versions of the packages that decide about the bundle."""
    from firmwright.lock import package_versions

    recipe = job.recipe
    converts = recipe.quantize is not None or job.has("artifacts")
    return package_versions(recipe.model.format, converts, shows_pictures(job))


def files_and_versions(job: Job) -> Lock:
    """Return what is known before anything is built: all but the samples."""
    from firmwright.lock import LOCK_VERSION, Lock, named_files
    from firmwright.toolchain import find_compiler

    files = named_files(user_files(job), job.recipe.path.parent)
    compilers = {
        b.toolchain.name: find_compiler(b.toolchain, b.platform.architecture).version
        for b in job.builds
    }
    return Lock(
        LOCK_VERSION,
        {name: digest(path) for name, path in sorted(files.items())},
        {},
        dict(sorted({**versions(job), **compilers, **artifacts.tool_versions(job)}.items())),
    )


def all_that_is_read(job: Job) -> Lock:
    """Return also the digests of the samples, as the stages that read them recorded them."""
    from firmwright.records import read_record

    samples = {}
    stages = sampling_stages(job)
    if "calibration" in stages:
        from firmwright.quantize.calibration import CalibrationRecord

        calibrated = read_record(job.folder("calibration") / "calibration.json", CalibrationRecord)
        samples["calibration"] = calibrated.samples
    if "accuracy" in stages:
        from firmwright.verify.accuracy import AccuracyRecord

        judged = read_record(job.folder("accuracy") / "accuracy.json", AccuracyRecord)
        samples["evaluate"] = judged.samples
    if "run" in stages:
        from firmwright.verify.record import RunRecord

        ran = read_record(job.folder("run") / "run.json", RunRecord)
        samples["run"] = ran.inputs
    return replace(files_and_versions(job), samples=samples)


def check(job: Job, found: Lock) -> None:
    """Raise UserError where the recipe's lock has something else; nothing without a lock."""
    from firmwright.lock import other_inputs, read_lock
    from firmwright.toolchain import toolchain_names

    locked = read_lock(job.recipe.path)
    problems = other_inputs(locked, found, toolchain_names()) if locked else []
    if problems:
        more = [f"  and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        shown = [f"  {problem}" for problem in problems[:SHOWN]]
        first = f"{lock_path(job.recipe.path)}: the build reads something else than is locked:"
        accept = f"where that is meant, `{lock_command(job)}` writes the lock anew"
        raise UserError("\n".join([first, *shown, *more, accept]))


def lock_command(job: Job) -> str:
    """Return the command that locks what was asked for, also on the command line."""
    overrides = [f"{name}={get_var(name)}" for name in OVERRIDES if get_var(name) is not None]
    return " ".join(["firmwright lock", str(job.recipe.path), *overrides])


def write(job: Job) -> None:
    """Write the lock; it keeps the versions of other toolchains that it has."""
    from firmwright.lock import read_lock, write_lock
    from firmwright.toolchain import toolchain_names

    found = all_that_is_read(job)
    before: dict[str, str] = {}
    with suppress(UserError):  # a damaged lock is replaced
        locked = read_lock(job.recipe.path)
        before = locked.versions if locked else {}
    kept = {name: before[name] for name in toolchain_names() if name in before}
    all_versions = dict(sorted({**kept, **found.versions}.items()))
    changed = write_lock(job.recipe.path, replace(found, versions=all_versions))
    print(f"   {lock_path(job.recipe.path)}: {'written' if changed else 'is as it was'}")


def check_all(job: Job) -> None:
    if not job.locks:
        path = lock_path(job.recipe.path)
        raise UserError(f"{path}: no such file; `{lock_command(job)}` writes it")
    check(job, all_that_is_read(job))


def check_files(job: Job) -> None:
    """Compare what is known before anything is built."""
    from firmwright.lock import read_lock

    locked = read_lock(job.recipe.path)
    assert locked is not None
    check(job, replace(files_and_versions(job), samples=locked.samples))


def check_before(job: Job) -> list[str]:
    """Return the task that comes before all stages of a recipe with a lock."""
    return [f"locked-files:{job.bundle_name}"] if job.locks else []


def tasks(jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
    """Yield for each job the task that writes its lock, and those that compare with one."""
    for name, sentence in SENTENCES.items():
        yield {"basename": name, "name": None, "doc": sentence}
    for job in jobs:
        read = [str(job.folder(stage) / INDEX) for stage in sampling_stages(job)]
        yield task(job, "lock", write, read, False)
        yield task(job, "locked", check_all, read, False)
        if job.locks:
            files = [str(path) for path in (*user_files(job), *job.locks)]
            tools = [versions(job), *map(identity, job.builds), artifacts.tools_identity(job)]
            yield task(job, "locked-files", check_files, files, config_changed({"tools": tools}))


def task(
    job: Job, name: str, action: Callable[[Job], None], dependencies: list[str], unchanged: Any
) -> dict[str, Any]:
    return {
        "basename": name,
        "name": job.bundle_name,
        "doc": SENTENCES[name],
        "actions": [(told, [action, job])],
        "file_dep": dependencies,
        "uptodate": [unchanged],
        "verbosity": 2,
    }


def told(action: Callable[[Job], None], job: Job) -> bool | TaskFailed:
    """Run an action; a user's mistake fails the task with its message alone."""
    try:
        action(job)
    except UserError as error:
        return TaskFailed(str(error))
    except OSError as error:
        return TaskFailed(f"{error.filename}: {error.strerror or error}")
    return True
