"""Writes the timeline as a trace for Perfetto's viewer: TrackEvents, as protobuf.

A cycle or an instruction is shown as a nanosecond. Source:
perfetto.dev/docs/reference/synthetic-track-event.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

from firmwright.report.layer_rows import ReportedLayer
from firmwright.report.report import Report

SEQUENCE = 1
"""The number of the only sequence, because all packets have one writer."""


def write_trace(report: Report) -> bytes:
    """Return a trace for Perfetto's viewer, with two tracks per device: work and transfers.

    The trace is empty if no instructions were counted.
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

    A device's transfers follow its computing, because the cost model adds the two times.
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
    event.name = layer.title
    origin = layer.time.origin if layer.time else "none"
    facts = {"region": layer.name, "operator": layer.kind, "time": origin}
    for name, text in facts.items():
        annotation = event.debug_annotations.add()
        annotation.name, annotation.string_value = name, text
    annotation = event.debug_annotations.add()
    annotation.name, annotation.uint_value = "macs", layer.macs
