"""The file ``manifest.json`` of a bundle; ``manifest.schema.json`` is its published schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from firmwright.ir.kernels import FloatOperator
from firmwright.ir.records import build_schema, to_plain
from firmwright.ir.tensors import ModelInterface
from firmwright.planning.batch_size import BatchChoice
from firmwright.quantize.record import QuantizationRecord
from firmwright.recipe.lock import Lock
from firmwright.report.comparison import CostComparison, CycleComparison
from firmwright.report.timeline import Timeline
from firmwright.verify.detection import DetectionReport
from firmwright.verify.record import AccuracyRecord, RunRecord

MANIFEST_VERSION = 1


@dataclass(frozen=True)
class Source:
    """The recipe: its digest, and its description if it has one."""

    sha256: str
    description: str | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True)
class BundledFile:
    """A file of the archive; ``path`` is relative to the archive's one folder."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class MemoryReport:
    """Bytes, as linked. No placement needs less than ``arena_lower_bound_bytes``.

    ``other_memories`` has the arenas outside the processor's memory. ``copied_bytes`` is what one
    inference copies from memory to memory.
    """

    flash_bytes: int
    ram_bytes: int
    arena_bytes: int
    arena_lower_bound_bytes: int
    other_memories: dict[str, int]
    copied_bytes: int


@dataclass(frozen=True)
class Arithmetic:
    """How quantized values are computed.

    ``quantized_operators`` counts the operators on dequantized values. ``float_operators`` are
    those of them that run in float32; all others run on integers.
    """

    rounding: str
    quantized_operators: int
    float_operators: tuple[FloatOperator, ...]


@dataclass(frozen=True)
class RegionArtifacts:
    """What an accelerator's own tools are given of a region.

    ``bits`` are those of its integers. ``calibration_sha256`` digests the tensors that it reads
    for all samples of the calibration. A ``prequantized`` region has its quantization parameters.
    """

    number: int
    region: str
    bits: int
    prequantized: bool
    macs: int
    calibration_sha256: str


@dataclass(frozen=True)
class ArtifactsReport:
    """What the files in the archive's ``artifacts/<folder>`` were made from, and by which tools.

    ``model`` is the digest of the model file, ``samples`` are the digests of the ``frames`` that
    the tools calibrate with. ``tools`` is their version, null where they were not installed.
    ``files`` are relative to the folder.
    """

    folder: str
    files: tuple[str, ...]
    model: str
    frames: int
    samples: tuple[str, ...]
    tools: str | None
    regions: tuple[RegionArtifacts, ...]


@dataclass(frozen=True)
class Manifest:
    """The file ``manifest.json`` of a bundle.

    It has fewer fields of the stages' records than their descriptions tell of. ``recipe.sha256``
    is the digest of the resolved recipe (defaults filled in, overrides applied): comments do not
    change it. ``versions`` are those of the tools that decide about the bytes. ``detection`` lists
    the boxes of a recipe with `postprocess`. ``cycles`` is null where the emulator counts no
    instructions; ``comparison`` also without the recipe's `compare`. With `compare`, ``mapping``
    has estimated costs where the platform states its `timing`. ``stand_ins`` tells, by region,
    what its code stands in for. ``artifacts`` is what an accelerator's own tools are given, null
    for a target without such tools. ``run`` is null where nothing was run; ``not_run`` says why.
    """

    manifest_version: int
    name: str
    platform: str
    target: str
    model: ModelInterface
    recipe: Source
    files: tuple[BundledFile, ...]
    arithmetic: Arithmetic
    memory: MemoryReport
    batch: BatchChoice | None
    run: RunRecord | None
    inputs: Lock
    versions: dict[str, str]
    detection: DetectionReport | None = None
    quantization: QuantizationRecord | None = None
    accuracy: AccuracyRecord | None = None
    cycles: Timeline | None = None
    comparison: CycleComparison | None = None
    mapping: CostComparison | None = None
    stand_ins: dict[str, str] = field(default_factory=dict)
    artifacts: ArtifactsReport | None = None
    not_run: str | None = None


INCLUDED: Mapping[type, tuple[str, ...]] = {
    ModelInterface: ("format", "sha256"),
    Lock: ("files", "samples"),
    RunRecord: (
        "emulator", "reference", "instructions", "macs", "samples", "mismatches", "differences",
        "values", "max_difference", "tolerance", "counts",
    ),
    QuantizationRecord: ("engine", "scheme", "activations", "weights", "per_channel", "method"),
    AccuracyRecord: (
        "calibrated", "labelled", "reference", "firmware", "top1", "agreement", "metric", "boxes",
    ),
}  # fmt: skip
"""The fields that the manifest has of these records, in its order; of others it has them all."""


def to_content(manifest: Manifest) -> dict[str, Any]:
    """Return what ``manifest.json`` has: the included fields of each record."""
    content: dict[str, Any] = to_plain(manifest)
    for key, record in content.items():
        names = INCLUDED.get(type(getattr(manifest, key)))
        if names and record is not None:
            content[key] = {name: record[name] for name in names}
    return content


def build_manifest_schema() -> dict[str, Any]:
    """Return the schema of ``manifest.json``, without the fields that it leaves out."""
    schema = build_schema(Manifest)
    definitions = schema["$defs"]
    for kind, names in INCLUDED.items():
        record = definitions[kind.__name__]
        record["properties"] = {name: record["properties"][name] for name in names}
        record["required"] = list(names)
    while unused := [n for n in definitions if f'"#/$defs/{n}"' not in json.dumps(schema)]:
        for name in unused:
            del definitions[name]
    return schema
