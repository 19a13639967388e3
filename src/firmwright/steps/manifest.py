"""The manifest of a bundle, from what the stages recorded."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from firmwright.pipeline.artifact import Artifact
from firmwright.pipeline.artifacts import (
    ACCURACY,
    BATCH,
    BOXES,
    COMPARISON,
    FIRMWARE_SIZE,
    KERNELS,
    MAPPING,
    MODEL_INTERFACE,
    PARTITION,
    PLAN,
    QUANTIZATION,
    RUN,
    TIMELINE,
)
from firmwright.pipeline.job import Job
from firmwright.recipe.lock import Lock
from firmwright.report.manifest import (
    MANIFEST_VERSION,
    Arithmetic,
    ArtifactsReport,
    BundledFile,
    Manifest,
    MemoryReport,
    Source,
)

T = TypeVar("T")

ARTIFACTS: Artifact[ArtifactsReport] = Artifact(
    "artifacts", "artifacts.json", "firmwright.report.manifest:ArtifactsReport"
)
"""What the manifest has of the record of a device that brings this stage."""


def make_manifest(job: Job, files: tuple[BundledFile, ...], read: Lock) -> Manifest:
    """Return the manifest of an archive with these files; ``read`` is what the build read."""
    kernels = KERNELS.read(job)
    return Manifest(
        manifest_version=MANIFEST_VERSION,
        name=job.recipe.name,
        platform=job.platform.name,
        target=job.target,
        model=MODEL_INTERFACE.read(job),
        recipe=Source(job.recipe.sha256, job.recipe.description or msgspec.UNSET),
        files=files,
        arithmetic=Arithmetic(
            job.recipe.rounding, kernels.quantized_operators, kernels.float_operators
        ),
        memory=make_memory_report(job),
        batch=read_optional(job, BATCH),
        run=RUN.read(job),
        inputs=read,
        stand_ins={k.region: k.stand_in for k in kernels.kernels if k.stand_in},
        versions=read.versions,
        detection=BOXES.read(job) if job.recipe.detection else None,
        quantization=read_optional(job, QUANTIZATION),
        accuracy=read_optional(job, ACCURACY),
        cycles=read_optional(job, TIMELINE),
        comparison=read_optional(job, COMPARISON),
        mapping=read_optional(job, MAPPING),
        artifacts=read_optional(job, ARTIFACTS),
    )


def read_optional(job: Job, artifact: Artifact[T]) -> T | None:
    """Return what a stage recorded; None without the stage."""
    return artifact.read(job) if job.has_stage(artifact.stage) else None


def make_memory_report(job: Job) -> MemoryReport:
    linked, plan = FIRMWARE_SIZE.read(job), PLAN.read(job)
    return MemoryReport(
        flash_bytes=linked.flash_bytes,
        ram_bytes=linked.ram_bytes,
        arena_bytes=plan.arena_bytes,
        arena_lower_bound_bytes=plan.arena_lower_bound_bytes,
        other_memories=plan.other_arenas,
        copied_bytes=PARTITION.read(job).copied_bytes,
    )
