"""How accurate a network is: its outputs, classes and boxes beside those of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, log10
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.data.arrays import dequantize_array
from firmwright.ir.tensors import ModelInterface
from firmwright.recipe.quantization import Thresholds
from firmwright.verify.boxes import BoxAccuracy, OutputsByName

Array = npt.NDArray[Any]
Rates = dict[str, float]
"""Percentages, or a metric's values, by network."""
LEAST_RATIO = 1e-30
"""-300 dB: of a tensor that was zero, or is not finite."""


@dataclass(frozen=True)
class SignalQuality:
    """A tensor beside the same one of another network.

    ``snr`` is 10 · log10 of that one's energy over that of the difference, in dB, over all
    samples; None where there is no difference. ``cosine`` is the mean over samples.
    """

    snr: float | None
    cosine: float


@dataclass(frozen=True)
class LayerAccuracy:
    """The result of a layer of the quantized network, evaluated by ONNX Runtime.

    ``lost`` is by how many dB its SNR is below the worst of the layer's own inputs.
    """

    layer: str
    tensor: str
    signal: SignalQuality
    lost: float | None


@dataclass(frozen=True)
class OutputAccuracy:
    """One output, of every network but the first."""

    name: str
    signals: dict[str, SignalQuality]


@dataclass(frozen=True)
class AccuracyRecord:
    """The accuracy stage's result (file ``accuracy/accuracy.json``).

    The first network is what the others are compared with. They are ``float32``, ``quantized`` and
    ``firmware``; for a model that is compiled as it is, ``reference`` and ``firmware``.

    ``samples`` are their digests, ``calibrated`` how many of them the calibration saw too.
    ``top1`` counts the labels' classes, or, without labels, the first network's; ``agreement``
    always the latter. ``reference`` names the runtime that defines what the firmware is to
    compute, ``firmware`` what compiled the network's C for the machine that built it. ``layers``
    is None where no float network is at hand. ``boxes`` are those of a recipe with a detection.
    """

    samples: tuple[str, ...]
    calibrated: int
    labelled: bool
    reference: str
    firmware: str
    outputs: tuple[OutputAccuracy, ...]
    layers: tuple[LayerAccuracy, ...] | None
    top1: Rates
    agreement: Rates
    metric: Rates | None
    boxes: BoxAccuracy | None
    thresholds: Thresholds


@dataclass
class SignalStatistics:
    """Sums over samples of one tensor beside its reference."""

    energy: float = 0.0
    noise: float = 0.0
    cosines: list[float] = field(default_factory=list)

    def add(self, found: Array, wanted: Array) -> None:
        a, b = (v.astype("float64").reshape(-1) for v in (found, wanted))
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            self.noise = inf
            self.cosines.append(0.0)
            return
        self.energy += float(b @ b)
        self.noise += float((a - b) @ (a - b))
        lengths = float(np.sqrt((a @ a) * (b @ b)))
        self.cosines.append(float(a @ b) / lengths if lengths else float(not (a - b).any()))

    @property
    def signal(self) -> SignalQuality:
        """Rounded: the last digits differ between processors, and say nothing."""
        cosine = round(float(np.mean(self.cosines)), 6)
        if not self.noise:
            return SignalQuality(None, cosine)
        return SignalQuality(
            round(10 * log10(max(self.energy / self.noise, LEAST_RATIO)), 3), cosine
        )


def dequantize_outputs(
    interface: ModelInterface, results: Sequence[Sequence[Array]]
) -> OutputsByName:
    """Return a network's outputs, by sample and position, as real numbers by name."""
    return {
        tensor.name: np.stack([dequantize_array(sample[i], tensor) for sample in results])
        for i, tensor in enumerate(interface.outputs)
    }


def predict_classes(outputs: OutputsByName) -> npt.NDArray[np.int64]:
    """Return the position of each sample's largest value in the first output.

    A single integer is the class itself: the network ends with the search for it.
    """
    first = next(iter(outputs.values()))
    values = first.reshape(len(first), -1)
    chosen = values.shape[1] == 1 and values.dtype.kind in "iu"
    found: npt.NDArray[np.int64] = values[:, 0] if chosen else values.argmax(axis=1)
    return found.astype("int64")


def percentage(found: Array, right: Array) -> float:
    return 100.0 * float(np.mean(found == right))


def compare_outputs(found: OutputsByName, wanted: OutputsByName) -> dict[str, SignalQuality]:
    signals = {}
    for name, reference in wanted.items():
        total = SignalStatistics()
        for ours, theirs in zip(found[name], reference, strict=True):
            total.add(ours, theirs)
        signals[name] = total.signal
    return signals
