"""comparison: what the recipe's target saves over another one, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firmwright.errors import UserError
from firmwright.pipeline.artifacts import COMPARISON, RUN, TIMELINE
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Stage


def get_comparison_job(job: Job) -> Job:
    """Return the job that compiles the same network for the recipe's ``compare``."""
    assert job.comparison_job is not None
    return job.comparison_job


def options(job: Job) -> Any:
    return [job.recipe.name, format_mix(job), format_mix(get_comparison_job(job))]


def format_mix(job: Job) -> str:
    return ", ".join(str(device) for device in job.recipe.target)


def run(job: Job, folder: Path) -> None:
    """Write ``comparison.json``; UserError where the two run batches of different sizes."""
    from firmwright.ir.records import read_record, write_record
    from firmwright.report.comparison import compare_timelines, format_cycles
    from firmwright.report.timeline import Timeline
    from firmwright.verify.record import RunRecord

    both = (job, get_comparison_job(job))
    own, other = (read_record(j.folder("stats") / "stats.json", Timeline) for j in both)
    batch, others = (read_record(j.folder("run") / "run.json", RunRecord).batch for j in both)
    if batch != others:
        raise UserError(
            f"{job.recipe.name}: compare: a batch of {batch} fits with {format_mix(both[0])} and "
            f"one of {others} with {format_mix(both[1])}; ask for a `batch` that fits both"
        )
    comparison = compare_timelines(own, format_mix(both[0]), other, format_mix(both[1]))
    write_record(folder / "comparison.json", comparison)
    print(f"   {job.recipe.name}: clock cycles with {comparison.target}")
    print("\n".join(f"   {line}" for line in format_cycles(comparison).splitlines()))


STAGE = Stage(
    name="comparison",
    sentence="compare the cycles with those of another target",
    run="firmwright.tasks.comparison:run",
    reads=(RUN, TIMELINE),
    compares=True,
    writes=(COMPARISON,),
    options=options,
    applies=lambda job: job.counts_instructions and job.recipe.compare,
    archive=COMPARISON.pack,
)
