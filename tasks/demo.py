"""demo: an application that shows one inference, built by the C project's Makefile."""

from __future__ import annotations

from typing import Any

from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import list_shown_sample_files, shown_sample_options
from firmwright.pipeline.stage import Stage
from firmwright.toolchain.boards import load_board


def options(job: Job) -> Any:
    canonical = job.recipe.canonical
    return {
        **{key: canonical[key] for key in ("name", "c_prefix", "arena", "demo")},
        "data_section": load_board(job.platform.board).data_section,
        "sample": shown_sample_options(job),
    }


STAGE = Stage(
    name="demo",
    sentence="write the demo application",
    run="firmwright.steps.demo:run",
    reads=(
        *artifacts.OF_SAMPLES,
        artifacts.PLAN,
        artifacts.PROJECT,
        artifacts.RUN_SAMPLE,
    ),
    writes=(artifacts.DEMO,),
    options=options,
    inputs=list_shown_sample_files,
    templates=lambda job: [
        "demo/*.j2",
        "application/console.j2",
        "network/arena.j2",
        *(f"{device}/hooks/profiler_*.j2" for device in job.platform.accelerators),
    ],
    applies=lambda job: job.recipe.demo,
    archive=lambda job: artifacts.DEMO.pack(job, "src/demo/"),
)
