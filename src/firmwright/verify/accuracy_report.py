"""The recipe's thresholds, and the tables that a person reads."""

from __future__ import annotations

from collections.abc import Iterator

from firmwright.verify.accuracy import AccuracyRecord, LayerAccuracy, SignalQuality
from firmwright.verify.boxes import BoxAccuracy

MAX_LAYERS = 5
"""Layers that a failed gate names."""
LABEL_WIDTH = 26
"""Of the tables' first column."""


def reference_name(record: AccuracyRecord) -> str:
    """Return what to call the network that is the measure of the others."""
    first = next(iter(record.top1))
    return "float" if first == "float32" else first


def failures(record: AccuracyRecord) -> Iterator[str]:
    """Yield a sentence for every threshold that a network misses; the first is not asked."""
    _, *judged = record.top1
    for who in judged:
        yield from rate_failures(record, who)
        yield from box_failures(record, who)
        yield from output_failures(record, who)


def rate_failures(record: AccuracyRecord, who: str) -> Iterator[str]:
    limits, beside = record.thresholds, reference_name(record)
    first, *_ = record.top1.values()
    rate = record.top1[who]
    if limits.top1 is not None and rate < limits.top1 - 1e-9:
        yield (
            f"top-1 of the {who} network is {rate:.2f} % ({beside} {first:.2f} %); "
            f"thresholds.top1 asks for {limits.top1:g}"
        )
    if limits.top1_loss is not None and first - rate > limits.top1_loss + 1e-9:
        yield (
            f"top-1 of the {who} network is {rate:.2f} %, {first - rate:.2f} points below {beside} "
            f"({first:.2f} %); thresholds.top1_loss allows {limits.top1_loss:g}"
        )
    if limits.metric is not None and record.metric is not None:
        first, *_ = record.metric.values()
        value = record.metric[who]
        if value < limits.metric:
            yield (
                f"metric of the {who} network is {value:g} ({beside} {first:g}); "
                f"thresholds.metric asks for {limits.metric:g}"
            )


def box_failures(record: AccuracyRecord, who: str) -> Iterator[str]:
    limits, boxes = record.thresholds.boxes, record.boxes
    if limits is None or boxes is None:
        return
    rates = boxes.networks[who]
    missed = round((1 - rates.recall) * boxes.right)
    if limits.recall is not None and rates.recall < limits.recall:
        yield (
            f"{missed} of {boxes.right} boxes are not among those of the {who} network (recall "
            f"{rates.recall:.3f} at an overlap of {boxes.iou:g}); thresholds.boxes.recall asks "
            f"for {limits.recall:g}"
        )
    extra = round((1 - rates.precision) * rates.found)
    if limits.precision is not None and rates.precision < limits.precision:
        yield (
            f"{extra} of {rates.found} boxes of the {who} network are not right (precision "
            f"{rates.precision:.3f} at an overlap of {boxes.iou:g}); thresholds.boxes.precision "
            f"asks for {limits.precision:g}"
        )
    first, *_ = boxes.networks.values()
    least, found = limits.mean_average_precision, rates.mean_average_precision
    if least is not None and found < least:
        yield (
            f"mean average precision of the {who} network is {found:.3f} ({reference_name(record)} "
            f"{first.mean_average_precision:.3f}) at an overlap of {boxes.iou:g}; "
            f"thresholds.boxes.mean_average_precision asks for {least:g}"
        )


def output_failures(record: AccuracyRecord, who: str) -> Iterator[str]:
    limits = record.thresholds
    for output in record.outputs:
        signal = output.signals[who]
        if limits.snr is not None and signal.snr is not None and signal.snr < limits.snr:
            yield (
                f"SNR of the {who} output '{output.name}' is {signal.snr:.2f} dB; "
                f"thresholds.snr asks for {limits.snr:g}"
            )
        if limits.cosine is not None and signal.cosine < limits.cosine:
            yield (
                f"cosine of the {who} output '{output.name}' is {signal.cosine:.5f}; "
                f"thresholds.cosine asks for {limits.cosine:g}"
            )


def worst_layers(record: AccuracyRecord) -> list[LayerAccuracy]:
    """Return the layers that lose most against their own inputs, the worst first."""
    losing = [layer for layer in record.layers or () if layer.lost is not None]
    ranked = sorted(losing, key=lambda layer: (-(layer.lost or 0.0), layer.tensor))
    return ranked[:MAX_LAYERS]


def layer_lines(record: AccuracyRecord) -> Iterator[str]:
    for layer in worst_layers(record):
        yield f"  {layer.lost:6.2f} dB lost, SNR {format_snr(layer.signal)}: {layer.layer}"


def format_snr(signal: SignalQuality) -> str:
    return "exact" if signal.snr is None else f"{signal.snr:.2f} dB"


def failure_message(record: AccuracyRecord) -> str | None:
    """Return what is wrong, and, against a float network, where; None where nothing is."""
    found = [f"  {sentence}" for sentence in failures(record)]
    if not found:
        return None
    lines = ["the network is less accurate than the recipe asks for:", *found]
    if record.layers is not None:
        lines += ["the layers that lose most:", *layer_lines(record)]
    return "\n".join(lines)


def summary(record: AccuracyRecord) -> Iterator[str]:
    """Yield the lines of a table with a column for each network."""
    title = f"accuracy on {len(record.samples)} samples"
    yield f"   {title:<{LABEL_WIDTH}}" + "".join(f"{name:>11}" for name in record.top1)
    if record.calibrated:
        yield f"   {record.calibrated} of these samples calibrated too; others are better judges"
    same = f"same class as {reference_name(record)}, %"
    if record.boxes is None:
        yield format_row("top-1, %" if record.labelled else same, record.top1, 2)
    if record.labelled:
        yield format_row(same, record.agreement, 2)
    if record.metric is not None:
        yield format_row("metric", record.metric, 2)
    if record.boxes is not None:
        yield from box_rows(record.boxes)
    for output in record.outputs:
        found = (
            f"{name} {format_snr(signal)}, cosine {signal.cosine:.5f}"
            for name, signal in output.signals.items()
        )
        yield f"   SNR of output '{output.name}': {'; '.join(found)}"


def box_rows(boxes: BoxAccuracy) -> Iterator[str]:
    labels = {
        "recall": f"recall, {boxes.right} boxes",
        "precision": f"precision, {boxes.right} boxes",
        "mean_average_precision": "mean average precision",
    }
    for name, label in labels.items():
        values = {who: getattr(rates, name) for who, rates in boxes.networks.items()}
        yield format_row(label, values, 3)


def format_row(label: str, values: dict[str, float], digits: int) -> str:
    return f"   {label:<{LABEL_WIDTH}}" + "".join(
        f"{value:11.{digits}f}" for value in values.values()
    )
