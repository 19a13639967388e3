"""Defines ``manifest.json`` of a bundle; ``manifest.schema.json`` is its published schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from firmwright.ir.kernels import FloatOperator
from firmwright.ir.records import build_schema, to_plain
from firmwright.ir.tensors import ModelInterface, ModelSignature
from firmwright.planning.batch_size import BatchChoice
from firmwright.quantize.quantization_record import QuantizationRecord
from firmwright.recipe.lock import Lock
from firmwright.report.comparison import CostComparison, TimeComparison
from firmwright.report.timeline import Timeline
from firmwright.toolchain.network_image import NetworkImage
from firmwright.toolchain.stack_depth import StackDepth
from firmwright.verify.detection import DetectionReport
from firmwright.verify.run_records import AccuracyRecord, Agreement, RunRecord


@dataclass(frozen=True, slots=True)
class Source:
    """The recipe: its digest, and its description if it has one.

    ``resolved`` is the content for the digest: every key with its default, without the folders of
    absolute paths. The digest is computed from JSON with sorted keys and no spaces.
    ``network_sha256`` is a digest without the keys that only evaluate, run or pack the network
    (`run`, `evaluate`, ...). The firmware contains this digest.
    """

    sha256: str
    network_sha256: str
    resolved: dict[str, Any]
    description: str | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A file of the archive. ``path`` is relative to the archive's only folder."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Sizes in bytes. No placement needs less than ``arena_lower_bound_bytes``.

    ``flash_bytes`` and ``ram_bytes`` are sizes of the linked firmware; null if there is no
    firmware. ``other_memories`` has the arenas outside the processor's memory. ``copied_bytes`` is
    the number of bytes that one inference copies between memories. ``constants`` has the memories
    from which constants are read, if the platform has several to choose from. ``stack`` is the
    stack of the run function, without interrupts. The field is missing if an operating system
    provides the stack.
    """

    flash_bytes: int | None
    ram_bytes: int | None
    arena_bytes: int
    arena_lower_bound_bytes: int
    other_memories: dict[str, int]
    copied_bytes: int
    constants: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    stack: StackDepth | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class ManifestLayer:
    """A region of the network and the device that computes it.

    ``sources`` names its operators in the model, and ``operators`` are their kinds. ``macs`` are
    the multiply-accumulates of one inference.
    """

    name: str
    device: str
    sources: tuple[str, ...]
    operators: tuple[str, ...]
    macs: int


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The arithmetic of quantized values.

    ``quantized_operators`` is the number of operators on dequantized values. The
    ``float_operators`` run in float32. All other operators run on integers.
    """

    rounding: str
    quantized_operators: int
    float_operators: tuple[FloatOperator, ...]


@dataclass(frozen=True, slots=True)
class RegionArtifacts:
    """The input of an accelerator's tools for one region.

    ``bits`` are the bits of its integers. ``calibration_sha256`` is the digest of the tensors that
    the region reads for all samples of the calibration. A ``prequantized`` region has its
    quantization parameters.
    """

    number: int
    region: str
    bits: int
    prequantized: bool
    macs: int
    calibration_sha256: str


@dataclass(frozen=True, slots=True)
class ScheduledLayer:
    """A layer in the static schedule of an accelerator's compiler. Both ends are inclusive.

    These cycles are not measured, and do not include stalls.
    """

    name: str
    start_cycle: int
    end_cycle: int


@dataclass(frozen=True, slots=True)
class CompiledArchive:
    """The result of an accelerator's compiler for the whole network.

    A ``stand_in`` was written without the compiler and cannot run. ``processors`` has the number of
    steps of the archive on each core. ``programs`` are the files that the cores run. The batch
    sizes are the requested and the actual size; null if the archive has no batch size.
    """

    file: str
    stand_in: bool
    members: tuple[BundledFile, ...]
    processors: dict[str, int]
    programs: tuple[str, ...]
    desired_batch_size: int | None
    actual_batch_size: int | None
    static_schedule: tuple[ScheduledLayer, ...]


@dataclass(frozen=True, slots=True)
class ArtifactsReport:
    """The sources of the files in the archive's ``artifacts/<folder>``, and the tools' version.

    ``model`` is the digest of the model file. ``samples`` are the digests of the ``frames`` with
    which the tools calibrate. ``tools`` is the version of the tools; null if they were not
    installed. ``files`` are relative to the folder. ``archive`` exists for tools that compile the
    whole network, and ``regions`` for tools that compile parts of the network.
    """

    folder: str
    files: tuple[str, ...]
    model: str
    frames: int
    samples: tuple[str, ...]
    tools: str | None
    regions: tuple[RegionArtifacts, ...] = ()
    archive: CompiledArchive | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The file ``manifest.json`` of a bundle.

    The manifest has fewer fields of the stages' records than the record descriptions list.

    ``build_id`` has 40 hexadecimal digits, and is also in the firmware and in the network's header.
    ``recipe.sha256`` is the digest of the resolved recipe, with defaults and overrides. ``files``
    are all files of the bundle except the manifest, and their sizes in bytes. ``layers`` are in
    order of execution. ``versions`` has the tools that affect the bytes. ``stages`` has a sentence
    for each stage of the build.

    ``run`` is null if the firmware did not run. ``not_run`` has the reason. ``timeline`` is null if
    the emulator counts no instructions. ``comparison`` needs counted instructions and the recipe's
    `compare`. ``mapping`` needs `compare` and the platform's `timing`. Four fields are null if the
    recipe lacks a key: ``batch``, ``detection`` (`postprocess`), ``quantization`` (`quantize`) and
    ``accuracy`` (`evaluate`). ``artifacts`` is null if there are no tools of an accelerator.
    ``not_built`` is the reason why the archive has no firmware; null if the archive has firmware.

    ``stand_ins`` maps a region to the tool whose result the region's code replaces.
    ``model_signature`` exists if the recipe requires a signature. ``network`` exists if the network
    is a separate image.
    """

    manifest_version: int
    name: str
    build_id: str
    platform: str
    target: str
    model: ModelInterface
    recipe: Source
    files: tuple[BundledFile, ...]
    arithmetic: Arithmetic
    layers: tuple[ManifestLayer, ...]
    memory: MemoryReport
    batch: BatchChoice | None
    run: RunRecord | None
    inputs: Lock
    versions: dict[str, str]
    stages: dict[str, str]
    detection: DetectionReport | None = None
    quantization: QuantizationRecord | None = None
    accuracy: AccuracyRecord | None = None
    timeline: Timeline | None = None
    comparison: TimeComparison | None = None
    mapping: CostComparison | None = None
    stand_ins: dict[str, str] = field(default_factory=dict)
    artifacts: ArtifactsReport | None = None
    not_run: str | None = None
    not_built: str | None = None
    model_signature: ModelSignature | msgspec.UnsetType = msgspec.UNSET
    network: NetworkImage | msgspec.UnsetType = msgspec.UNSET


INCLUDED: Mapping[type, tuple[str, ...]] = {
    ModelInterface: ("format", "sha256"),
    Lock: ("files", "samples", "programs"),
    RunRecord: (
        "emulator", "reference", "instructions", "macs", "samples", "mismatches", "differences",
        "values", "max_difference", "tolerance", "drawn", "counts",
    ),
    QuantizationRecord: ("engine", "scheme", "activations", "weights", "per_channel", "method"),
    AccuracyRecord: (
        "calibrated", "labelled", "reference", "firmware", "top1", "agreement", "metric", "boxes",
    ),
}  # fmt: skip
"""The fields of these records that the manifest contains, in order. Other records are complete."""


def to_content(manifest: Manifest) -> dict[str, Any]:
    """Return the content of ``manifest.json``: the included fields of each record."""
    content: dict[str, Any] = to_plain(manifest)
    for key, record in content.items():
        names = INCLUDED.get(type(getattr(manifest, key)))
        if names and record is not None:
            content[key] = {name: record[name] for name in names}
    return content


def build_manifest_schema() -> dict[str, Any]:
    """Return the schema of ``manifest.json`` without the fields that the manifest excludes."""
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


@dataclass(frozen=True, slots=True)
class NetworksRun:
    """The run of all networks in order, ``turns`` times, and the agreement of each network."""

    emulator: str
    turns: int
    networks: dict[str, Agreement]


@dataclass(frozen=True)
class NetworkEntry:
    """A network: the path and the digest of its bundle inside this bundle, and its sources.

    ``model`` and ``recipe`` are digests. ``arena_bytes`` is the size of the working memory.
    """

    bundle: str
    sha256: str
    model: str
    recipe: str
    arena_bytes: int


@dataclass(frozen=True)
class NetworksManifest:
    """The file ``manifest.json`` of a bundle of several networks.

    Sizes are null if there is no linked firmware.
    """

    kind: str
    firmwright: str
    name: str
    description: str | None
    build_id: str
    platform: str
    concurrent: bool
    flash_bytes: int | None
    ram_bytes: int | None
    networks: dict[str, NetworkEntry]
    run: NetworksRun | None
    files: tuple[BundledFile, ...]
