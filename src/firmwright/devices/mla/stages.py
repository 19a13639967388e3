"""Defines the pipeline stage of the MLA, which writes inputs and results of SiMa's compiler."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from firmwright.devices.mla.sdk import (
    HOME_VARIABLE,
    PYTHON_VARIABLE,
    find_sdk,
    list_installed_files,
    read_version,
)
from firmwright.pipeline.artifact import Artifact, pack_listed
from firmwright.pipeline.artifacts import MODEL_INTERFACE, MODEL_MODULE, PARTITION
from firmwright.pipeline.declaration import ALL
from firmwright.pipeline.fingerprint import Fingerprint, find_fingerprint
from firmwright.pipeline.job import Job, Stage
from firmwright.pipeline.stage_options import MIX, REWRITES, list_run_files
from firmwright.pipeline.tool_stamps import Tool

if TYPE_CHECKING:
    from firmwright.report.manifest import ArtifactsReport

SDK_NAME = "SiMa Model SDK"

RECORD: Artifact[ArtifactsReport] = Artifact(
    "artifacts", "artifacts.json", "firmwright.report.manifest:ArtifactsReport"
)


def calibration_files(job: Job) -> list[Path]:
    is_quantized = job.recipe.quantize is not None
    samples = job.recipe.list_files("quantize") if is_quantized else list_run_files(job)
    return [*samples, *job.recipe.list_files("evaluate.labels", "evaluate.inputs")]


def ask_version() -> str | None:
    sdk = find_sdk()
    return read_version(sdk) if sdk else None


def fingerprint_sdk() -> Fingerprint | None:
    sdk = find_sdk()
    if sdk is None:
        return None
    release = os.environ.get("MODEL_COMPILER_VERSION", "")
    return find_fingerprint([str(sdk.python), release], lambda: list_installed_files(sdk))


ARTIFACTS = Stage(
    name="artifacts",
    sentence="write the inputs of SiMa's compiler, and compile if it is installed",
    run="firmwright.devices.mla.build_archive:run",
    reads=(MODEL_INTERFACE, MODEL_MODULE, PARTITION),
    keys=(*MIX, *REWRITES, "name", "batch", "quantize", "inputs", "run.inputs", "evaluate"),
    platform=ALL,
    variables=(PYTHON_VARIABLE, HOME_VARIABLE),
    inputs=calibration_files,
    templates=lambda _: ["mla/sdk/*.j2"],
    tools=lambda _: [Tool(SDK_NAME, fingerprint_sdk, ask_version, SDK_NAME)],
    archive=partial(pack_listed, RECORD),
)
