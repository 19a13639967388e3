"""Writes the chip program that runs the results of TI's tools, and copies the results."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from firmwright.codegen.templates import TEMPLATE_SUFFIX, make_environment, render
from firmwright.devices.tidl.artifact_records import (
    BoundaryTensor,
    RegionFiles,
    TidlRegionArtifacts,
)
from firmwright.devices.tidl.artifacts import TEMP_FOLDER
from firmwright.devices.tidl.stages import RECORD
from firmwright.ir.tensors import ELEMENT_BYTES
from firmwright.pipeline.artifacts import PLAN
from firmwright.pipeline.job import Job
from firmwright.project.project_files import network_file
from firmwright.project.write import write_file


def run(job: Job, folder: Path) -> None:
    record = RECORD.read(job)
    if not record.regions:
        job.note("TIDL has no region, so TIDL-RT does not run any layer")
        return
    regions = {region.region: region for region in record.regions}
    steps = [step.region for step in PLAN.read(job).schedule.steps]
    called = [regions[name] for name in steps if name in regions]
    recipe = job.recipe
    write_application(recipe.name, recipe.c_prefix, job.platform.name, called, folder)
    made = RECORD.path(job).parent / record.folder / TEMP_FOLDER
    for name in (n for r in record.regions for n in RegionFiles(r.number).tool_files):
        shutil.copyfile(made / name, folder / name)
    count = f"{len(called)} region{'s' if len(called) != 1 else ''}"
    job.note(
        f"{count} by TIDL-RT, from the files of TI's tools {record.tools}, without stand-ins; "
        "compile it with its Makefile and the SDK in TIDL_RT_PATH"
    )


PROGRAM = "application.elf"
FILES = ("fw_tidl.c", "Makefile")

TYPES = {
    "uint8": "TIDLRT_Uint8", "int8": "TIDLRT_Int8", "uint16": "TIDLRT_Uint16",
    "int16": "TIDLRT_Int16", "uint32": "TIDLRT_Uint32", "int32": "TIDLRT_Int32",
    "float32": "TIDLRT_Float32",
}  # fmt: skip


@dataclass(frozen=True)
class CalledRegion:
    """The data for a region's call: the files of TI's tools, and the region's tensors in order."""

    files: RegionFiles
    inputs: Sequence[BoundaryTensor]
    outputs: Sequence[BoundaryTensor]


def write_application(
    name: str, prefix: str, platform: str, called: Sequence[TidlRegionArtifacts], folder: Path
) -> None:
    """Write the program's Makefile and the sources that the project does not contain.

    ``called`` are the regions in the order of the network's calls.
    """
    regions = [CalledRegion(RegionFiles(r.number), r.inputs, r.outputs) for r in called]
    stand_ins = [*(f"{r.region}.c" for r in called), "c7x_regions.c"]
    variables = {
        "name": name,
        "platform": platform,
        "program": PROGRAM,
        "regions": regions,
        "most": max(max(len(r.inputs), len(r.outputs)) for r in regions),
        "types": TYPES,
        "bytes": count_bytes,
        "stand_ins": [network_file(prefix, file) for file in stand_ins],
    }
    env = make_environment()
    for file in FILES:
        template = f"tidl/application/{file}{TEMPLATE_SUFFIX}"
        write_file(folder / file, render(env, template, variables))


def count_bytes(tensor: BoundaryTensor) -> int:
    return prod(tensor.shape) * ELEMENT_BYTES[tensor.dtype]
