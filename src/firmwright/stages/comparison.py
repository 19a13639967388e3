"""Runs the stages ``comparison`` and ``mapping``, which compare two targets layer by layer."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline.artifacts import COMPARISON, KERNELS, MAPPING, PARTITION, TIMELINE
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage_options import require
from firmwright.report.comparison import (
    ORIGIN,
    compare_costs,
    compare_timelines,
    format_costs,
    format_times,
)
from firmwright.report.estimates import LayerEstimate, estimate_layers


def compare_counted(job: Job, folder: Path) -> None:
    """Write the comparison of the times that were counted."""
    other = job.comparison_job
    comparison = compare_timelines(
        TIMELINE.read(job), job.target, TIMELINE.read(other), other.target
    )
    COMPARISON.write(folder, comparison)
    head = f"{comparison.unit} with {comparison.target} ({comparison.source})"
    job.note(f"{head}\n{format_times(comparison)}")


def compare_estimated(job: Job, folder: Path) -> None:
    """Write the comparison of the costs that the platform's timing states."""
    other = job.comparison_job
    comparison = compare_costs(
        estimate_job_layers(job),
        job.target,
        estimate_job_layers(other),
        other.target,
        require(job.platform.timing).unverified,
    )
    MAPPING.write(folder, comparison)
    assumed = f"\nassumed: {', '.join(comparison.unverified)}" if comparison.unverified else ""
    job.note(f"{ORIGIN}\n{format_costs(comparison)}{assumed}")


def estimate_job_layers(job: Job) -> tuple[LayerEstimate, ...]:
    return estimate_layers(
        PARTITION.read(job),
        KERNELS.read(job),
        require(job.platform.timing),
        job.cores,
        f"{job.recipe.c_prefix}_run",
    )
