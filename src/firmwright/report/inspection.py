"""Formats the facts that ``firmwright inspect`` prints about a bundle or an ELF image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from firmwright.report.explanation import format_count
from firmwright.report.manifest import CompiledArchive
from firmwright.report.rows import align_columns
from firmwright.report.timeline import CYCLES, Total
from firmwright.toolchain.flash_images import Section
from firmwright.toolchain.network_image import NetworkImage
from firmwright.toolchain.stack_depth import StackDepth

Manifest = Mapping[str, Any]

SHOWN_SOURCES = 8
"""The maximum number of operators in a layer's row. Regions of vendors' tools have hundreds."""
SOURCES_WIDTH = 200
"""The maximum number of characters for the operators of a row, without the number of others."""


@dataclass(frozen=True)
class InspectedImage:
    """An ELF image. ``sections`` are the sections that need memory, sorted by address.

    ``build_id`` is the note of GNU, in hexadecimal digits; null if the image has no such note.
    """

    file: str
    machine: str
    build_id: str | None
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class McubootEntry:
    """An entry after the firmware in an image for MCUboot. ``content`` is in hexadecimal digits."""

    kind: str
    bytes: int
    content: str


@dataclass(frozen=True)
class McubootImage:
    """An image for MCUboot. The reader checks its digest, but not its signatures.

    ``firmware_sha256`` is the digest of the firmware after the header. The digest of a bundle's
    ``firmware.bin`` is equal.
    """

    version: str
    load_address: int
    flags: int
    header_bytes: int
    firmware_bytes: int
    firmware_sha256: str
    digest_matches: bool
    entries: tuple[McubootEntry, ...]


@dataclass(frozen=True)
class ArchiveStep:
    """A step of the network in an archive, the core that runs the step, and the program, if any."""

    name: str
    processor: str
    program: str | None


@dataclass(frozen=True)
class InspectedArchive:
    """An archive of a device's compiler.

    ``made_by`` is the compiler and its version. ``steps`` are in the order of execution.
    ``remarks`` are deviations from the documented form that the reader accepts.
    """

    name: str | None
    made_by: str
    steps: tuple[ArchiveStep, ...]
    remarks: tuple[str, ...]
    contents: CompiledArchive


@dataclass(frozen=True)
class Inspection:
    """The output of ``firmwright inspect --json``.

    ``kind`` is ``bundle``, ``elf``, ``mcuboot``, ``network`` (the image of a network) or
    ``archive`` (the archive of a device's compiler). ``manifest`` is the bundle's manifest; null
    for an image. The form is ``manifest.schema.json``, or ``networks.schema.json`` if the firmware
    has several networks.
    """

    file: str
    kind: str
    bytes: int
    sha256: str
    images: tuple[InspectedImage, ...]
    manifest: dict[str, Any] | None
    mcuboot: McubootImage | None = None
    network: NetworkImage | None = None
    archive: InspectedArchive | None = None


def format_inspection(inspection: Inspection) -> str:
    head = [
        ("file", f"{inspection.file} ({inspection.bytes:,} bytes)"),
        ("sha256", inspection.sha256),
    ]
    parts = []
    if inspection.manifest is not None:
        several = "networks" in inspection.manifest
        head += (describe_networks if several else describe_manifest)(inspection.manifest)
        parts += [] if several else [["layers by device", *list_layers(inspection.manifest)]]
        parts.append(["files", *list_files(inspection.manifest)])
    if inspection.mcuboot is not None:
        head += describe_mcuboot(inspection.mcuboot)
        rows = [("entry", "bytes", "content")]
        rows += [(e.kind, f"{e.bytes:,}", e.content) for e in inspection.mcuboot.entries]
        parts.append(align_columns(rows, "<><"))
    if inspection.network is not None:
        head += describe_network(inspection.network)
    if inspection.archive is not None:
        head += describe_archive(inspection.archive)
        parts += list_contents(inspection.archive)
    parts = [align_columns(head, "<<"), *map(describe_image, inspection.images), *parts]
    return "\n\n".join("\n".join(lines) for lines in parts)


def describe_mcuboot(image: McubootImage) -> Iterator[tuple[str, str]]:
    yield "image", f"for MCUboot, version {image.version}, flags {image.flags:#x}"
    yield "load address", f"{image.load_address:#010x}"
    yield "header", f"{image.header_bytes:,} bytes"
    yield "firmware", f"{image.firmware_bytes:,} bytes, sha256 {image.firmware_sha256}"
    yield "digest", "right" if image.digest_matches else "missing, or wrong"


def describe_network(image: NetworkImage) -> Iterator[tuple[str, str]]:
    yield "network", f"{image.name}, version {image.version}, counter {image.counter}"
    yield "build id", image.build_id
    yield "interface", image.interface
    yield "image", f"{image.bytes:,} bytes at {image.address:#010x}"
    yield "workspace", f"{image.workspace_bytes:,} bytes"
    yield "checksum", "right" if image.checksum_matches else "wrong"


def to_line(text: str) -> str:
    """Return external text without line breaks, because line breaks could forge a line."""
    return " ".join(text.split())


def describe_archive(archive: InspectedArchive) -> Iterator[tuple[str, str]]:
    contents = archive.contents
    yield "archive", "a stand-in, which cannot run" if contents.stand_in else "for a device"
    yield "name", to_line(archive.name or "not stated")
    yield "made by", to_line(archive.made_by)
    desired, actual = (
        "not stated" if size is None else f"{size:,}"
        for size in (contents.desired_batch_size, contents.actual_batch_size)
    )
    yield "batch", f"{desired} desired, {actual} actual"
    if schedule := contents.static_schedule:
        cycles = sum(layer.end_cycle - layer.start_cycle + 1 for layer in schedule)
        yield "schedule", f"{cycles:,} cycles by the compiler, not measured"
    for remark in archive.remarks:
        yield "remark", to_line(remark)


def list_contents(archive: InspectedArchive) -> Iterator[list[str]]:
    steps = [(to_line(s.name), s.processor, to_line(s.program or "-")) for s in archive.steps]
    yield align_columns([("step", "core", "program"), *steps], "<<<")
    files = [(f.path, f"{f.bytes:,}", f.sha256) for f in archive.contents.members]
    yield ["files", *align_columns(files, "<><")]


def describe_networks(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "name", f"{manifest['name']} on {manifest['platform']}"
    yield "build id", manifest["build_id"]
    if manifest["flash_bytes"] is not None:
        yield "flash", f"{manifest['flash_bytes']:,} bytes"
        yield "RAM", f"{manifest['ram_bytes']:,} bytes"
    yield "run", "at the same time" if manifest["concurrent"] else "one after the other"
    agreed = manifest["run"]["networks"] if manifest["run"] else {}
    for name, network in manifest["networks"].items():
        agreement = agreed.get(name)
        differ = (
            f", {agreement['differences']:,} of {agreement['values']:,} values differ"
            if agreement
            else ""
        )
        yield name, f"{network['bundle']}, arena {network['arena_bytes']:,} bytes{differ}"


def describe_manifest(manifest: Manifest) -> Iterator[tuple[str, str]]:
    recipe, model, memory = manifest["recipe"], manifest["model"], manifest["memory"]
    yield "name", f"{manifest['name']} on {manifest['platform']}, target {manifest['target']}"
    if "description" in recipe:
        yield "about", to_line(recipe["description"])
    yield "build id", manifest["build_id"]
    yield "recipe", recipe["sha256"]
    yield "model", f"{model['sha256']} ({model['format']})"
    if "model_signature" in manifest:
        signature = manifest["model_signature"]
        yield "signed as", f"{signature['name']!r} by the key {signature['key']}"
    yield "batch", describe_batch(manifest["batch"])
    if "network" in manifest:
        image = manifest["network"]
        said = f"version {image['version']}, counter {image['counter']}"
        yield "network", f"{said}, {image['bytes']:,} bytes at {image['address']:#010x}"
    if manifest.get("not_built") is None:
        yield "flash", f"{memory['flash_bytes']:,} bytes"
        yield "RAM", f"{memory['ram_bytes']:,} bytes, the arena {memory['arena_bytes']:,} of them"
    else:
        yield "firmware", f"not built: {manifest['not_built']}"
        yield "arena", f"{memory['arena_bytes']:,} bytes"
    if stack := memory.get("stack"):
        yield "stack", str(StackDepth(stack["bytes"], stack["unknown"]))
    for name, used in memory["other_memories"].items():
        yield name, f"{used:,} bytes"
    for name, size in memory.get("constants", {}).items():
        yield f"constants in {name}", f"{size:,} bytes"
    yield "run", describe_run(manifest)
    versions = manifest["versions"].items()  # a compiler's version begins with its name
    yield "made by", ", ".join(v if v.startswith(name) else f"{name} {v}" for name, v in versions)


def describe_batch(batch: Mapping[str, Any] | None) -> str:
    if batch is None:
        return "1 (the recipe has no `batch`)"
    wanted, actual = batch["desired_batch_size"], batch["actual_batch_size"]
    return f"{actual:,} ({wanted:,} desired)"


def describe_run(manifest: Manifest) -> str:
    run, timeline = manifest["run"], manifest["timeline"]
    if run is None:
        return f"not run: {manifest['not_run']}"
    counted = f"{describe_total(timeline)}; " if timeline else ""
    samples = format_count(run["samples"], "sample", "samples")
    differ = f"{run['differences']:,} of {run['values']:,} values differ from {run['reference']}"
    return f"{counted}{samples}: {differ} ({run['emulator']})"


def describe_total(timeline: Mapping[str, Any]) -> Total:
    numbers: dict[str, Any] = {field.name: timeline.get(field.name) for field in fields(Total)}
    return Total(**numbers)


def describe_image(image: InspectedImage) -> list[str]:
    """Return a table of sections: *stored* sections are in flash, *written* sections in RAM."""
    rows = [("section", "address", "bytes", "memory")]
    for section in image.sections:
        memories = [
            *(["stored"] if section.stored else []),
            *(["written"] if section.writable else []),
        ]
        rows.append(
            (section.name, f"{section.address:#010x}", f"{section.bytes:,}", ", ".join(memories))
        )
    identity = f"build id {image.build_id}" if image.build_id else "no build id"
    return [f"{image.file}: {image.machine}, {identity}", *align_columns(rows, "<>><")]


def list_layers(manifest: Manifest) -> list[str]:
    """Return a table of the devices, and a table of the layers with the unit of their lengths."""
    layers, timeline = manifest["layers"], manifest["timeline"]
    unit = timeline["unit"] if timeline else CYCLES
    lengths = {
        layer["name"]: f"{layer['end'] - layer['start'] + 1:,}"
        for layer in (timeline["layers"] if timeline else ())
    }
    macs, counts = Counter[str](), Counter[str]()
    for layer in layers:
        macs[layer["device"]] += layer["macs"]
        counts[layer["device"]] += 1
    devices = [(name, str(counts[name]), f"{macs[name]:,}") for name in sorted(counts)]
    rows = [("layer", "device", "MACs", unit, "operators of the model")]
    for layer in layers:
        name, sources = layer["name"], format_sources(layer["sources"])
        counted = lengths.get(name, "-")
        rows.append((name, layer["device"], f"{layer['macs']:,}", counted, sources))
    return [
        *align_columns([("device", "layers", "MACs"), *devices], "<>>"),
        "",
        *align_columns(rows, "<<>><"),
    ]


def format_sources(names: Sequence[str]) -> str:
    """Return the first operators, and the number of others. A longer name ends with ``…``."""
    count = min(len(names), SHOWN_SOURCES)
    while count > 1 and len(", ".join(names[:count])) > SOURCES_WIDTH:
        count -= 1
    shown, others = ", ".join(names[:count]), len(names) - count
    if len(shown) > SOURCES_WIDTH:
        shown = f"{shown[: SOURCES_WIDTH - 1]}…"
    return f"{shown} and {others:,} more" if others else shown


def list_files(manifest: Manifest) -> list[str]:
    rows = [(f["path"], f"{f['bytes']:,}", f["sha256"]) for f in manifest["files"]]
    return align_columns(rows, "<><")
