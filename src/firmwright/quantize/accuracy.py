"""What quantisation costs: every layer and output against the float network's, and the classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log10
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from firmwright.data.arrays import dequantised, on_grid
from firmwright.models import ModelInterface
from firmwright.quantize.boxes import BoxAccuracy, Outputs
from firmwright.quantize.graph import evaluate, float_tensors
from firmwright.quantize.record import RESULT_SUFFIX
from firmwright.quantize.samples import Sample
from firmwright.recipe.quantization import Thresholds

Array = npt.NDArray[Any]
Metric = Callable[[Outputs, Array | None], float]


@dataclass(frozen=True)
class Signal:
    """A tensor beside the float network's.

    ``snr`` is 10 · log10 of the float tensor's energy over that of the difference, in dB, over
    all samples; None where there is no difference. ``cosine`` is the mean over samples.
    """

    snr: float | None
    cosine: float


@dataclass(frozen=True)
class LayerAccuracy:
    """The result of a layer of the quantised network, evaluated by ONNX Runtime.

    ``lost`` is by how many dB its SNR is below the worst of the layer's own inputs.
    """

    layer: str
    tensor: str
    signal: Signal
    lost: float | None


@dataclass(frozen=True)
class OutputAccuracy:
    """One output of the quantised network, by ONNX Runtime and by its C."""

    name: str
    quantised: Signal
    firmware: Signal


@dataclass(frozen=True)
class Rates:
    """Percentages (``top1``, ``agreement``) or a metric's values.

    ``agreement`` counts the samples to which the float network gives the same class.
    """

    float32: float
    quantised: float
    firmware: float


@dataclass(frozen=True)
class AccuracyRecord:
    """The accuracy stage's result (file ``accuracy/accuracy.json``).

    ``samples`` are their digests, ``calibrated`` how many of them the calibration saw too.
    ``top1`` counts the labels' classes, or, without labels, the float network's. ``firmware``
    names what compiled the network's C for the machine that built it. ``boxes`` are those of a
    recipe with a detection.
    """

    samples: tuple[str, ...]
    calibrated: int
    labelled: bool
    firmware: str
    outputs: tuple[OutputAccuracy, ...]
    layers: tuple[LayerAccuracy, ...]
    top1: Rates
    agreement: Rates
    metric: Rates | None
    boxes: BoxAccuracy | None
    thresholds: Thresholds


@dataclass
class Comparison:
    """Sums over samples of one tensor beside its reference."""

    energy: float = 0.0
    noise: float = 0.0
    cosines: list[float] = field(default_factory=list)

    def add(self, found: Array, wanted: Array) -> None:
        a, b = (v.astype("float64").reshape(-1) for v in (found, wanted))
        self.energy += float(b @ b)
        self.noise += float((a - b) @ (a - b))
        lengths = float(np.sqrt((a @ a) * (b @ b)))
        self.cosines.append(float(a @ b) / lengths if lengths else float(not (a - b).any()))

    @property
    def signal(self) -> Signal:
        """Rounded: the last digits differ between processors, and say nothing."""
        cosine = round(float(np.mean(self.cosines)), 6)
        if not self.noise:
            return Signal(None, cosine)
        return Signal(round(10 * log10(max(self.energy, 1e-300) / self.noise), 3), cosine)


def real_outputs(interface: ModelInterface, results: Sequence[Sequence[Array]]) -> Outputs:
    """Return a network's outputs, by sample and position, as real numbers by name."""
    return {
        tensor.name: np.stack([dequantised(sample[i], tensor) for sample in results])
        for i, tensor in enumerate(interface.outputs)
    }


def network_inputs(interface: ModelInterface, samples: Sequence[Sample]) -> list[Sample]:
    """Return float samples as the quantised network takes them."""
    return [
        {
            t.name: sample[t.name] if t.scale is None else on_grid(sample[t.name], t)
            for t in interface.inputs
        }
        for sample in samples
    ]


def compare_layers(
    model: onnx.ModelProto,
    quantised: onnx.ModelProto,
    interface: ModelInterface,
    samples: Sequence[Sample],
    inputs: Sequence[Sample],
) -> list[LayerAccuracy]:
    """Compare every tensor that both graphs compute.

    ``interface`` and ``inputs`` are the quantised graph's.
    """
    outputs = {t.name: t for t in interface.outputs}
    pairs = common_tensors(model, quantised)
    sums = {name: Comparison() for name in pairs}
    wanted = evaluate(model, samples, list(pairs))
    found = evaluate(quantised, inputs, list(pairs.values()))
    for ours, theirs in zip(found, wanted, strict=True):
        for name, total in sums.items():
            found_there = ours[pairs[name]]
            if name in outputs:
                found_there = dequantised(found_there, outputs[name])
            total.add(found_there, theirs[name])
    signals = {name: total.signal for name, total in sums.items()}
    makers = {o: n for n in model.graph.node for o in n.output}
    return [
        LayerAccuracy(makers[name].name, name, signal, lost(name, signals, makers))
        for name, signal in signals.items()
    ]


def common_tensors(model: onnx.ModelProto, quantised: onnx.ModelProto) -> dict[str, str]:
    """Return, for each tensor of the float graph, its real-valued name in the quantised one."""
    there = {o for n in quantised.graph.node for o in n.output}
    unrounded = {n.input[0] for n in quantised.graph.node if n.op_type == "QuantizeLinear"}
    inputs = {i.name for i in model.graph.input}
    pairs = {}
    for name in float_tensors(model):
        for candidate in (f"{name}{RESULT_SUFFIX}", name):
            if candidate in there and candidate not in unrounded and name not in inputs:
                pairs[name] = candidate
                break
    return pairs


def lost(
    name: str, signals: Mapping[str, Signal], makers: Mapping[str, onnx.NodeProto]
) -> float | None:
    """Return the drop in SNR from the layer's worst measured input; None where neither differs."""
    snr = signals[name].snr
    sources = [s.snr for s in map(signals.get, measured_inputs(name, signals, makers)) if s]
    before = [s for s in sources if s is not None]
    if snr is None or not before:
        return None
    return round(min(before) - snr, 3)


def measured_inputs(
    name: str, signals: Mapping[str, Signal], makers: Mapping[str, onnx.NodeProto]
) -> Iterator[str]:
    """Yield the nearest tensors before this one that were compared."""
    for source in makers[name].input:
        if source in signals:
            yield source
        elif source in makers:
            yield from measured_inputs(source, signals, makers)


def classes(outputs: Outputs) -> npt.NDArray[np.int64]:
    """Return the position of each sample's largest value in the first output."""
    first = next(iter(outputs.values()))
    found: npt.NDArray[np.int64] = first.reshape(len(first), -1).argmax(axis=1).astype("int64")
    return found


def percentage(found: Array, right: Array) -> float:
    return 100.0 * float(np.mean(found == right))


def compare_outputs(found: Outputs, wanted: Outputs) -> dict[str, Signal]:
    signals = {}
    for name, reference in wanted.items():
        total = Comparison()
        for ours, theirs in zip(found[name], reference, strict=True):
            total.add(ours, theirs)
        signals[name] = total.signal
    return signals
