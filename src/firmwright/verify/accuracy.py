"""Measures the accuracy of networks: compares outputs, classes and boxes with a reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.data.arrays import OutputsByName, dequantize_array
from firmwright.data.signals import SignalQuality, SignalStatistics
from firmwright.errors import UserError
from firmwright.ir.tensors import ModelInterface
from firmwright.quantize.quantization_record import LayerAccuracy
from firmwright.recipe.quantize_keys import Thresholds
from firmwright.verify.detection import BoxComparer
from firmwright.verify.run_records import AccuracyRecord, OutputAccuracy, Rates

Array = npt.NDArray[Any]
Metric = Callable[[OutputsByName, Array | None], float]


@dataclass(frozen=True)
class Evaluation:
    """Outputs of several networks on equal samples, and the programs that computed the outputs.

    ``networks`` has the outputs as real numbers. :class:`AccuracyRecord` describes the other
    attributes.
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
    """Compare outputs with the first network's outputs, and classes with the labels.

    The classes of the first network are the expected classes if there are no labels. Raises
    UserError if outputs are not finite.
    """
    refuse_not_finite_outputs(evaluated.networks)
    reference, *others = evaluated.networks
    wanted = evaluated.networks[reference]
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
        top1=rates(lambda outputs: compute_rate(predict_classes(outputs), right)),
        agreement=rates(lambda outputs: compute_rate(predict_classes(outputs), predicted)),
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
        raise UserError(
            "\n".join(
                [
                    "evaluate: samples whose outputs are NaN or infinite; check these samples "
                    "and the model:",
                    *bad,
                ]
            )
        )


def call_metric(metric: Metric, outputs: OutputsByName, labels: Array | None) -> float:
    """Return the value of the user's metric.

    Raises UserError if the value is not a finite number.
    """
    value = metric(outputs, labels)
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"evaluate.metric: returned {value!r}; expected a number")
    return number


def dequantize_outputs(
    interface: ModelInterface, results: Sequence[Sequence[Array]]
) -> OutputsByName:
    """Map the names of a network's outputs to real numbers.

    ``results`` has the outputs by sample and position.
    """
    return {
        tensor.name: np.stack([dequantize_array(sample[i], tensor) for sample in results])
        for i, tensor in enumerate(interface.outputs)
    }


def predict_classes(outputs: OutputsByName) -> npt.NDArray[np.int64]:
    """Return the class of each sample: the index of the largest value in the first output.

    A single integer in the first output, as after an argmax, is the class.
    """
    first = next(iter(outputs.values()))
    values = first.reshape(len(first), -1)
    chosen = values.shape[1] == 1 and values.dtype.kind in "iu"
    classes: npt.NDArray[np.int64] = values[:, 0] if chosen else values.argmax(axis=1)
    return classes.astype("int64")


def compute_rate(classes: Array, right: Array) -> float:
    return 100.0 * float(np.mean(classes == right))


def compare_outputs(outputs: OutputsByName, wanted: OutputsByName) -> dict[str, SignalQuality]:
    signals = {}
    for name, reference in wanted.items():
        total = SignalStatistics()
        for ours, theirs in zip(outputs[name], reference, strict=True):
            total.add(ours, theirs)
        signals[name] = total.quality
    return signals
