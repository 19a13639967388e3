"""Formats the accuracy of networks as text: a table, and the missed thresholds."""

from __future__ import annotations

from collections.abc import Mapping

from firmwright.data.signals import SignalQuality
from firmwright.quantize.quantization_record import LayerAccuracy
from firmwright.report.rows import align_columns
from firmwright.verify.run_records import AccuracyRecord, BoxAccuracy
from firmwright.verify.thresholds import find_missed_thresholds, name_reference

MAX_LAYERS = 5
"""The maximum number of layers in the message about a missed threshold."""
LABEL_WIDTH, VALUE_WIDTH = 26, 9
"""The minimum widths of the table's columns."""


def format_failure(record: AccuracyRecord) -> str | None:
    """Return the missed thresholds and the worst layers, or None if no threshold is missed."""
    missed = [f"  {sentence}" for sentence in find_missed_thresholds(record)]
    if not missed:
        return None
    lines = ["the network is less accurate than the recipe requires:", *missed]
    if record.layers is not None:
        lines += [
            "the layers with the largest loss:",
            *map(format_layer, find_worst_layers(record)),
        ]
    return "\n".join(lines)


def find_worst_layers(record: AccuracyRecord) -> list[LayerAccuracy]:
    """Return the layers with the largest losses, the largest loss first."""
    losing = [layer for layer in record.layers or () if layer.lost is not None]
    ranked = sorted(losing, key=lambda layer: (-(layer.lost or 0.0), layer.tensor))
    return ranked[:MAX_LAYERS]


def format_layer(layer: LayerAccuracy) -> str:
    return f"  {layer.lost:6.2f} dB lost, SNR {format_snr(layer.signal)}: {layer.layer}"


def format_snr(signal: SignalQuality) -> str:
    return "exact" if signal.snr is None else f"{signal.snr:.2f} dB"


def format_accuracy(record: AccuracyRecord) -> list[str]:
    count = len(record.samples)
    title = f"accuracy on {count} sample{'s' if count != 1 else ''}"
    rows = [[f"{title:<{LABEL_WIDTH}}", *(f"{name:>{VALUE_WIDTH}}" for name in record.top1)]]
    same = f"same class as {name_reference(record)}, %"
    if record.boxes is None:
        rows.append(format_row("top-1, %" if record.labelled else same, record.top1, 2))
    if record.labelled:
        rows.append(format_row(same, record.agreement, 2))
    if record.metric is not None:
        rows.append(format_row("metric", record.metric, 2))
    if record.boxes is not None:
        rows += format_boxes(record.boxes)
    head, *lines = align_columns(rows, "<" + ">" * len(record.top1))
    if record.calibrated:
        lines.insert(0, f"the calibration used {record.calibrated} of these samples; use others")
    for output in record.outputs:
        found = (
            f"{name} {format_snr(signal)}, cosine {signal.cosine:.5f}"
            for name, signal in output.signals.items()
        )
        lines.append(f"SNR of output '{output.name}': {'; '.join(found)}")
    return [head, *lines]


def format_boxes(boxes: BoxAccuracy) -> list[list[str]]:
    labels = {
        "recall": f"recall, {boxes.right} boxes",
        "precision": f"precision, {boxes.right} boxes",
        "mean_average_precision": "mean average precision",
    }
    return [
        format_row(
            label, {network: getattr(rates, name) for network, rates in boxes.networks.items()}, 3
        )
        for name, label in labels.items()
    ]


def format_row(label: str, values: Mapping[str, float], digits: int) -> list[str]:
    return [label, *(f"{value:.{digits}f}" for value in values.values())]
