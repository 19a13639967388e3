"""Compares the cycles that a board measured with the expected cycles of a bundle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from firmwright.documents.quantities import format_frequency, format_milliseconds
from firmwright.hardware.cycle_log import WHOLE, MeasuredCycles
from firmwright.ir.records import encode_record
from firmwright.report.rows import align_columns
from firmwright.report.timeline import CYCLES

HEADER = """\
# Clock cycles of one inference, measured on a board by the counter of its core.
# mean, least, most: over the passes of the log. network: the whole inference.
"""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The cycles of each layer on a board, and the digests of the log and of the bundle.

    ``clock`` is in Hz, or None for an unknown frequency. ``board`` names the board, the chip and
    the memory settings.
    """

    board: str
    clock: int | None
    passes: int
    build_id: str
    bundle_sha256: str
    log_sha256: str
    layers: tuple[MeasuredCycles, ...]


def format_measurement(measurement: Measurement, manifest: Mapping[str, Any]) -> str:
    expected = list_expected(manifest)
    head = ["layer", "measured", "least", "most", *(["expected", "ratio"] if expected else [])]
    rows = [head]
    for layer in measurement.layers:
        row = [layer.name, *(f"{number:,}" for number in (layer.mean, layer.least, layer.most))]
        if expected:
            wanted = expected[layer.name]
            row += [f"{wanted:,}", f"{layer.mean / wanted:.2f}" if wanted else "-"]
        rows.append(row)
    source = f"; expected {manifest['timeline']['source']}" if expected else ""
    return "\n".join(
        [
            f"measured: {describe(measurement)}{source}",
            *align_columns(rows, "<" + ">" * (len(head) - 1)),
        ]
    )


def describe(measurement: Measurement) -> str:
    """Return a text such as ``168,000 cycles, 1.00 ms at 168 MHz (Nucleo, mean of 3 passes)``."""
    total, time = measurement.layers[-1].mean, ""
    if measurement.clock:
        milliseconds = format_milliseconds(total * 1000 / measurement.clock)
        time = f", {milliseconds} at {format_frequency(measurement.clock)}"
    passes = "1 pass" if measurement.passes == 1 else f"mean of {measurement.passes} passes"
    return f"{total:,} cycles{time} ({measurement.board}, {passes})"


def list_expected(manifest: Mapping[str, Any]) -> dict[str, int]:
    """Map each layer to the cycles that the build expects. Return {} if no cycles were counted."""
    timeline = manifest["timeline"]
    if timeline is None or timeline["unit"] != CYCLES:
        return {}
    layers: Sequence[Mapping[str, Any]] = timeline["layers"][:-1]
    lengths = {layer["name"]: layer["end"] - layer["start"] + 1 for layer in layers}
    return {**lengths, WHOLE: timeline["total"]}


def format_yaml(measurement: Measurement) -> str:
    plain = json.loads(encode_record(measurement))
    return HEADER + yaml.dump(plain, sort_keys=False, default_flow_style=None, allow_unicode=True)
