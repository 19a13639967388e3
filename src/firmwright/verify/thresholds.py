"""Finds the thresholds of the recipe that networks miss."""

from __future__ import annotations

from collections.abc import Iterator

from firmwright.verify.run_records import AccuracyRecord

ROUNDING = 1e-9
"""The maximum error of a percentage from floating-point arithmetic."""


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
    least, found = limits.mean_average_precision, rates.mean_average_precision
    if least is not None and found < least:
        yield (
            f"mean average precision of the {name} network is {found:.3f} "
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
