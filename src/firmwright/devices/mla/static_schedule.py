"""Reads the cycles of layers from the compiler's static schedule, ``*_mla_stats.yaml``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from firmwright.errors import UserError, first_line
from firmwright.report.manifest import ScheduledLayer

HEADER = """\
# Clock cycles of {name} on the MLA, layer by layer, as SiMa's compiler schedules them.
# A static schedule: it has no stalls for instructions or memory, and is not a measurement.
# start_cycle and end_cycle are inclusive: a layer needs end_cycle - start_cycle + 1 cycles.
"""
KEYS = {"name", "start_cycle", "end_cycle"}

COMPILE_AGAIN = "compile the network again with SiMa's compiler"


def read_schedule(text: str, shown: str) -> tuple[ScheduledLayer, ...]:
    """Return the layers in the order of their indices; the file may also write indices as text.

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
    """Write the layers as YAML, numbered from 1, in the form of firmwright's table of cycles."""
    content = msgspec.to_builtins(dict(enumerate(layers, 1)))
    text = yaml.dump(
        content, Dumper=yaml.CSafeDumper, sort_keys=False, default_flow_style=None, width=96
    )
    path.write_text(HEADER.format(name=name) + text, encoding="utf-8", newline="\n")
