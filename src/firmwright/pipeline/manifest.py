"""The manifest of a bundle: what the stages recorded, as a bundle tells it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from .job import Job

if TYPE_CHECKING:
    from firmwright.recipe.lock import Lock
    from firmwright.report.manifest import BundledFile, Manifest, MemoryReport
    from firmwright.verify.detection import DetectionReport

Record = TypeVar("Record")
RECORDS = {"batch": "batch.json", "quantized": "quantization.json", "accuracy": "accuracy.json",
           "stats": "stats.json", "comparison": "comparison.json", "mapping": "mapping.json",
           "artifacts": "artifacts.json"}  # fmt: skip
"""Files of the stages that not every recipe has."""


def record_path(job: Job, stage: str) -> Path:
    return job.folder(stage) / RECORDS[stage]


def read_stage_record(job: Job, stage: str, kind: type[Record]) -> Record | None:
    """Return a stage's record, with the fields of ``kind``; None without the stage."""
    from firmwright.ir.records import read_record

    return read_record(record_path(job, stage), kind) if job.has_stage(stage) else None


def make_manifest(job: Job, files: tuple[BundledFile, ...], read: Lock) -> Manifest:
    """Gather what the earlier stages recorded."""
    from firmwright.ir.kernels import Kernels
    from firmwright.ir.records import read_record
    from firmwright.ir.tensors import ModelInterface
    from firmwright.planning.batch_size import BatchChoice
    from firmwright.quantize.record import QuantizationRecord
    from firmwright.report import manifest as reports
    from firmwright.report.comparison import CostComparison, CycleComparison
    from firmwright.report.timeline import Timeline
    from firmwright.verify.record import AccuracyRecord, RunRecord

    kernels = read_record(job.folder("kernels") / "kernels.json", Kernels)
    return reports.Manifest(
        manifest_version=reports.MANIFEST_VERSION,
        name=job.recipe.name,
        platform=job.platform.name,
        target=", ".join(str(d) for d in job.recipe.target),
        model=read_record(job.folder("model") / "model.json", ModelInterface),
        recipe=reports.Source(job.recipe.sha256),
        files=files,
        arithmetic=reports.Arithmetic(
            job.recipe.rounding, kernels.quantized_operators, kernels.float_operators
        ),
        memory=make_memory_report(job),
        batch=read_stage_record(job, "batch", BatchChoice),
        run=read_record(job.folder("run") / "run.json", RunRecord),
        inputs=read,
        stand_ins={k.region: k.stand_in for k in kernels.kernels if k.stand_in},
        versions=read.versions,
        detection=read_detection_report(job),
        quantization=read_stage_record(job, "quantized", QuantizationRecord),
        accuracy=read_stage_record(job, "accuracy", AccuracyRecord),
        cycles=read_stage_record(job, "stats", Timeline),
        comparison=read_stage_record(job, "comparison", CycleComparison),
        mapping=read_stage_record(job, "mapping", CostComparison),
        artifacts=read_stage_record(job, "artifacts", reports.ArtifactsReport),
    )


def make_memory_report(job: Job) -> MemoryReport:
    from firmwright.ir.records import read_record
    from firmwright.ir.regions import Partition
    from firmwright.planning import Plan
    from firmwright.report.manifest import MemoryReport
    from firmwright.toolchain.image import FirmwareSize

    linked = read_record(job.folder("firmware") / "memory.json", FirmwareSize)
    plan = read_record(job.folder("plan") / "plan.json", Plan)
    partition = read_record(job.folder("partition") / "partition.json", Partition)
    return MemoryReport(
        flash_bytes=linked.flash_bytes,
        ram_bytes=linked.ram_bytes,
        arena_bytes=plan.arena_bytes,
        arena_lower_bound_bytes=plan.arena_lower_bound_bytes,
        other_memories=plan.other_arenas,
        copied_bytes=partition.copied_bytes,
    )


def read_detection_report(job: Job) -> DetectionReport | None:
    from firmwright.ir.records import read_record
    from firmwright.verify.detection import DetectionReport

    if job.recipe.detection is None:
        return None
    return read_record(job.folder("run") / "boxes.json", DetectionReport)
