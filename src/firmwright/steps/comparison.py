"""Runs the stage ``comparison``: compares the cycles of two targets, layer by layer."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline.artifacts import COMPARISON, TIMELINE
from firmwright.pipeline.job import Job
from firmwright.report.comparison import compare_timelines, format_cycles


def run(job: Job, folder: Path) -> None:
    """Write ``comparison.json``."""
    other = job.comparison_job
    comparison = compare_timelines(
        TIMELINE.read(job), job.target, TIMELINE.read(other), other.target
    )
    COMPARISON.write(folder, comparison)
    job.note(f"clock cycles with {comparison.target}\n{format_cycles(comparison)}")
