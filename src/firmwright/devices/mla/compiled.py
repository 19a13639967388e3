"""Checks the archive of SiMa's compiler, or writes a stand-in for it, next to the script."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from firmwright.bundle.archive import write_archive
from firmwright.devices.mla.compiler_input import SimaNetwork
from firmwright.devices.mla.mpk import Pipeline, read_pipeline
from firmwright.devices.mla.mpk_archive import read_archive, read_description
from firmwright.devices.mla.sdk import PYTHON_VARIABLE, SCRIPT
from firmwright.errors import UserError, first_line
from firmwright.ir.records import encode_record
from firmwright.ir.tensors import Tensor
from firmwright.report.manifest import ArtifactsReport, BundledFile, CompiledArchive, ScheduledLayer

COMPILED = "compiled"
"""The folder into which the SDK writes its archive."""
STATS_SUFFIX = "_mla_stats.yaml"


def read_compiled(
    workspace: Path, name: str, batch: int, required: bool
) -> tuple[CompiledArchive, Sequence[str]]:
    """Check the archive of SiMa's compiler in ``workspace``, and repack it with reproducible bytes.

    Returns the record of the archive, and the deviations that SiMa's reader accepts. Raises
    UserError if the archive does not match the description on SiMa's pages, or if it is for another
    batch. If ``required`` is true, also raises UserError if the archive does not support the batch.
    """
    file = f"{name}_mpk.tar.gz"
    archives = sorted(p.name for p in (workspace / COMPILED).glob("*.tar.gz"))
    if archives != [file]:
        raise UserError(
            f"SiMa's compiler did not write {workspace / COMPILED / file}; its folder has "
            f"{', '.join(archives) or 'no archive'}: check the version of the SDK"
        )
    files = read_archive(workspace / COMPILED / file)
    pipeline = read_pipeline(*read_description(files), list(files))
    check_batch(pipeline, batch, required)
    write_archive(workspace / file, "", files)
    return make_record(file, files, pipeline, stand_in=False), pipeline.remarks


def make_record(
    file: str, files: Mapping[str, bytes], pipeline: Pipeline, stand_in: bool
) -> CompiledArchive:
    return CompiledArchive(
        file=file,
        stand_in=stand_in,
        members=list_members(files),
        processors=pipeline.processors,
        programs=(*pipeline.mla_programs, *pipeline.arm_programs),
        desired_batch_size=pipeline.desired_batch_size,
        actual_batch_size=pipeline.actual_batch_size,
        static_schedule=read_schedules(files),
    )


def check_batch(pipeline: Pipeline, batch: int, required: bool) -> None:
    desired, actual = pipeline.desired_batch_size, pipeline.actual_batch_size
    if desired not in (None, batch):
        raise UserError(
            f"batch: SiMa's archive is for a batch of {desired}, and the recipe requires {batch}; "
            "correct `batch`, or compile the archive again"
        )
    if required and actual != batch:
        granted = "does not state a batch" if actual is None else f"supports {actual}"
        raise UserError(
            f"batch: the recipe requires {batch}, and SiMa's archive {granted}; lower `batch` or "
            "drop `require`"
        )


def write_stand_in(workspace: Path, name: str, network: SimaNetwork, batch: int) -> CompiledArchive:
    files = make_stand_in(name, network.inputs, network.outputs, batch)
    file = f"{name}_stand_in.tar.gz"
    write_archive(workspace / file, "", files)
    return CompiledArchive(
        file=file,
        stand_in=True,
        members=list_members(files),
        processors={},
        programs=(),
        desired_batch_size=batch,
        actual_batch_size=None,
        static_schedule=(),
    )


def list_members(files: Mapping[str, bytes]) -> tuple[BundledFile, ...]:
    return tuple(
        BundledFile(name, len(data), hashlib.sha256(data).hexdigest())
        for name, data in sorted(files.items())
    )


def describe_archive(record: ArtifactsReport, archive: CompiledArchive) -> list[str]:
    if archive.stand_in:
        lines = [
            f"{record.folder}: not compiled, because {PYTHON_VARIABLE} is not set; {archive.file} "
            f"is a stand-in; run {SCRIPT} on a machine with SiMa's Model SDK to make the archive"
        ]
        if (archive.desired_batch_size or 1) > 1:
            lines.append(
                f"batch {archive.desired_batch_size} desired; the actual batch of the MLA is "
                "unknown without SiMa's Model SDK"
            )
        return lines
    steps = ", ".join(f"{count} on the {core}" for core, count in archive.processors.items())
    desired, granted = (
        "unknown" if size is None else size
        for size in (archive.desired_batch_size, archive.actual_batch_size)
    )
    lines = [
        f"{archive.file}, by SiMa's Model SDK {record.tools}: {len(archive.members)} files; "
        f"steps: {steps}; batch {desired} desired, {granted} actual"
    ]
    arm = [program for program in archive.programs if program.endswith(".so")]
    on_mla = len(archive.programs) - len(arm)
    if arm:
        lines.append(f"warning: the Arm cores run a part of it: {', '.join(arm)}")
    if on_mla > 1:
        lines.append(f"warning: the MLA gets {on_mla} programs, not one")
    if archive.static_schedule:
        cycles = sum(s.end_cycle - s.start_cycle + 1 for s in archive.static_schedule)
        lines.append(f"{cycles:,} cycles by SiMa's static schedule, without stalls; not measured")
    return lines


VERSION = "none: a stand-in, written without SiMa's Model SDK"
NOTICE_FILE = "STAND_IN.txt"
NOTICE = """\
This archive is a stand-in. firmwright wrote it because SiMa's Model SDK was not installed.
It has no program for the MLA, and no chip can run it. compile.py next to it makes the real archive.
"""


def make_stand_in(
    name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], batch: int
) -> dict[str, bytes]:
    description = {
        "name": name,
        "model_sdk_version": VERSION,
        "input_nodes": [describe_node(tensor) for tensor in inputs],
        "plugins": [
            {
                "name": "MLA_0",
                "sequence": 1,
                "processor": "MLA",
                "config_params": {"desired_batch_size": batch},
                "input_nodes": [describe_node(tensor) for tensor in inputs],
                "output_nodes": [describe_node(tensor) for tensor in outputs],
            }
        ],
    }
    return {NOTICE_FILE: NOTICE.encode(), f"{name}_mpk.json": encode_record(description)}


def describe_node(tensor: Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "type": "buffer",
        "size": tensor.bytes,
        "logical_shape": list(tensor.shape),
        "logical_dtype": tensor.dtype,
    }


HEADER = """\
# Clock cycles of {name} on the MLA, layer by layer, as SiMa's compiler schedules them.
# A static schedule: it has no stalls for instructions or memory, and is not a measurement.
# start_cycle and end_cycle are inclusive: a layer needs end_cycle - start_cycle + 1 cycles.
"""
KEYS = {"name", "start_cycle", "end_cycle"}

COMPILE_AGAIN = "compile the network again with SiMa's compiler"


def read_schedules(files: Mapping[str, bytes]) -> tuple[ScheduledLayer, ...]:
    """Return the layers of all schedules in an archive.

    Raises UserError if a schedule is damaged.
    """
    names = [name for name in sorted(files) if name.endswith(STATS_SUFFIX)]
    try:
        return tuple(layer for n in names for layer in read_schedule(files[n].decode(), n))
    except UnicodeDecodeError as error:
        raise UserError(f"{', '.join(names)}: not UTF-8: {error}; {COMPILE_AGAIN}") from None


def read_schedule(text: str, shown: str) -> tuple[ScheduledLayer, ...]:
    """Return the layers in the order of their indices. The file may contain indices as text.

    Raises UserError if the content is not indices, names and whole numbers. Also raises UserError
    if an index appears twice, or if a layer ends before it starts.
    """
    try:
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
        content = yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UserError(f"{shown}: not valid YAML: {first_line(error)}; {COMPILE_AGAIN}") from None
    if not isinstance(content, dict) or root is None:
        raise UserError(f"{shown}: expected a mapping from indices to layers; {COMPILE_AGAIN}")
    if len({key.value for key, _ in root.value}) != len(root.value):
        raise UserError(f"{shown}: two layers have one index; {COMPILE_AGAIN}")
    try:
        numbered = {int(index): layer for index, layer in content.items()}
    except (TypeError, ValueError):
        raise UserError(
            f"{shown}: expected whole numbers as the layers' indices; {COMPILE_AGAIN}"
        ) from None
    return tuple(read_layer(index, numbered[index], shown) for index in sorted(numbered))


def read_layer(index: int, layer: Any, shown: str) -> ScheduledLayer:
    location = f"{shown}: layer {index}"
    if not isinstance(layer, dict) or not layer.keys() >= KEYS:
        raise UserError(f"{location}: expected {', '.join(sorted(KEYS))}; {COMPILE_AGAIN}")
    start, end = layer["start_cycle"], layer["end_cycle"]
    if type(start) is not int or type(end) is not int or start < 0:
        raise UserError(
            f"{location}: expected start_cycle and end_cycle as whole numbers from 0 on; "
            f"{COMPILE_AGAIN}"
        )
    if end < start:
        raise UserError(
            f"{location}: ends in cycle {end}, before it starts in {start}; {COMPILE_AGAIN}"
        )
    return ScheduledLayer(str(layer["name"]), start, end)


def write_schedule(path: Path, layers: Sequence[ScheduledLayer], name: str) -> None:
    """Write the layers as YAML, numbered from 1, in the format of firmwright's table of cycles."""
    content = msgspec.to_builtins(dict(enumerate(layers, 1)))
    text = yaml.dump(
        content, Dumper=yaml.CSafeDumper, sort_keys=False, default_flow_style=None, width=96
    )
    path.write_text(HEADER.format(name=name) + text, encoding="utf-8", newline="\n")
