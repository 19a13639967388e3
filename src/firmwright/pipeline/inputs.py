"""What a build reads that its recipe does not fix: files, samples, and the tools that decide."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.data.sources import DataSource
from firmwright.recipe.recipe import is_platform_file
from firmwright.tasks import accuracy, artifacts, calibration, firmware, model, run
from firmwright.toolchain import Build, find_compiler, make_host_build

from . import emulators
from .compilers import compiler_identity
from .extensions import extension_files, library_files
from .freshness import file_digest
from .job import Job
from .rewriting import rewrite_files

if TYPE_CHECKING:
    from firmwright.recipe.lock import Lock


def user_files(job: Job) -> list[Path]:
    """Return every file of the user's that decides about the bundle, but the recipe."""
    files = [*model.inputs(job), *rewrite_files(job), *extension_files(job), *job.device_files]
    files += [*library_files(job), *firmware.inputs(job), *run.inputs(job)]
    if is_platform_file(job.recipe.platform):
        files.append(job.recipe.resolve(job.recipe.platform))
    if job.has_stage("calibration"):
        files += calibration.inputs(job)
    if job.has_stage("accuracy"):
        files += accuracy.inputs(job)
    return list(dict.fromkeys(files))


def sampling_stages(job: Job) -> list[str]:
    """Return the stages that record the digests of samples which the recipe names."""
    own_run = job.recipe.run.inputs is not None
    stages = ["calibration", "accuracy", *(["run"] if own_run else [])]
    return [stage for stage in stages if job.has_stage(stage)]


def reads_pictures(job: Job) -> bool:
    recipe = job.recipe
    holders = [recipe.run, recipe.evaluate, recipe.quantize and recipe.quantize.calibration]
    named = [h.inputs for h in holders if h and isinstance(h.inputs, tuple)]
    sources: list[DataSource] = [source for inputs in named for _, source in inputs]
    return any(source.kind == "pictures" for source in sources)


def find_packages(job: Job) -> dict[str, str]:
    """Return the versions of the Python packages that decide about the bundle."""
    from firmwright.recipe.lock import (
        CORE_PACKAGES,
        FORMAT_PACKAGES,
        PICTURE_PACKAGES,
        QUANTIZATION_PACKAGES,
        find_package_versions,
    )

    recipe = job.recipe
    names = {*CORE_PACKAGES, *FORMAT_PACKAGES[recipe.model.format]}
    names.update(QUANTIZATION_PACKAGES if recipe.quantize else ())
    names.update(PICTURE_PACKAGES if reads_pictures(job) else ())
    for each in filter(None, (job, job.comparison_job)):
        names.update(name for device in each.mix for name in device.target.packages)
    return find_package_versions(names)


def list_builds(job: Job) -> list[Build]:
    """Return all that compiles: for a module, and for this machine where the C is evaluated."""
    found = [job.build]
    if job.loadable_build and job.has_stage("module"):
        found.append(job.loadable_build)
    if job.has_stage("accuracy"):
        found.append(make_host_build(job.platform))
    return found


def tools_identity(job: Job) -> list[Any]:
    """Return what tells the tools that decide from others, without starting one."""
    compilers = [compiler_identity(build) for build in list_builds(job)]
    return [
        find_packages(job),
        compilers,
        emulators.emulator_identity(job),
        artifacts.tidl_identity(job),
    ]


def collect_tool_versions(job: Job) -> dict[str, str]:
    """Return the versions of all that decides about the bundle, by name, sorted."""
    found = {
        b.toolchain.name: find_compiler(b.toolchain, b.platform.architecture).version
        for b in list_builds(job)
    }
    found |= find_packages(job) | emulators.emulator_versions(job) | artifacts.tidl_versions(job)
    return dict(sorted(found.items()))


def collect_fixed_inputs(job: Job) -> Lock:
    """Return what is known before anything is built: all but the samples."""
    from firmwright.recipe.lock import LOCK_VERSION, Lock, name_files

    files = name_files(user_files(job), job.recipe.path.parent)
    digests = {name: file_digest(path) for name, path in sorted(files.items())}
    return Lock(LOCK_VERSION, digests, {}, collect_tool_versions(job))


def collect_inputs(job: Job) -> Lock:
    """Return also the digests of the samples, as the stages that read them recorded them."""
    from firmwright.ir.records import read_record

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
    return replace(collect_fixed_inputs(job), samples=samples)
