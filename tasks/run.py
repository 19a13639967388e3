"""run: the firmware in the emulator, compared with the reference."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import list_sample_files, run_sample_options
from firmwright.pipeline.stage import Stage
from firmwright.pipeline.tools import Tool, emulator_tool
from firmwright.toolchain.boards import load_board


def options(job: Job) -> Any:
    return {
        **run_sample_options(job),
        "tolerance": msgspec.to_builtins(job.recipe.run.tolerance),
        "detection": job.recipe.canonical.get("detection"),
        "c_prefix": job.recipe.c_prefix,
        "machine": load_board(job.platform.board).machine,
        "qemu": asdict(job.platform.qemu) if job.platform.qemu else None,
    }


def list_emulators(job: Job) -> list[Tool]:
    """Return the emulator; a board has none, and what flashes it decides about no result."""
    if job.recipe.run.board is not None:
        return []
    return [emulator_tool(job.emulator, job.platform)]


def inputs(job: Job) -> list[Path]:
    return [*list_sample_files(job), *job.recipe.list_files("run.board")]


STAGE = Stage(
    name="run",
    sentence="run the firmware and compare it with the reference",
    run="firmwright.steps.run:run",
    reads=(
        *artifacts.OF_SAMPLES,
        artifacts.REFERENCE,
        artifacts.REFERENCE_OUTPUTS,
        artifacts.KERNELS,
        artifacts.FIRMWARE,
    ),
    writes=(artifacts.RUN, artifacts.RUN_SAMPLE, artifacts.RUN_OUTPUTS, artifacts.BOXES),
    options=options,
    inputs=inputs,
    templates=lambda job: [f"{device}/**/*.j2" for device in job.platform.accelerators],
    tools=list_emulators,
    applies=lambda job: job.is_run,
)
