"""comparison: what the recipe's target saves over another one, layer by layer."""

from __future__ import annotations

from pathlib import Path

from firmwright.errors import UserError
from firmwright.pipeline.artifacts import COMPARISON, RUN, TIMELINE
from firmwright.pipeline.job import Job
from firmwright.report.comparison import compare_timelines, format_cycles


def run(job: Job, folder: Path) -> None:
    """Write ``comparison.json``; UserError where the two run batches of different sizes."""
    other = job.comparison_job
    batch, others = RUN.read(job).batch, RUN.read(other).batch
    if batch != others:
        raise UserError(
            f"{job.recipe.name}: compare: a batch of {batch} fits with {job.target} and "
            f"one of {others} with {other.target}; ask for a `batch` that fits both"
        )
    comparison = compare_timelines(
        TIMELINE.read(job), job.target, TIMELINE.read(other), other.target
    )
    COMPARISON.write(folder, comparison)
    job.note(f"clock cycles with {comparison.target}\n{format_cycles(comparison)}")
