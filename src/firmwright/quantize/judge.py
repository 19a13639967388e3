"""Float, quantised and compiled network on the same samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from firmwright.data.arrays import load_npy
from firmwright.errors import UserError
from firmwright.models import ModelInterface
from firmwright.quantize.accuracy import (
    AccuracyRecord,
    Metric,
    OutputAccuracy,
    Rates,
    classes,
    compare_layers,
    compare_outputs,
    network_inputs,
    percentage,
    real_outputs,
)
from firmwright.quantize.boxes import BoxJudge, Outputs
from firmwright.quantize.graph import evaluate
from firmwright.quantize.samples import Sample, sample_digest
from firmwright.recipe.quantization import Thresholds

Array = npt.NDArray[Any]
Defined = Callable[[Sequence[Sample]], list[list[Array]]]
Compiled = Callable[[Sequence[Sample]], tuple[str, list[list[Array]]]]


def judge(
    model: onnx.ModelProto,
    quantised: onnx.ModelProto,
    interface: ModelInterface,
    samples: Sequence[Sample],
    defined: Defined,
    compiled: Compiled,
    label_file: Path | None,
    metric: Metric | None,
    boxes: BoxJudge | None,
    thresholds: Thresholds,
    calibrated: Sequence[str],
) -> AccuracyRecord:
    """Evaluate all three networks and compare them.

    ``model`` is the float graph, ``quantised`` the QDQ graph whose inputs and outputs
    ``interface`` describes; layers are compared in it. ``defined`` evaluates the quantised
    network's definition, which in shift arithmetic is another one than that graph; ``compiled``
    runs its C and names what compiled it. ``boxes`` compares a detector's boxes. ``calibrated``
    are the digests of the calibration's samples. Raises UserError for labels that do not fit.
    """
    labels = None if label_file is None else read_labels(label_file, len(samples))
    given = network_inputs(interface, samples)
    names = [t.name for t in interface.outputs]
    wanted = by_name(names, [list(o.values()) for o in evaluate(model, samples)])
    fake = real_outputs(interface, defined(given))
    compiler, results = compiled(given)
    firmware = real_outputs(interface, results)
    three = (wanted, fake, firmware)

    def rates(value: Callable[[Outputs], float]) -> Rates:
        return Rates(*(value(outputs) for outputs in three))

    predicted = classes(wanted)
    right = predicted if labels is None else labels
    signals = [compare_outputs(found, wanted) for found in (fake, firmware)]
    digests = tuple(sample_digest(s) for s in samples)
    return AccuracyRecord(
        samples=digests,
        calibrated=len(set(digests) & set(calibrated)),
        labelled=labels is not None,
        firmware=f"C compiled for this machine by {compiler}",
        outputs=tuple(OutputAccuracy(n, signals[0][n], signals[1][n]) for n in names),
        layers=tuple(compare_layers(model, quantised, interface, samples, given)),
        top1=rates(lambda outputs: percentage(classes(outputs), right)),
        agreement=rates(lambda outputs: percentage(classes(outputs), predicted)),
        metric=None if metric is None else rates(lambda o: measured(metric, o, labels)),
        boxes=None if boxes is None else boxes.compare(three),
        thresholds=thresholds,
    )


def by_name(names: Sequence[str], results: Sequence[Sequence[Array]]) -> Outputs:
    return {name: np.stack([sample[i] for sample in results]) for i, name in enumerate(names)}


def read_labels(path: Path, count: int) -> npt.NDArray[np.int64]:
    """Read the classes of the first ``count`` samples."""
    array = load_npy(path)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UserError(
            f"{path}: labels are whole numbers, one a sample; found {array.dtype} of shape "
            f"{list(array.shape)}"
        )
    if len(array) < count:
        raise UserError(f"{path}: {len(array)} labels for {count} samples")
    return array[:count].astype("int64")


def measured(metric: Metric, outputs: Outputs, labels: Array | None) -> float:
    """Call the user's metric; UserError if what it returns is no number."""
    value = metric(outputs, labels)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UserError(f"evaluate.metric: returned {value!r}; expected a number") from None
