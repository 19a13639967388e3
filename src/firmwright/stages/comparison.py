"""Runs the stage ``comparison``: compares the times of two targets, layer by layer."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline.artifacts import COMPARISON, TIMELINE
from firmwright.pipeline.job import Job
from firmwright.report.comparison import compare_timelines, format_times


def run(job: Job, folder: Path) -> None:
    other = job.comparison_job
    comparison = compare_timelines(
        TIMELINE.read(job), job.target, TIMELINE.read(other), other.target
    )
    COMPARISON.write(folder, comparison)
    head = f"{comparison.unit} with {comparison.target} ({comparison.source})"
    job.note(f"{head}\n{format_times(comparison)}")
