"""Finds the thresholds that networks miss, and formats the accuracy of networks as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from firmwright.data.signals import SignalQuality
from firmwright.quantize.quantization_record import LayerAccuracy
from firmwright.report.rows import align_columns
from firmwright.verify.run_records import AccuracyRecord, BoxAccuracy

MAX_LAYERS = 5
"""The maximum number of layers in the message about a missed threshold."""
LABEL_WIDTH, VALUE_WIDTH = 26, 9
"""The minimum widths of the table's columns."""
ROUNDING = 1e-9
"""The maximum error of a percentage from floating-point arithmetic."""


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
        texts = (
            f"{name} {format_snr(signal)}, cosine {signal.cosine:.5f}"
            for name, signal in output.signals.items()
        )
        lines.append(f"SNR of output '{output.name}': {'; '.join(texts)}")
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


def name_reference(record: AccuracyRecord) -> str:
    first = next(iter(record.top1))
    return "float" if first == "float32" else first


def find_missed_thresholds(record: AccuracyRecord) -> Iterator[str]:
    """Yield a sentence for each threshold that a network misses, except the first network."""
    _, *networks = record.top1
    for name in networks:
        yield from check_rates(record, name)
        yield from check_boxes(record, name)
        yield from check_outputs(record, name)


def check_rates(record: AccuracyRecord, name: str) -> Iterator[str]:
    limits, reference = record.thresholds, name_reference(record)
    first, *_ = record.top1.values()
    rate = record.top1[name]
    if limits.top1 is not None and rate < limits.top1 - ROUNDING:
        yield (
            f"top-1 of the {name} network is {rate:.2f} % ({reference} {first:.2f} %); "
            f"thresholds.top1 requires {limits.top1:g}"
        )
    if limits.top1_loss is not None and first - rate > limits.top1_loss + ROUNDING:
        yield (
            f"top-1 of the {name} network is {rate:.2f} %, {first - rate:.2f} points below "
            f"{reference} ({first:.2f} %); thresholds.top1_loss allows {limits.top1_loss:g}"
        )
    if limits.metric is not None and record.metric is not None:
        first, *_ = record.metric.values()
        value = record.metric[name]
        if value < limits.metric:
            yield (
                f"metric of the {name} network is {value:g} ({reference} {first:g}); "
                f"thresholds.metric requires {limits.metric:g}"
            )


def check_boxes(record: AccuracyRecord, name: str) -> Iterator[str]:
    limits, boxes = record.thresholds.boxes, record.boxes
    if limits is None or boxes is None:
        return
    rates = boxes.networks[name]
    missed = round((1 - rates.recall) * boxes.right)
    if limits.recall is not None and rates.recall < limits.recall:
        yield (
            f"{missed} of {boxes.right} boxes are missing in the results of the {name} network "
            f"(recall {rates.recall:.3f} at an overlap of {boxes.iou:g}); thresholds.boxes.recall "
            f"requires {limits.recall:g}"
        )
    extra = round((1 - rates.precision) * rates.found)
    if limits.precision is not None and rates.precision < limits.precision:
        yield (
            f"{extra} of {rates.found} boxes of the {name} network are wrong (precision "
            f"{rates.precision:.3f} at an overlap of {boxes.iou:g}); thresholds.boxes.precision "
            f"requires {limits.precision:g}"
        )
    first, *_ = boxes.networks.values()
    least, mean_precision = limits.mean_average_precision, rates.mean_average_precision
    if least is not None and mean_precision < least:
        yield (
            f"mean average precision of the {name} network is {mean_precision:.3f} "
            f"({name_reference(record)} {first.mean_average_precision:.3f}) "
            f"at an overlap of {boxes.iou:g}; thresholds.boxes.mean_average_precision requires "
            f"{least:g}"
        )


def check_outputs(record: AccuracyRecord, name: str) -> Iterator[str]:
    limits = record.thresholds
    for output in record.outputs:
        signal = output.signals[name]
        if limits.snr is not None and signal.snr is not None and signal.snr < limits.snr:
            yield (
                f"SNR of the {name} output '{output.name}' is {signal.snr:.2f} dB; "
                f"thresholds.snr requires {limits.snr:g}"
            )
        if limits.cosine is not None and signal.cosine < limits.cosine:
            yield (
                f"cosine of the {name} output '{output.name}' is {signal.cosine:.5f}; "
                f"thresholds.cosine requires {limits.cosine:g}"
            )
