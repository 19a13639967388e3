"""Collects the inputs of a build in addition to the recipe: files, samples and tools."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import UNSET

from firmwright.documents.stated_values import parse_key
from firmwright.models.formats import FORMATS
from firmwright.recipe import lock
from firmwright.recipe.overrides import complete_key, list_overrides
from firmwright.recipe.quantize_keys import Inputs

from .artifact import Artifact
from .artifacts import ACCURACY, CALIBRATION, RUN
from .devices import find_packages as find_device_packages
from .freshness import file_digest
from .job import Job
from .tool_stamps import Tool

SAMPLERS: tuple[tuple[str, Artifact[Any]], ...] = (
    ("calibration", CALIBRATION),
    ("evaluate", ACCURACY),
    ("run", RUN),
)
"""Pairs of a purpose of samples and the record of the stage that reads the samples."""


def user_files(job: Job) -> list[Path]:
    """Return every user file, except the recipe, that determines the bundle.

    A lock is valid for several platforms, so the result also includes the files of unused stages.
    """
    files = job.recipe.list_files()
    for stage in job.stages.values():
        files += () if stage.reads_all else stage.inputs(job)
    return list(dict.fromkeys(files))


def to_absolute(path: Path) -> Path:
    """Return an absolute path without ``..``.

    The result keeps symbolic links, unlike the result of resolve().
    """
    return Path(os.path.abspath(path))  # noqa: PTH100


def find_sampled(job: Job) -> dict[str, Artifact[Any]]:
    """Return a mapping from purposes to the records that contain the digests of samples."""
    has_run_inputs = job.recipe.run.inputs is not None
    return {
        purpose: record
        for purpose, record in SAMPLERS
        if job.has_stage(record.stage) and (purpose != "run" or has_run_inputs)
    }


def reads_pictures(job: Job) -> bool:
    recipe = job.recipe
    calibration = recipe.quantize and recipe.quantize.calibration
    holders = (recipe.run, recipe.evaluate, calibration, recipe.calibration)
    return any(has_pictures(holder.inputs) for holder in holders if holder)


def has_pictures(inputs: Inputs | None) -> bool:
    sources = inputs.values() if isinstance(inputs, dict) else ()
    return any(source.kind == "pictures" for source in sources)


def find_packages(job: Job) -> dict[str, str]:
    """Return the versions of the Python packages that determine the bundle."""
    recipe = job.recipe
    names = {*lock.CORE_PACKAGES, *FORMATS[recipe.model.format].packages}
    names.update(lock.QUANTIZATION_PACKAGES if recipe.quantize else ())
    names.update(lock.PICTURE_PACKAGES if reads_pictures(job) else ())
    return lock.find_package_versions(names | job.packages)


def list_tools(job: Job) -> list[Tool]:
    stages = (stage for stage in job.stages.values() if job.has_stage(stage.name))
    return [tool for stage in stages for tool in stage.tools(job)]


def stamp_tools(job: Job) -> list[Any]:
    return [find_packages(job), *([tool.name, tool.stamp()] for tool in list_tools(job))]


def collect_programs(job: Job) -> dict[str, str]:
    """Return the digest of each compiler's files, sorted by the compiler's name in a lock."""
    tools = {tool.locked_as: tool for tool in list_tools(job) if tool.locked_as}
    programs = {name: tool.find() for name, tool in sorted(tools.items())}
    return {name: each.digest for name, each in programs.items() if each}


def collect_versions(job: Job) -> dict[str, str]:
    """Return the versions of all packages and tools that determine the bundle, sorted by name."""
    versions = find_packages(job)
    for tool in {tool.name: tool for tool in list_tools(job)}.values():
        version = tool.version()
        if version is not None:
            versions[tool.name] = version
    return dict(sorted(versions.items()))


def collect_fixed_inputs(job: Job) -> lock.Lock:
    """Return all inputs except the samples. These inputs exist before the build starts."""
    packages = find_device_packages(job.recipe)
    files = lock.name_files(user_files(job), job.recipe.path.parent, packages)
    digests = {name: file_digest(path) for name, path in sorted(files.items())}
    return lock.Lock(lock.LOCK_VERSION, digests, {}, collect_versions(job), collect_programs(job))


def find_values(job: Job, keys: Iterable[str]) -> dict[str, Any]:
    """Return a mapping from keys to the recipe's values, or to None without a value."""
    values = {}
    for key in sorted(keys):
        value: Any = job.recipe.data
        for part in parse_key(key):
            value = value.get(part) if isinstance(value, dict) else None
        values[key] = value
    return values


def add_request(job: Job, new_lock: lock.Lock, locked: lock.Lock | None = None) -> lock.Lock:
    """Return a lock with the recipe's bases and the values of the command line.

    The lock also contains the recipe's values of all keys that are in ``locked``.
    """
    folder = job.recipe.path.parent
    files = lock.name_files(job.recipe.bases, folder)
    bases = {name: file_digest(path) for name, path in sorted(files.items())}
    short = {complete_key(key) for key in list_overrides()}
    given = {key.strip("+") for key in job.overrides if complete_key(key) not in short}
    keys = given.union(locked.values or () if locked else ())
    values = find_values(job, {*filter(lock.is_locked, keys)})
    return replace(new_lock, bases=bases or UNSET, values=values or UNSET)


def collect_inputs(job: Job) -> lock.Lock:
    """Return all inputs, including the sample digests that the stages recorded."""
    records = {purpose: record.read(job) for purpose, record in find_sampled(job).items()}
    samples = {p: r.inputs if p == "run" else r.samples for p, r in records.items()}
    return replace(collect_fixed_inputs(job), samples=samples)
