"""The recipe's thresholds, and the tables that a person reads."""

from __future__ import annotations

from collections.abc import Iterator

from firmwright.quantize.accuracy import AccuracyRecord, LayerAccuracy, Signal
from firmwright.quantize.boxes import BoxAccuracy, BoxRates

WORST = 5
"""Layers that a failed gate names."""


def failures(record: AccuracyRecord) -> list[str]:
    """Return a sentence for every threshold that is not met, by ONNX Runtime or by the C."""
    limits, found = record.thresholds, []
    for who in ("quantised", "firmware"):
        rate = getattr(record.top1, who)
        loss = record.top1.float32 - rate
        if limits.top1_loss is not None and loss > limits.top1_loss + 1e-9:
            found.append(
                f"top-1 of the {who} network is {rate:.2f} %, {loss:.2f} points below float "
                f"({record.top1.float32:.2f} %); thresholds.top1_loss allows {limits.top1_loss:g}"
            )
        if limits.metric is not None and record.metric is not None:
            value = getattr(record.metric, who)
            if not value >= limits.metric:  # a NaN passes no gate
                found.append(
                    f"metric of the {who} network is {value:g} (float {record.metric.float32:g}); "
                    f"thresholds.metric asks for {limits.metric:g}"
                )
        found += box_failures(record, who)
        for output in record.outputs:
            signal: Signal = getattr(output, who)
            if limits.snr is not None and signal.snr is not None and signal.snr < limits.snr:
                found.append(
                    f"SNR of the {who} output '{output.name}' is {signal.snr:.2f} dB; "
                    f"thresholds.snr asks for {limits.snr:g}"
                )
            if limits.cosine is not None and signal.cosine < limits.cosine:
                found.append(
                    f"cosine of the {who} output '{output.name}' is {signal.cosine:.5f}; "
                    f"thresholds.cosine asks for {limits.cosine:g}"
                )
    return found


def box_failures(record: AccuracyRecord, who: str) -> Iterator[str]:
    limits, boxes = record.thresholds.boxes, record.boxes
    if limits is None or boxes is None:
        return
    rates: BoxRates = getattr(boxes, who)
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


def worst_layers(record: AccuracyRecord) -> list[LayerAccuracy]:
    """Return the layers that lose most against their own inputs, the worst first."""
    losing = [layer for layer in record.layers if layer.lost is not None]
    ranked = sorted(losing, key=lambda layer: (-(layer.lost or 0.0), layer.tensor))
    return ranked[:WORST]


def layer_lines(record: AccuracyRecord) -> Iterator[str]:
    for layer in worst_layers(record):
        yield f"  {layer.lost:6.2f} dB lost, SNR {decibels(layer.signal)}: {layer.layer}"


def decibels(signal: Signal) -> str:
    return "exact" if signal.snr is None else f"{signal.snr:.2f} dB"


def failure_message(record: AccuracyRecord) -> str:
    lines = ["the quantised network is less accurate than the recipe asks for:"]
    lines += [f"  {sentence}" for sentence in failures(record)]
    return "\n".join([*lines, "the layers that lose most:", *layer_lines(record)])


def summary(record: AccuracyRecord) -> Iterator[str]:
    """Yield the lines of a table: float, quantised, firmware."""
    yield f"   accuracy on {len(record.samples)} samples   float32  quantised   firmware"
    rows = []
    if record.boxes is None:
        rows.append(("top-1, %" if record.labelled else "same class as float, %", record.top1))
    if record.labelled:
        rows.append(("same class as float, %", record.agreement))
    if record.metric is not None:
        rows.append(("metric", record.metric))
    for label, rates in rows:
        values = f"{rates.float32:9.2f}  {rates.quantised:9.2f}  {rates.firmware:9.2f}"
        yield f"   {label:<24} {values}"
    if record.boxes is not None:
        yield from box_lines(record.boxes)
    for output in record.outputs:
        quantised, firmware = output.quantised, output.firmware
        yield (
            f"   output '{output.name}': SNR {decibels(quantised)}, cosine {quantised.cosine:.5f}"
            f" (firmware {decibels(firmware)}, {firmware.cosine:.5f})"
        )


def box_lines(boxes: BoxAccuracy) -> Iterator[str]:
    for name in ("recall", "precision"):
        three = (getattr(r, name) for r in (boxes.float32, boxes.quantised, boxes.firmware))
        values = "  ".join(f"{value:9.3f}" for value in three)
        yield f"   {f'{name}, {boxes.right} boxes':<24} {values}"
