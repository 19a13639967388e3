"""Writes every file of a bundle's report, by its name in the bundle."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

from firmwright.errors import to_printable
from firmwright.ir.records import encode_record, format_record
from firmwright.report.layers import ReportedLayer
from firmwright.report.page import render_page
from firmwright.report.report import SCHEMA_NAME, Report

PAGE = "report.html"


def write_files(report: Report, code: Mapping[int, str]) -> Mapping[str, bytes]:
    """Return the page, and in a folder next to it the same facts for programs.

    ``code`` has the C of layers, by their numbers.
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


SEQUENCE = 1
"""One sequence for all packets, because they have one writer."""


def write_trace(report: Report) -> bytes:
    """Return a trace for Perfetto's viewer, with two tracks per device: for work and transfers.

    It consists of TrackEvents (protobuf). A cycle or an instruction is shown as a nanosecond. The
    trace is empty if no instructions were counted. Source:
    perfetto.dev/docs/reference/synthetic-track-event.
    """
    builder = TraceProtoBuilder()
    slices = [part for layer in report.layers for part in list_slices(layer)]
    tracks = {name: number for number, name in enumerate(dict.fromkeys(s[0] for s in slices), 1)}
    for name, number in tracks.items():
        packet = builder.add_packet()
        packet.timestamp = 0
        packet.trusted_packet_sequence_id = SEQUENCE
        packet.track_descriptor.uuid = number
        packet.track_descriptor.name = name
    for track, layer, start, end in slices:
        for kind, time in (
            (TrackEvent.TYPE_SLICE_BEGIN, start),
            (TrackEvent.TYPE_SLICE_END, end),
        ):
            packet = builder.add_packet()
            packet.timestamp = time
            packet.trusted_packet_sequence_id = SEQUENCE
            packet.track_event.type = kind
            packet.track_event.track_uuid = tracks[track]
            if kind == TrackEvent.TYPE_SLICE_BEGIN:
                describe(packet.track_event, layer)
    trace: bytes = builder.serialize()
    return trace


def list_slices(layer: ReportedLayer) -> Iterator[tuple[str, ReportedLayer, int, int]]:
    """Yield the track, the layer, and the start and end of each part of a layer's time.

    A device's transfers come after its computing, because the cost model adds the two.
    """
    if layer.time is None or not layer.time.length:
        return
    transfer = layer.time.modelled.transfer if layer.time.modelled else 0
    yield layer.device, layer, layer.time.end - layer.time.length, layer.time.end
    if transfer:
        stall = layer.time.modelled.stall if layer.time.modelled else 0
        end = layer.time.end - stall
        yield f"{layer.device}: transfers", layer, end - transfer, end


def describe(event: TrackEvent, layer: ReportedLayer) -> None:
    """Set an event's layer name and facts."""
    event.name = layer.title
    origin = layer.time.origin if layer.time else "none"
    facts = {"region": layer.name, "operator": layer.kind, "time": origin}
    for name, text in facts.items():
        annotation = event.debug_annotations.add()
        annotation.name, annotation.string_value = name, text
    annotation = event.debug_annotations.add()
    annotation.name, annotation.uint_value = "macs", layer.macs


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
    "scratch_bytes": lambda layer: layer.size.scratch,
    "snr_db": lambda layer: layer.snr,
    "lost_db": lambda layer: layer.lost,
    "source_file": lambda layer: layer.code.file if layer.code else None,
    "source_line": lambda layer: layer.code.first if layer.code else None,
    "refused_by": lambda layer: ", ".join(f"{r.device}: {r.rule}" for r in layer.refusals),
}
"""The columns of ``layers.csv``: a name, and the layer's value, None if it is not known."""

OVERLAYS: Mapping[str, tuple[str, Callable[[ReportedLayer], Value]]] = {
    "time": ("time", lambda layer: layer.length),
    "estimated_us": ("estimated microseconds", lambda layer: layer.estimated_us),
    "memory": ("bytes moved", lambda layer: layer.size.moved),
    "error": ("SNR, dB", lambda layer: layer.snr),
    "device": ("device", lambda layer: layer.device),
}
"""The files that Model Explorer shows over a model: the name shown there, a layer's value."""

COLORS = ("#9ecbff", "#ffc9a1", "#d9c7ff", "#a3e8de", "#ffc4e4", "#ebe79b")
"""Backgrounds of the devices, in the order of the target; the text on them is black."""
LOW, HIGH = "#ffffff", "#ff8f5a"
"""The ends of the color scale for numbers."""


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
    """Return Model Explorer's node data by file name, without empty files.

    The data is shown over the user's model, by the names of the model's tensors. A value belongs to
    the tensor that a layer writes, and a device to all tensors of its layers.
    """
    scale = [{"stop": 0, "bgColor": LOW}, {"stop": 1, "bgColor": HIGH}]
    found = {}
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
            found[name] = {"name": f"{report.title}: {title}", "results": results, **look}
    return found


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
