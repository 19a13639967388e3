"""Declares the stage ``exports``."""

from __future__ import annotations

from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import ALL, Stage
from firmwright.pipeline.stage_options import (
    SHOWN_SAMPLE,
    describe_board,
    list_shown_sample_files,
    require,
)


def templates(job: Job) -> list[str]:
    folders = [f"exports/{name}" for name in require(job.recipe.export).to]
    chosen = [f"{folder}/{files}" for folder in folders for files in ("export.yaml", "**/*.j2")]
    return ["exports/*.j2", *chosen]


STAGE = Stage(
    name="exports",
    sentence="package the network for other build systems",
    run="firmwright.stages.exports:run",
    reads=(
        *artifacts.OF_SAMPLES,
        artifacts.PLAN,
        artifacts.PROJECT,
        artifacts.RUN_SAMPLE,
    ),
    writes=(artifacts.EXPORTS,),
    keys=(
        *(*SHOWN_SAMPLE, "name", "c_prefix", "description", "arena", "export"),
        *("target", "devices", "compare"),
    ),
    platform=ALL,
    facts={"board": describe_board},
    inputs=lambda job: [*list_shown_sample_files(job), *job.device_files],
    templates=templates,
    condition="the key `export`",
    applies=lambda job: job.recipe.export,
    archive=lambda job: artifacts.EXPORTS.pack(job, "exports/"),
    about=("export",),
)
