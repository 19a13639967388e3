"""Declares the stage ``comparison``."""

from __future__ import annotations

from firmwright.pipeline.artifacts import COMPARISON, MAPPING, RUN, TIMELINE
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Stage


def explain_absence(job: Job) -> str:
    if not job.recipe.compare or job.has_stage(MAPPING.stage):
        return ""
    if not job.platform.emulators:
        return f"nothing to compare: {job.platform.name} lists no emulator"
    return (
        f"nothing to compare: {job.emulator} counts no instructions, and {job.platform.name} "
        "states no `timing`"
    )


STAGE = Stage(
    name="comparison",
    sentence="compare the cycles with the cycles of another target",
    run="firmwright.stages.comparison:run",
    reads=(RUN, TIMELINE),
    compares=True,
    writes=(COMPARISON,),
    keys=("name", "target", "compare"),
    condition="the key `compare`, and an emulator that counts instructions",
    applies=lambda job: job.counts_instructions and job.recipe.compare,
    explain_absence=explain_absence,
    archive=COMPARISON.pack,
)
