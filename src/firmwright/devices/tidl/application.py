"""The program for the chip's Arm cores that runs the networks of TI's tools by TIDL-RT.

Its sources are the project's, but what stands in for TIDL: ``fw_tidl.c`` answers the calls instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from firmwright.codegen.templates import TEMPLATE_SUFFIX, make_environment, render
from firmwright.devices.tidl.names import RegionFiles
from firmwright.devices.tidl.record import BoundaryTensor, TidlRegionArtifacts
from firmwright.ir.tensors import ELEMENT_BYTES
from firmwright.project.files import network_file
from firmwright.project.write import write_file

PROGRAM = "application.elf"
FILES = ("fw_tidl.c", "Makefile")

TYPES = {
    "uint8": "TIDLRT_Uint8", "int8": "TIDLRT_Int8", "uint16": "TIDLRT_Uint16",
    "int16": "TIDLRT_Int16", "uint32": "TIDLRT_Uint32", "int32": "TIDLRT_Int32",
    "float32": "TIDLRT_Float32",
}  # fmt: skip
"""TIDL-RT's names of element types, by ours."""


@dataclass(frozen=True)
class CalledRegion:
    """A region, as its call finds it: the files of TI's tools, and its tensors in their order."""

    files: RegionFiles
    inputs: Sequence[BoundaryTensor]
    outputs: Sequence[BoundaryTensor]


def write_application(
    name: str, prefix: str, platform: str, called: Sequence[TidlRegionArtifacts], folder: Path
) -> None:
    """Write the sources that the program has beside the project's, and its Makefile.

    ``called`` are the regions in the order in which the network calls them; ``prefix`` is that of
    the project's files.
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
