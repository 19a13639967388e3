"""Networks on the same samples, compared: the first is the measure of the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.data.arrays import load_npy
from firmwright.errors import UserError
from firmwright.recipe.quantization import Thresholds
from firmwright.verify.accuracy import (
    AccuracyRecord,
    LayerAccuracy,
    OutputAccuracy,
    Rates,
    compare_outputs,
    percentage,
    predict_classes,
)
from firmwright.verify.boxes import BoxComparer, OutputsByName

Array = npt.NDArray[Any]
Metric = Callable[[OutputsByName, Array | None], float]


@dataclass(frozen=True)
class Evaluation:
    """What networks made of the same samples, and who evaluated them.

    ``networks`` has their outputs as real numbers; the rest is as in :class:`AccuracyRecord`.
    """

    samples: tuple[str, ...]
    calibrated: int
    networks: Mapping[str, OutputsByName]
    reference: str
    firmware: str
    layers: tuple[LayerAccuracy, ...] | None


def measure_accuracy(
    evaluated: Evaluation,
    labels: Array | None,
    metric: Metric | None,
    boxes: BoxComparer | None,
    thresholds: Thresholds,
) -> AccuracyRecord:
    """Compare the networks with the first of them, and their classes with the labels.

    Raises UserError for outputs that are not finite: nothing is near to them.
    """
    refuse_not_finite_outputs(evaluated.networks)
    measure, *others = evaluated.networks
    wanted = evaluated.networks[measure]
    predicted = predict_classes(wanted)
    right = predicted if labels is None else labels
    signals = {name: compare_outputs(evaluated.networks[name], wanted) for name in others}

    def rates(value: Callable[[OutputsByName], float]) -> Rates:
        return {name: value(outputs) for name, outputs in evaluated.networks.items()}

    return AccuracyRecord(
        samples=evaluated.samples,
        calibrated=evaluated.calibrated,
        labelled=labels is not None,
        reference=evaluated.reference,
        firmware=evaluated.firmware,
        outputs=tuple(
            OutputAccuracy(output, {name: signals[name][output] for name in others})
            for output in wanted
        ),
        layers=evaluated.layers,
        top1=rates(lambda outputs: percentage(predict_classes(outputs), right)),
        agreement=rates(lambda outputs: percentage(predict_classes(outputs), predicted)),
        metric=None if metric is None else rates(lambda o: call_metric(metric, o, labels)),
        boxes=None if boxes is None else boxes.compare(evaluated.networks),
        thresholds=thresholds,
    )


def refuse_not_finite_outputs(networks: Mapping[str, OutputsByName]) -> None:
    bad = [
        f"  output '{output}' of the {network} network: sample {np.flatnonzero(wrong)[0]}"
        + (f" and {np.count_nonzero(wrong) - 1} more" if np.count_nonzero(wrong) > 1 else "")
        for network, outputs in networks.items()
        for output, array in outputs.items()
        if (wrong := ~np.isfinite(array).reshape(len(array), -1).all(axis=1)).any()
    ]
    if bad:
        raise UserError("\n".join(["evaluate: samples whose outputs are NaN or infinite:", *bad]))


def read_class_labels(path: Path, count: int, classes: int | None) -> npt.NDArray[np.int64]:
    """Read the classes of the first ``count`` samples; UserError for labels that do not fit.

    ``classes`` is how many there are; None where that is not known.
    """
    array = load_npy(path)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UserError(
            f"{path}: labels are whole numbers, one a sample; found {array.dtype} of shape "
            f"{list(array.shape)}"
        )
    if len(array) < count:
        raise UserError(f"{path}: {len(array)} labels for {count} samples")
    labels = array[:count]
    foreign = np.flatnonzero((labels < 0) | (labels >= (classes or math.inf)))
    if classes is not None and len(foreign):
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise UserError(
            f"{path}: label {labels[foreign[0]]} of sample {foreign[0]}{more}: the network's first "
            f"output has {classes} classes, counted from 0"
        )
    return labels.astype("int64")


def call_metric(metric: Metric, outputs: OutputsByName, labels: Array | None) -> float:
    """Call the user's metric; UserError if what it returns is no number, or not a finite one."""
    value = metric(outputs, labels)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"evaluate.metric: returned {value!r}; expected a number")
    return number
