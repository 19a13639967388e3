"""comparison: what the recipe's target saves over another one, layer by layer."""

from __future__ import annotations

from firmwright.pipeline.artifacts import COMPARISON, RUN, TIMELINE
from firmwright.pipeline.stage import Stage

STAGE = Stage(
    name="comparison",
    sentence="compare the cycles with those of another target",
    run="firmwright.steps.comparison:run",
    reads=(RUN, TIMELINE),
    compares=True,
    writes=(COMPARISON,),
    options=lambda job: [job.recipe.name, *(each.target for each in job.all_jobs)],
    applies=lambda job: job.counts_instructions and job.recipe.compare,
    archive=COMPARISON.pack,
)
