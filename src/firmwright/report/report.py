"""Defines ``report.json`` of a bundle: all data of the page and of the files for viewers.

``report.schema.json`` is the published schema of ``report.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from firmwright.ir.records import build_schema
from firmwright.ir.tensors import Tensor
from firmwright.planning.arena import Buffer
from firmwright.recipe.lock import Lock
from firmwright.report.advice import Advice
from firmwright.report.layer_rows import ReportedLayer
from firmwright.report.timeline import Total
from firmwright.toolchain.flash_images import Symbol
from firmwright.toolchain.stack_depth import StackDepth

REPORT_VERSION = 1
SCHEMA_NAME = "report.schema.json"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The model file: its format, its digest, its inputs and outputs."""

    format: str
    sha256: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """The agreement of the firmware's outputs with the reference. The run's record has details.

    ``instructions`` is the mean per inference; None if the emulator does not count instructions.
    """

    emulator: str
    reference: str
    samples: int
    exact_samples: int
    mismatches: int
    differences: int
    max_difference: float
    instructions: int | None


@dataclass(frozen=True, slots=True)
class Memory:
    """The static memory plan and the linked sizes, in bytes.

    ``flash`` and ``ram`` are None if there is no linked firmware. ``capacity`` has the platform's
    memories. ``steps`` are the regions in order of execution, to which the ``buffers`` refer. No
    placement needs less than ``arena_lower_bound``. ``symbols`` are the largest symbols of the
    firmware. ``constants`` has the memories from which constants are read, if there is a choice.
    ``stack`` is the stack of the run function. The field is missing if an operating system provides
    the stack.
    """

    flash: int | None
    ram: int | None
    capacity: dict[str, int]
    arena: int
    arena_lower_bound: int
    other_arenas: dict[str, int]
    steps: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    sections: dict[str, int]
    symbols: tuple[Symbol, ...]
    constants: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    stack: StackDepth | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class Roof:
    """The peak of a device according to its platform: MACs and bytes per cycle."""

    device: str
    macs_per_cycle: float
    bytes_per_cycle: float


@dataclass(frozen=True, slots=True)
class Report:
    """One bundle in the form that the report shows.

    ``devices`` are the devices of the target, in order. ``proof`` is None if there was no run.
    ``total`` is None if no instructions were counted. ``advice`` has the changes that would speed
    up the network. ``accuracy`` has the lines of the table that the stage `accuracy` prints.
    ``recipe`` is the resolved recipe, and ``inputs`` are the files that the build read.
    """

    report_version: int
    name: str
    platform: str
    platform_description: str
    target: str
    devices: tuple[str, ...]
    model: ModelFacts
    proof: Proof | None
    total: Total | None
    memory: Memory
    layers: tuple[ReportedLayer, ...]
    advice: tuple[Advice, ...]
    accuracy: tuple[str, ...]
    roofs: tuple[Roof, ...]
    recipe: dict[str, Any]
    inputs: Lock

    @property
    def title(self) -> str:
        return f"{self.name} on {self.platform}"


def build_report_schema() -> dict[str, Any]:
    """Return the schema of ``report.json``. The file names the schema under ``$schema``."""
    schema = build_schema(Report)
    definition = schema["$defs"]["Report"]
    definition["properties"] = {"$schema": {"const": SCHEMA_NAME}, **definition["properties"]}
    definition["required"] = ["$schema", *definition["required"]]
    return schema
