"""Converts a job's stage to a doit task, which replaces the whole result folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import dropwhile
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import msgspec
from doit.exceptions import TaskFailed

from firmwright import __version__, progress
from firmwright.created_folders import (
    INDEX_FILE,
    ORIGINS_FILE,
    begin_results,
    finish_results,
    list_files,
    refuse_foreign_files,
    remove_folder,
    remove_results,
)
from firmwright.custom.reads import guard_reads
from firmwright.data.fetch import WrongDigestError
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import DiagnosticError, UserError
from firmwright.models.formats import FORMATS
from firmwright.plugins import list_tflite_vendors
from firmwright.process import describe
from firmwright.recipe import lock
from firmwright.targets.load_devices import load_target, target_names

from .code_digest import CODE_FOLDERS, code_digest, digest_templates
from .declaration import StageDeclaration
from .freshness import InputWatch, UpToDateCheck, file_digest
from .job import Job, Stage
from .ownership import claim_folders, list_published, publish, refuse_foreign_targets
from .profile import measure
from .stage_options import collect_options


@dataclass(frozen=True)
class Title:
    """A task's job and stage.

    doit calls the object to get a title, and the reporter reads the fields.
    """

    job: Job
    stage: str

    def __call__(self, task: Any) -> str:
        return str(task.name)

    def import_stages(self) -> None:
        names = dropwhile(lambda name: name != self.stage, self.job.stages)
        import_stages(self.job.stages[name] for name in names if self.job.has_stage(name))


def import_stages(stages: Iterable[StageDeclaration[Any]]) -> None:
    for stage in stages:
        with suppress(ImportError):
            import_module(stage.function.partition(":")[0])


class StageFailed(TaskFailed):  # type: ignore[misc]
    """A user's error, and the notes that the stage wrote before the error."""

    def __init__(self, message: str, notes: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.notes = tuple(notes)


def make_tasks(jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
    """Yield a doit task for every stage of every job, in a group with the stage's name.

    Platforms that share a result also share the task.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    folders: set[Path] = set()
    absent: dict[str, list[str]] = {}
    for job in jobs:
        for stage in job.stages.values():
            group = {"basename": stage.name, "name": None, "doc": stage.sentence}
            tasks = groups.setdefault(stage.name, [group])
            folder = job.folder(stage.name)
            if job.makes_stage(stage.name) and folder not in folders:
                folders.add(folder)
                tasks.append(make_task(job, stage))
            elif not job.has_stage(stage.name) and job.origin is None:
                absent.setdefault(stage.name, []).append(explain_missing(job, stage))
    for name, tasks in groups.items():
        lacking = len(tasks) == 1 and name in absent
        yield from [refuse_task(tasks[0], absent[name])] if lacking else tasks
    yield from refuse_device_stages(groups) if groups else ()


def explain_missing(job: Job, stage: Stage) -> str:
    reason = stage.explain_absence(job) or f"it needs {stage.condition or 'another recipe'}"
    return f"{job.title} has no stage '{stage.name}': {reason}"


def refuse_task(group: dict[str, Any], messages: Iterable[str]) -> dict[str, Any]:
    """Return a task that fails with the messages and replaces a group without tasks.

    ``doit list`` omits a task whose ``meta`` contains ``refused``.
    """
    failed = TaskFailed("\n".join(messages))
    refused = {"actions": [lambda: failed], "meta": {"refused": True}}
    return {"basename": group["basename"], "doc": group["doc"], **refused}


def refuse_device_stages(known: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield a failing task for each stage of a device that no job's target contains."""
    devices: dict[str, list[str]] = {}
    stages: dict[str, Stage] = {}
    for name in target_names():
        for stage in map(resolve_name, load_target(name).stages):
            devices.setdefault(stage.name, []).append(name)
            stages[stage.name] = stage
    for stage in stages.values():
        if stage.name not in known:
            needs = f"add the device {' or '.join(devices[stage.name])} to a recipe's `target`"
            group = {"basename": stage.name, "doc": stage.sentence}
            yield refuse_task(group, [f"no recipe has the stage '{stage.name}'; {needs}"])


def make_task(job: Job, stage: Stage) -> dict[str, Any]:
    dependencies = list_dependencies(job, stage)
    name, folder = job.task_name(stage.name), job.folder(stage.name)
    targets = [name_index(job, stage.name), *map(str, stage.publish(job))]
    caches = [job.cache] if stage.name == next(iter(job.stages)) else []
    folders = [folder, partial_folder(folder), *caches]
    list_targets = partial(list_published, job) if stage.publish(job) else list
    unchanged = UpToDateCheck(collect_configuration(job, stage), lambda: list_outputs(job, stage))
    return {
        "basename": stage.name,
        "name": name.partition(":")[2],
        "doc": stage.sentence,
        "title": Title(job, stage.name),
        "actions": [
            (
                run_action,
                [job, name, partial(execute, job, stage, unchanged, dependencies), stage.about],
            )
        ],
        "file_dep": dependencies,
        "targets": targets,
        "uptodate": [unchanged],
        "clean": [(remove_results, [folders, list_targets])],
        "verbosity": 2,
    }


def make_job_task(
    job: Job, name: str, doc: str, action: Callable[[Job], None], **more: Any
) -> dict[str, Any]:
    """Return a task that is not a stage. ``more`` has further parts of the task."""
    return {
        "basename": name,
        "name": job.bundle_name,
        "doc": doc,
        "title": Title(job, name),
        "actions": [(run_action, [job, f"{name}:{job.bundle_name}", partial(action, job)])],
        "verbosity": 2,
        **more,
    }


def list_dependencies(job: Job, stage: Stage) -> list[str]:
    """Return the files that a stage reads, in the order of the stage's key in the shared cache."""
    return [*list_results(job, stage), *list_inputs(job, stage)]


def list_results(job: Job, stage: Stage) -> list[str]:
    needs = [name for name in job.stages if name != stage.name] if stage.reads_all else stage.needs
    jobs = job.all_jobs if stage.compares else (job,)
    jobs = job.members if stage.joins else jobs
    return [name_index(j, need) for j in jobs for need in needs if j.has_stage(need)]


def name_index(job: Job, stage: str) -> str:
    """Return the path of a stage's index file as text, because Path objects are slow."""
    return f"{job.folder(stage)}/{INDEX_FILE}"


def list_inputs(job: Job, stage: Stage) -> list[str]:
    return [*map(str, stage.inputs(job))]


def list_outputs(job: Job, stage: Stage) -> list[str]:
    # The build writes the file of origins after all stages have run.
    files = walk_files(str(job.folder(stage.name)), but=ORIGINS_FILE)
    return [*map(str, stage.publish(job)), *files]


def walk_files(folder: str, but: str) -> Iterator[str]:
    """Yield the files below a folder, except files with one name.

    This loop is faster than Path.rglob.
    """
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from walk_files(entry.path, but)
            elif entry.name != but and entry.is_file():
                yield entry.path


def collect_configuration(job: Job, stage: Stage) -> dict[str, Any]:
    """Return all values, except files, that affect the results, as decoded JSON."""
    return {
        "firmwright": __version__,
        "firmwright's code": code_digest(CODE_FOLDERS),
        "firmwright's templates": digest_templates(tuple(stage.templates(job))),
        "packages": find_deciding_packages() | lock.find_package_versions(job.packages),
        "python": [*sys.version_info[:2]],
        "options": to_json(collect_options(job, stage)),
        "tools": {tool.name: tool.stamp() for tool in stage.tools(job)},
    }


def to_json(value: Any) -> Any:
    """Return data in the form of decoded JSON: lists, and mappings whose keys are texts."""
    text = msgspec.json.encode(value, order="sorted", enc_hook=to_json_type)
    return msgspec.json.decode(text)


def to_json_type(value: Any) -> Any:
    """Convert a value whose type msgspec does not support, such as a subclass of ``str``."""
    return json.loads(json.dumps(value, sort_keys=True))


def run_action(
    job: Job, task: str, action: Callable[[], str | None], about: Pointer = ()
) -> dict[str, Any] | StageFailed:
    """Run the action of a task, or return StageFailed with only the message of a user's error.

    The message begins with the location of the recipe key ``about``, or with the task's name.

    Returns the job's notes, the shared cache entry that contains the result, and the requested
    times. doit passes these values between processes.
    """
    progress.begin_task(task)
    job.notes.clear()
    values: dict[str, Any] = {}
    try:
        with measure(values):
            taken = action()
    except WrongDigestError as error:
        return StageFailed(f"{locate(job.recipe.path, error.expected)}: {error}", job.notes)
    except DiagnosticError as error:
        return StageFailed(str(error), job.notes)
    except UserError as error:
        return StageFailed(locate_error(job, task, about, str(error)), job.notes)
    except MemoryError as error:
        return StageFailed(f"{task}: out of memory: {error}", job.notes)
    except OSError as error:
        return StageFailed(f"{task}: {tell_system_error(error, job.outdir)}", job.notes)
    except Exception as error:
        return StageFailed(f"{task}: {describe(error)}", job.notes)
    return {"notes": list(job.notes), "taken": taken or "", **values}


def tell_system_error(error: OSError, outdir: Path) -> str:
    """Return the system's error message after the file's path, or after the build folder."""
    existing = Path(error.filename2 or error.filename or outdir)
    existing = next((above for above in existing.parents if os.path.isfile(above)), existing)  # noqa: PTH113
    taken = isinstance(error, IsADirectoryError | NotADirectoryError | FileExistsError)
    remedy = "; remove it, and build again" if taken else ""
    return f"{existing}: {error.strerror or error}{remedy}"


def locate_error(job: Job, task: str, about: Pointer, message: str) -> str:
    """Return a message with the location of ``about``, or of a key below ``about``.

    The message may begin with the key, such as ``quantize: block: ``, if the recipe states the key.
    """
    if not about:
        return f"{task}: {message}"
    message = message.removeprefix(f"{about[0]}: ")
    key, _, rest = message.partition(": ")
    if job.recipe.states(below := (*about, *key.split("."))):
        about, message = below, rest
    return str(job.recipe.make_diagnostic(about, message))


def locate(recipe: Path, digest: str) -> str:
    """Return the location (file:line:column) of the first digest in a recipe."""
    for number, line in enumerate(recipe.read_text("utf-8").splitlines(), 1):
        column = line.lower().find(digest.lower())
        if column >= 0:
            return f"{recipe}:{number}:{column + 1}"
    return str(recipe)


def execute(job: Job, stage: Stage, unchanged: UpToDateCheck, dependencies: list[str]) -> str:
    """Run the stage in a new folder, then replace the last good result with the new result.

    Returns the shared cache entry that contained the result, or '' if the stage ran. Raises
    UserError if a user's file is in the folder, or at the path of a published file.
    """
    folder, targets = job.folder(stage.name), stage.publish(job)
    unfinished = partial_folder(folder)
    watched = InputWatch(dependencies)
    claim_folders(job, folder)
    refuse_foreign_files(folder)
    if targets:
        refuse_foreign_targets(job, targets)
    results = begin_results(unfinished)
    try:
        # The import is late, because an up-to-date build does not use the shared cache.
        from .stage_cache import find_key, take_or_run

        taken = take_or_run(
            job,
            stage,
            results,
            lambda: find_key(job, stage, unchanged.configuration, dependencies),
            lambda: run_watched(job, stage, results, watched),
        )
        if targets:
            publish(job, results, targets)
        finish_results(results, list_digests(results), folder)
    finally:
        remove_folder(unfinished)
    return taken


def run_watched(job: Job, stage: Stage, folder: Path, watched: InputWatch) -> None:
    """Run a stage. Raises UserError if the stage read an undeclared file or an input changed."""
    outdirs = [each.outdir for each in (job.origin or job, *job.members)]
    with guard_reads(job.recipe.path.parent, [job.recipe.path, *watched.before], outdirs):
        resolve_name(stage.function)(job, folder)
    watched.check()


def partial_folder(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.partial")


def list_digests(folder: Path) -> dict[str, str]:
    """Return a mapping from names below the folder to the SHA-256 of files that a stage wrote.

    The digest is '' for a link to a missing file.
    """
    paths = {name: folder / name for name in list_files(folder)}
    return {name: file_digest(p) if p.is_file() else "" for name, p in paths.items()}


@cache
def find_deciding_packages() -> dict[str, str]:
    """Return the versions of all packages that affect the results of any stage."""
    of_targets = (load_target(name).packages for name in target_names())
    of_vendors = (point.dist.name for point in list_tflite_vendors() if point.dist is not None)
    groups = (
        lock.CORE_PACKAGES,
        lock.QUANTIZATION_PACKAGES,
        lock.PICTURE_PACKAGES,
        *(form.packages for form in FORMATS.values()),
        *of_targets,
        of_vendors,
    )
    return lock.find_package_versions({name for group in groups for name in group})
