"""Defines the pipeline stages of TIDL, which write the inputs of TI's tools for each region."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from firmwright.created_folders import INDEX_FILE
from firmwright.devices.tidl.tools import TOOLS_VARIABLE, find_tools
from firmwright.pipeline.artifact import MODULE, Artifact, pack_listed
from firmwright.pipeline.artifacts import (
    BATCH,
    BATCH_LAYOUT,
    MODEL_INTERFACE,
    NETWORK_INTERFACE,
    PARTITION,
    PLAN,
    PROJECT,
    REGIONS,
)
from firmwright.pipeline.declaration import ALL
from firmwright.pipeline.job import Job, Stage
from firmwright.pipeline.stage_options import MIX, list_run_files
from firmwright.pipeline.tool_stamps import Tool, folder_tool
from firmwright.recipe.user_files import is_description_file
from firmwright.toolchain import Platform, load_platform
from firmwright.toolchain.opened_files import OpenedFiles, list_folder

if TYPE_CHECKING:
    from firmwright.devices.tidl.artifact_records import Artifacts
    from firmwright.ir.nodes import IRModule

RECORD: Artifact[Artifacts] = Artifact(
    "artifacts", "artifacts.json", "firmwright.devices.tidl.artifact_records:Artifacts"
)
STAND_INS: Artifact[IRModule] = Artifact("stand_in", "module.json", MODULE)


CALIBRATION = ("calibration", "quantize", "run.inputs", "evaluate.inputs", "inputs")
"""Recipe keys for the samples that determine the ranges of tensors."""


def calibration_files(job: Job) -> list[Path]:
    if job.recipe.calibration is not None:
        return job.recipe.list_files("calibration")
    quantize = job.recipe.quantize
    has_inputs = quantize is not None and quantize.calibration.inputs is not None
    return job.recipe.list_files("quantize") if has_inputs else list_run_files(job)


def is_for_chip(job: Job) -> bool:
    """Return whether a chip, not a PC, runs the networks that TI's tools compile."""
    return job.recipe.compile_for_device and job.platform.name != "host"


def artifacts_name(job: Job, batch: int = 0) -> str:
    """Return the folder name in TI's format, such as ``resnet8_J721S2_target_tidl_noc7x``."""
    recipe = job.recipe
    platform = job.platform
    if not is_description_file(recipe.platform):
        platform = load_platform(recipe.platform)
    name = platform.aliases[0] if platform.aliases else platform.name
    built_for = "target" if is_for_chip(job) else "host"
    devices = [device.name for device in recipe.target]
    c7x = "c7x" if "c7x" in devices else "noc7x"
    size = f"_bs{batch}" if batch else ""
    return f"{recipe.name}_{name}_{built_for}_tidl_{c7x}{size}"


def list_tools(job: Job) -> list[Tool]:
    """Return TI's tools with all their files, because they print no version without an import."""
    return [folder_tool("TIDL tools", partial(list_tool_files, job.platform))]


def list_tool_files(platform: Platform) -> OpenedFiles | None:
    tools = find_tools(platform)
    return list_folder(tools.path) if tools else None


STAND_IN = Stage(
    name="stand_in",
    sentence="quantize the stand-in for TIDL",
    run="firmwright.devices.tidl.stand_in:run",
    reads=(NETWORK_INTERFACE, PARTITION, REGIONS, BATCH_LAYOUT),
    keys=(*MIX, *CALIBRATION, "name", "platform", "compile_for_device"),
    platform=ALL,
    inputs=calibration_files,
    condition="a recipe without `quantize`",
    applies=lambda job: job.recipe.quantize is None,
    gives_regions=True,
)

ARTIFACTS = Stage(
    name="artifacts",
    sentence="write the inputs of TI's tools for each region",
    run="firmwright.devices.tidl.build_artifacts:run",
    reads=(MODEL_INTERFACE, NETWORK_INTERFACE, BATCH, PARTITION, REGIONS, BATCH_LAYOUT),
    keys=(*MIX, *CALIBRATION, "name", "platform", "compile_for_device"),
    platform=ALL,
    variables=(TOOLS_VARIABLE,),
    inputs=calibration_files,
    tools=list_tools,
    archive=partial(pack_listed, RECORD),
)


def runs_on_tidl_rt(job: Job) -> bool:
    """Return whether the Arm cores of a chip call each network of TI's tools."""
    return is_for_chip(job) and has_tools() and not job.mix[-1].target.core and job.origin is None


def has_tools() -> bool:
    """Return whether TI's tools import the regions, so that a chip needs no stand-in."""
    return bool(os.environ.get(TOOLS_VARIABLE))


def list_application(job: Job) -> dict[str, Path]:
    paths = (p for p in job.folder("application").iterdir() if p.name != INDEX_FILE)
    return {f"application/{path.name}": path for path in sorted(paths)}


APPLICATION = Stage(
    name="application",
    sentence="write the program that runs the networks of TI's tools",
    run="firmwright.devices.tidl.build_application:run",
    reads=(RECORD, PLAN, PROJECT),
    keys=("name", "c_prefix"),
    platform=ALL,
    variables=(TOOLS_VARIABLE,),
    templates=lambda _: ["tidl/application/*.j2"],
    condition=f"TI's tools ({TOOLS_VARIABLE}), a build for the chip, and a target that ends with c",
    applies=runs_on_tidl_rt,
    archive=list_application,
)
