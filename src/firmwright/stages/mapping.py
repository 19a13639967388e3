"""Runs the stage ``mapping``: compares the estimated costs of two targets."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline.artifacts import KERNELS, MAPPING, PARTITION
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage_options import require
from firmwright.report.comparison import ORIGIN, compare_costs, format_costs
from firmwright.report.estimates import LayerEstimate, estimate_layers


def run(job: Job, folder: Path) -> None:
    other = job.comparison_job
    found = compare_costs(
        estimate_job_layers(job),
        job.target,
        estimate_job_layers(other),
        other.target,
        require(job.platform.timing).unverified,
    )
    MAPPING.write(folder, found)
    assumed = f"\nassumed: {', '.join(found.unverified)}" if found.unverified else ""
    job.note(f"{ORIGIN}\n{format_costs(found)}{assumed}")


def estimate_job_layers(job: Job) -> tuple[LayerEstimate, ...]:
    return estimate_layers(
        PARTITION.read(job),
        KERNELS.read(job),
        require(job.platform.timing),
        job.cores,
        f"{job.recipe.c_prefix}_run",
    )
