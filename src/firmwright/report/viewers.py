"""Writes all files of a bundle's report: the page, and files for programs that show networks.

The programs are spreadsheets, Model Explorer and Perfetto.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from firmwright.errors import to_printable
from firmwright.ir.records import encode_record, format_record
from firmwright.report.layer_rows import ReportedLayer
from firmwright.report.page import render_page
from firmwright.report.report import SCHEMA_NAME, Report
from firmwright.report.trace import write_trace

PAGE = "report.html"

Value = str | int | float | None


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters with which a formula of a spreadsheet begins."""


COLUMNS: Mapping[str, Callable[[ReportedLayer], Value]] = {
    "number": lambda layer: layer.number,
    "layer": lambda layer: layer.title,
    "region": lambda layer: layer.name,
    "operator": lambda layer: layer.kind,
    "device": lambda layer: layer.device,
    "macs": lambda layer: layer.macs,
    "start": lambda layer: layer.time.start if layer.time else None,
    "end": lambda layer: layer.time.end - 1 if layer.time else None,
    "counted": lambda layer: layer.time.counted if layer.time else None,
    "modelled_cycles": lambda layer: layer.time.modelled_cycles if layer.time else None,
    "estimated_us": lambda layer: layer.estimated_us,
    "bytes_read": lambda layer: layer.size.reads,
    "bytes_written": lambda layer: layer.size.writes,
    "weight_bytes": lambda layer: layer.size.weights,
    "weight_bits": lambda layer: round(layer.stored.bits, 4) if layer.stored else None,
    "weight_bytes_saved": lambda layer: max(0, layer.stored.saved) if layer.stored else None,
    "scratch_bytes": lambda layer: layer.size.scratch,
    "snr_db": lambda layer: layer.snr,
    "lost_db": lambda layer: layer.lost,
    "source_file": lambda layer: layer.code.file if layer.code else None,
    "source_line": lambda layer: layer.code.first if layer.code else None,
    "refused_by": lambda layer: ", ".join(f"{r.device}: {r.rule}" for r in layer.refusals),
}
"""The columns of ``layers.csv``: a name, and a function for the layer's value or None."""


OVERLAYS: Mapping[str, tuple[str, Callable[[ReportedLayer], Value]]] = {
    "time": ("time", lambda layer: layer.length),
    "estimated_us": ("estimated microseconds", lambda layer: layer.estimated_us),
    "memory": ("bytes moved", lambda layer: layer.size.moved),
    "error": ("SNR, dB", lambda layer: layer.snr),
    "device": ("device", lambda layer: layer.device),
}
"""The files that Model Explorer shows over a model: the title, and a layer's value."""


COLORS = ("#9ecbff", "#ffc9a1", "#d9c7ff", "#a3e8de", "#ffc4e4", "#ebe79b")
"""Backgrounds of the devices, in the order of the target. The text on the backgrounds is black."""
LOW, HIGH = "#ffffff", "#ff8f5a"
"""The ends of the color scale for numbers."""


def write_files(report: Report, code: Mapping[int, str]) -> Mapping[str, bytes]:
    """Return the page, and a folder next to it with the facts of the page for programs.

    ``code`` maps the numbers of layers to their C code.
    """
    overlays = {f"over_model_{name}.json": data for name, data in make_overlays(report).items()}
    explorer: dict[str, Any] = {**overlays, "compiled.json": make_graph(report)}
    trace = {"report/trace.perfetto-trace": write_trace(report)} if report.total else {}
    return {
        PAGE: render_page(report, code).encode("utf-8"),
        "report/report.json": format_record(report, SCHEMA_NAME).encode(),
        "report/layers.csv": write_csv(report.layers).encode("utf-8"),
        **trace,
        **{f"report/model_explorer/{name}": encode_record(d) for name, d in explorer.items()},
    }


def write_csv(layers: Iterable[ReportedLayer]) -> str:
    """Return a table with a line for each layer.

    An apostrophe is added before a text that a spreadsheet would run as a formula.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for layer in layers:
        cells = (read(layer) for read in COLUMNS.values())
        writer.writerow(disarm(cell) for cell in cells)
    return to_printable(text.getvalue())


def disarm(cell: Value) -> Value:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def make_overlays(report: Report) -> dict[str, dict[str, Any]]:
    """Map file names to Model Explorer's node data. Empty files are omitted.

    The data refers to the names of the tensors in the user's model. A value belongs to the tensor
    that a layer writes, and a device to all tensors of its layers.
    """
    scale = [{"stop": 0, "bgColor": LOW}, {"stop": 1, "bgColor": HIGH}]
    overlays = {}
    for name, (title, read) in OVERLAYS.items():
        values = {
            tensor: read(layer)
            for layer in report.layers
            for tensor in (layer.results if name == "device" else layer.results[-1:])
        }
        results = {
            tensor: make_result(value, report)
            for tensor, value in values.items()
            if value is not None
        }
        if results:
            look = {} if name == "device" else {"gradient": scale}
            overlays[name] = {"name": f"{report.title}: {title}", "results": results, **look}
    return overlays


def make_result(value: Value, report: Report) -> dict[str, Value]:
    if not isinstance(value, str):
        return {"value": value}
    color = COLORS[report.devices.index(value) % len(COLORS)]
    return {"value": value, "bgColor": color, "textColor": "#000000"}


def make_graph(report: Report) -> dict[str, Any]:
    """Return the compiled network as a graph of Model Explorer: one node per layer."""
    nodes = [
        {
            "id": str(layer.number),
            "label": layer.kind,
            "namespace": layer.device,
            "attrs": [
                {"key": key, "value": str(value)}
                for key, value in ((name, read(layer)) for name, read in COLUMNS.items())
                if value not in (None, "")
            ],
            "incomingEdges": [
                {
                    "sourceNodeId": str(n),
                    "sourceNodeOutputId": "0",
                    "targetNodeInputId": str(position),
                }
                for position, n in enumerate(layer.follows)
            ],
            "outputsMetadata": [
                {"id": "0", "attrs": [{"key": "shape", "value": "x".join(map(str, layer.shape))}]}
            ],
        }
        for layer in report.layers
    ]
    return {"label": report.title, "graphs": [{"id": report.name, "nodes": nodes}]}
