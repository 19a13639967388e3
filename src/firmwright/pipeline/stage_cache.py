"""Restores and stores the results of stages in the cache that builds share."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from firmwright.created_folders import format_index
from firmwright.shared_cache import SharedCache, open_cache
from firmwright.shared_cache.entry import CacheError
from firmwright.shared_cache.stores import FolderStore

from .freshness import file_digest, text_digest
from .job import Job, Stage

UNLIMITED = 1 << 62
"""The maximum size of a fleet's results in bytes."""

OTHER_JOB = "another job of this fleet"
"""The origin of a result in the temporary folder of a fleet's results."""

FORMAT = 3
"""The version of the key. A new version does not find the entries of older versions."""


def find_key(
    job: Job,
    stage: Stage,
    configuration: Mapping[str, Any],
    files: Iterable[str],
    digests: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the digest of all inputs of a stage, which is equal on all machines.

    The digest includes the contents of files and their names below the build folder or the recipe's
    folder. The locations of these folders are ignored. ``digests`` are the digests of files that do
    not exist yet.
    """
    owners = [j.outdir for j in (job.origin or job, *job.members)]
    folders = [resolve_folder(str(folder)) for folder in (*owners, job.recipe.path.parent)]
    decisive = {
        "format": FORMAT,
        "stage": stage.name,
        "task": job.task_name(stage.name),
        "machine": [platform.system(), platform.machine()],
        **configuration,
        "files": [[name_file(p, folders), digests.get(p) or file_digest(p)] for p in files],
    }
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


@cache
def resolve_folder(folder: str) -> str:
    return os.path.realpath(folder)


def name_file(path: str, folders: Iterable[str]) -> str:
    """Return a file's path below the first folder that contains the file, or only the name."""
    folder, name = os.path.split(path)
    resolved = f"{resolve_folder(folder)}/{name}"
    relative_paths = (resolved[len(f) + 1 :] for f in folders if resolved.startswith(f"{f}/"))
    return next(relative_paths, name)


def take_or_run(
    job: Job, stage: Stage, folder: Path, make_key: Callable[[], str], run: Callable[[], None]
) -> str:
    """Restore a stage's result from the cache, or run the stage and store the result.

    Returns the origin of a restored result: the location of the cache entry, or OTHER_JOB. The
    origin is '' if the stage ran. The notes of a restored stage are shown again. If the cache has
    an error, a note reports the error and the stage runs. Stages with custom Python code always
    run, because the code may read unknown files.
    """
    shared = find_store(job, stage)
    if shared is None or any(path.suffix == ".py" for path in stage.inputs(job)):
        run()
        return ""
    key = make_key()
    try:
        entry = shared.restore(key, folder)
    except CacheError as error:
        job.note(f"shared cache: {error}; the stage ran instead")
        entry = None
    if entry is not None:
        job.notes.extend(entry.notes)
        return OTHER_JOB if shared in _of_fleet else shared.find_entry(key)
    if any(folder.iterdir()):  # a part of a damaged entry
        shutil.rmtree(folder)
        folder.mkdir()
    said = len(job.notes)
    run()
    try:
        shared.keep(key, folder, job.notes[said:])
    except CacheError as error:
        job.note(f"shared cache: {error}; the result was not stored")
    return ""


def find_cached(
    job: Job,
    stage: Stage,
    configuration: Mapping[str, Any],
    files: Collection[str],
    results: Mapping[str, str],
) -> str:
    """Return the digest of the index of a stage's result in the shared cache.

    The digest is '' if there is no result, or if an input is unknown. ``files`` are the inputs.
    ``results`` contains the digests of inputs that earlier stages will write, or '' for unknown
    digests. Raises CacheError if the cache cannot be read.
    """
    shared = load_cache()
    if shared is None or any(path.suffix == ".py" for path in stage.inputs(job)):
        return ""
    existing = [file for file in files if not results.get(file)]
    if not (results.keys().isdisjoint(existing) and all(map(os.path.exists, existing))):
        return ""
    entry = shared.read_entry(find_key(job, stage, configuration, files, results))
    if entry is None:
        return ""
    names = {target.name for target in stage.publish(job)}
    digests = {file.path: file.sha256 for file in entry.files if file.path not in names}
    return text_digest(format_index(digests))


_of_fleet: list[SharedCache] = []
"""The store in which the jobs of this process share results, or an empty list."""


def share_results(folder: Path) -> None:
    """Let the forks of this process share results in a folder that exists during the fleet."""
    _of_fleet[:] = [SharedCache(FolderStore(folder, limit=UNLIMITED))]


def find_store(job: Job, stage: Stage) -> SharedCache | None:
    """Return the cache that the user names, or the fleet's cache for results of all platforms."""
    shared = load_cache()
    if shared is None and _of_fleet and (job.origin or job).is_shared(stage.name):
        return _of_fleet[0]
    return shared


@cache
def load_cache() -> SharedCache | None:
    """Return the cache that the user names. A process opens the cache once."""
    return open_cache()
