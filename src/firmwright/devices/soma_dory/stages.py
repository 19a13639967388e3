"""Defines the pipeline stage of DIANA's chip.

The stage runs the chip's project on a model of its registers. No emulator runs the chip's binaries,
so the stage compiles the C of the project for this machine. The driver has the user's sources, or
the sources of a stand-in if the user does not name a driver.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from firmwright.devices.soma_dory.chip_program import DRIVER, SDK
from firmwright.pipeline.artifact import Artifact
from firmwright.pipeline.artifacts import (
    BATCH_LAYOUT,
    INTERFACE,
    KERNELS,
    MODEL_INTERFACE,
    NETWORK_INTERFACE,
    NETWORK_VALUES,
    PARTITION,
    PROJECT,
)
from firmwright.pipeline.declaration import ALL
from firmwright.pipeline.job import Job, Stage
from firmwright.pipeline.stage_options import RUN_SAMPLES, list_sample_files
from firmwright.pipeline.tool_stamps import compiler_tool
from firmwright.toolchain import make_host_build


@dataclass(frozen=True, slots=True)
class ChipReport:
    """The file ``chip.json``: the program, its agreement with the reference, open questions.

    ``driver`` and ``registers`` name the origin of the compiled sources: the user or a stand-in.
    """

    driver: str
    registers: str
    compiler: str
    reference: str
    samples: int
    values: int
    differences: int
    open_questions: tuple[str, ...]


BOARD = "diana-chip"

REPORT: Artifact[ChipReport] = Artifact(
    "chip-check", "chip.json", "firmwright.devices.soma_dory.stages:ChipReport"
)


def list_sources(_: Job) -> list[Path]:
    """Return the user's files of the driver and the SDK, which replace the files of the
    stand-ins."""
    paths: list[Path] = []
    if DRIVER in os.environ:
        folder = Path(os.environ[DRIVER])
        paths += [*folder.glob("include/*.h"), *folder.glob("src/*.c")]
    if SDK in os.environ:
        paths += Path(os.environ[SDK], "install/include").glob("*/hwme/*.h")
    return sorted(paths)


CHIP_CHECK = Stage(
    name=REPORT.stage,
    sentence="run the chip's project over a model of its registers",
    run="firmwright.devices.soma_dory.chip_check:run",
    reads=(
        MODEL_INTERFACE,
        NETWORK_INTERFACE,
        NETWORK_VALUES,
        INTERFACE,
        BATCH_LAYOUT,
        PARTITION,
        KERNELS,
        PROJECT,
    ),
    keys=(*RUN_SAMPLES, "run.tolerance", "c_prefix", "inputs"),
    platform=ALL,
    variables=(DRIVER, SDK),
    inputs=lambda job: [*list_sample_files(job), *list_sources(job)],
    templates=lambda _: ["soma_dory/chip_check/**/*.j2", "boards/posix/*.j2"],
    tools=lambda job: [compiler_tool(make_host_build(job.platform))],
    condition="the platform diana-chip",
    applies=lambda job: job.platform.board == BOARD,
    archive=REPORT.pack,
)
