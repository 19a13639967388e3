"""bundle: one deterministic archive with its manifest."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from firmwright.ir.records import write_record
from firmwright.pipeline import artifacts
from firmwright.pipeline.artifact import Artifact
from firmwright.pipeline.inputs import collect_inputs
from firmwright.pipeline.job import Job
from firmwright.pipeline.lock import check_lock
from firmwright.recipe.lock import Lock
from firmwright.report import manifest

T = TypeVar("T")

ARTIFACTS: Artifact[manifest.ArtifactsReport] = Artifact(
    "artifacts", "artifacts.json", "firmwright.report.manifest:ArtifactsReport"
)
"""What the manifest has of the record of a device that brings this stage."""

COMPRESSION = 9


def run(job: Job, folder: Path) -> None:
    """Write ``manifest.json``, the archive, and the pictures of the first inference with boxes.

    Raises UserError where the build read something else than the recipe's lock says.
    """
    read = collect_inputs(job)
    check_lock(job, read)
    for stale in job.outdir.glob(f"{job.bundle_name}-boxes*.png"):
        stale.unlink()
    for drawn, published in job.box_pictures.items():
        (folder / published.name).write_bytes(drawn.read_bytes())
    contents = collect_files(job)
    listed = tuple(
        manifest.BundledFile(name, len(data), hashlib.sha256(data).hexdigest())
        for name, data in sorted(contents.items())
    )
    write_record(folder / "manifest.json", manifest.to_content(make_manifest(job, listed, read)))
    contents["manifest.json"] = (folder / "manifest.json").read_bytes()
    archive = folder / job.bundle.name
    write_archive(archive, job.bundle_name, contents)
    for stage in job.stages.values():
        if not job.has_stage(stage.name) and (reason := stage.explain_absence(job)):
            job.note(reason)


def collect_files(job: Job) -> dict[str, bytes]:
    """Return the archive's files by name: what the stages want in it."""
    stages = (stage for stage in job.stages.values() if job.has_stage(stage.name))
    return {name: path.read_bytes() for s in stages for name, path in s.archive(job).items()}


def make_manifest(
    job: Job, files: tuple[manifest.BundledFile, ...], read: Lock
) -> manifest.Manifest:
    """Return the manifest of an archive with these files; ``read`` is what the build read."""
    kernels = artifacts.KERNELS.read(job)
    return manifest.Manifest(
        manifest_version=manifest.MANIFEST_VERSION,
        name=job.recipe.name,
        platform=job.platform.name,
        target=job.target,
        model=artifacts.MODEL_INTERFACE.read(job),
        recipe=manifest.Source(job.recipe.sha256, job.recipe.description or msgspec.UNSET),
        files=files,
        arithmetic=manifest.Arithmetic(
            job.recipe.rounding, kernels.quantized_operators, kernels.float_operators
        ),
        memory=make_memory_report(job),
        batch=read_optional(job, artifacts.BATCH),
        run=read_optional(job, artifacts.RUN),
        not_run=None if job.has_stage("run") else explain_no_run(job),
        inputs=read,
        stand_ins={k.region: k.stand_in for k in kernels.kernels if k.stand_in},
        versions=read.versions,
        detection=artifacts.BOXES.read(job) if job.recipe.detection else None,
        quantization=read_optional(job, artifacts.QUANTIZATION),
        accuracy=read_optional(job, artifacts.ACCURACY),
        cycles=read_optional(job, artifacts.TIMELINE),
        comparison=read_optional(job, artifacts.COMPARISON),
        mapping=read_optional(job, artifacts.MAPPING),
        artifacts=read_optional(job, ARTIFACTS),
    )


def explain_no_run(job: Job) -> str:
    return f"the platform '{job.platform.name}' lists no emulator"


def read_optional(job: Job, artifact: Artifact[T]) -> T | None:
    """Return what a stage recorded; None without the stage."""
    return artifact.read(job) if job.has_stage(artifact.stage) else None


def make_memory_report(job: Job) -> manifest.MemoryReport:
    linked, plan = artifacts.FIRMWARE_SIZE.read(job), artifacts.PLAN.read(job)
    return manifest.MemoryReport(
        flash_bytes=linked.flash_bytes,
        ram_bytes=linked.ram_bytes,
        arena_bytes=plan.arena_bytes,
        arena_lower_bound_bytes=plan.arena_lower_bound_bytes,
        other_memories=plan.other_arenas,
        copied_bytes=artifacts.PARTITION.read(job).copied_bytes,
    )


def write_archive(path: Path, folder: str, files: Mapping[str, bytes]) -> None:
    """Write files below one folder: sorted, owned by root, at time 0, with plain modes."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", COMPRESSION, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(files[name])
            entry.mode = 0o755 if name.endswith(".elf") else 0o644
            entry.mtime = 0
            archive.addfile(entry, io.BytesIO(files[name]))
