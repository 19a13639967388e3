"""exports: the network as packages of other build systems."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec

from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import list_shown_sample_files, require, shown_sample_options
from firmwright.pipeline.stage import Stage


def options(job: Job) -> Any:
    recipe = job.recipe
    return {
        "name": recipe.name,
        "c_prefix": recipe.c_prefix,
        "description": recipe.description,
        "arena": recipe.arena,
        "export": msgspec.to_builtins(require(recipe.export)),
        "platform": asdict(job.platform),
        "sample": shown_sample_options(job),
    }


def templates(job: Job) -> list[str]:
    folders = [f"exports/{name}" for name in require(job.recipe.export).to]
    own = [f"{folder}/{files}" for folder in folders for files in ("export.yaml", "**/*.j2")]
    return ["exports/*.j2", *own]


STAGE = Stage(
    name="exports",
    sentence="package the network for other build systems",
    run="firmwright.steps.exports:run",
    reads=(
        *artifacts.OF_SAMPLES,
        artifacts.PLAN,
        artifacts.PROJECT,
        artifacts.RUN_SAMPLE,
    ),
    writes=(artifacts.EXPORTS,),
    options=options,
    inputs=list_shown_sample_files,
    templates=templates,
    applies=lambda job: job.recipe.export,
    archive=lambda job: artifacts.EXPORTS.pack(job, "exports/"),
    about=("export",),
)
