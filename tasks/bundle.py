"""Declares the stage ``bundle``."""

from __future__ import annotations

from firmwright.pipeline.artifacts import SUMMARY
from firmwright.pipeline.build_inputs import user_files
from firmwright.pipeline.stage import ALL, Stage
from firmwright.pipeline.stage_options import get_build, name_archives

STAGE = Stage(
    name="bundle",
    sentence="pack firmware, sources and manifest",
    run="firmwright.stages.bundle:run",
    reads_all=True,
    writes=(SUMMARY,),
    keys=ALL,
    platform=ALL,
    facts={"build": get_build, "archives": name_archives, "not built": lambda job: job.not_built},
    inputs=lambda job: [*user_files(job), *job.description_files.values()],
    templates=lambda _: ["report/*.j2", "bundle/*.j2"],
    applies=lambda job: not job.origin,
    publish=lambda job: [job.bundle, job.report, *job.box_pictures.values()],
)
