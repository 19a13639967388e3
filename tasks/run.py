"""Declares the stage ``run``."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import ALL, Stage
from firmwright.pipeline.stage_options import RUN_SAMPLES, describe_board, list_sample_files
from firmwright.pipeline.tool_stamps import Tool, emulator_tool


def list_emulators(job: Job) -> list[Tool]:
    """Return the emulator, or [] for a board, whose flash tool does not affect results."""
    if job.recipe.run.board is not None:
        return []
    return [emulator_tool(job.emulator, job.platform)]


def inputs(job: Job) -> list[Path]:
    return [*list_sample_files(job), *job.recipe.list_files("run.board")]


STAGE = Stage(
    name="run",
    sentence="run the firmware and compare it with the reference",
    run="firmwright.stages.run:run",
    reads=(
        *artifacts.OF_SAMPLES,
        artifacts.REFERENCE,
        artifacts.REFERENCE_OUTPUTS,
        artifacts.KERNELS,
        artifacts.FIRMWARE,
    ),
    writes=(artifacts.RUN, artifacts.RUN_SAMPLE, artifacts.RUN_OUTPUTS, artifacts.BOXES),
    keys=(
        *RUN_SAMPLES,
        "run.tolerance",
        "run.board",
        "detection",
        "classes",
        "c_prefix",
        "inputs",
        "slot",
        "hooks",
    ),
    platform=ALL,
    facts={"board": describe_board},
    inputs=inputs,
    templates=lambda job: [f"{device}/**/*.j2" for device in job.platform.accelerators],
    tools=list_emulators,
    condition="an emulator or a board that runs the firmware",
    applies=lambda job: job.is_run,
)
