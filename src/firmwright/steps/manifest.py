"""The manifest of a bundle, from what the stages recorded."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from firmwright.pipeline import artifacts
from firmwright.pipeline.artifact import Artifact
from firmwright.pipeline.job import Job
from firmwright.recipe.lock import Lock
from firmwright.report import manifest

T = TypeVar("T")

ARTIFACTS: Artifact[manifest.ArtifactsReport] = Artifact(
    "artifacts", "artifacts.json", "firmwright.report.manifest:ArtifactsReport"
)
"""What the manifest has of the record of a device that brings this stage."""


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
        run=artifacts.RUN.read(job),
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
