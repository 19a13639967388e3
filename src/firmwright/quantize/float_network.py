"""Compares the quantized network with the float network: the outputs, and each layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from firmwright.data.arrays import OutputsByName, dequantize_array, quantize_array
from firmwright.data.samples import Sample
from firmwright.data.signals import SignalQuality, SignalStatistics
from firmwright.ir.tensors import ModelInterface
from firmwright.quantize.description import RESULT_SUFFIX
from firmwright.quantize.float_graph import evaluate, float_tensors
from firmwright.quantize.quantization_record import LayerAccuracy


@dataclass(frozen=True)
class FloatReference:
    """The float network's outputs for the samples, and the accuracy of the quantized layers.

    ``inputs`` are the samples in the form that the quantized network reads. ``calibrated`` are the
    digests of the calibration samples.
    """

    inputs: list[Sample]
    outputs: OutputsByName
    layers: tuple[LayerAccuracy, ...]
    calibrated: frozenset[str]


def compare_with_float(
    model: onnx.ModelProto,
    quantized: onnx.ModelProto,
    interface: ModelInterface,
    samples: Sequence[Sample],
    calibrated: Sequence[str],
) -> FloatReference:
    """Evaluate the float graph ``model`` and the QDQ graph on samples of real numbers.

    ``interface`` describes the inputs and outputs of ``quantized``.
    """
    inputs = quantize_samples(interface, samples)
    results = [list(arrays.values()) for arrays in evaluate(model, samples)]
    return FloatReference(
        inputs,
        {t.name: np.stack([r[i] for r in results]) for i, t in enumerate(interface.outputs)},
        tuple(compare_layers(model, quantized, interface, samples, inputs)),
        frozenset(calibrated),
    )


def quantize_samples(interface: ModelInterface, samples: Sequence[Sample]) -> list[Sample]:
    """Return float samples in the form that the quantized network reads."""
    return [
        {
            t.name: sample[t.name] if t.scale is None else quantize_array(sample[t.name], t)
            for t in interface.inputs
        }
        for sample in samples
    ]


def compare_layers(
    model: onnx.ModelProto,
    quantized: onnx.ModelProto,
    interface: ModelInterface,
    samples: Sequence[Sample],
    inputs: Sequence[Sample],
) -> list[LayerAccuracy]:
    """Return the accuracy of every tensor that both graphs compute.

    ``interface`` and ``inputs`` belong to the quantized graph. The inputs are also compared,
    because the loss of the first layers is relative to the inputs.
    """
    ports = {t.name: t for t in (*interface.inputs, *interface.outputs)}
    pairs = match_tensors(model, quantized)
    sums = {name: SignalStatistics() for name in pairs}
    wanted = evaluate(model, samples, list(pairs))
    results = evaluate(quantized, inputs, list(pairs.values()))
    for ours, theirs in zip(results, wanted, strict=True):
        for name, total in sums.items():
            found_there = ours[pairs[name]]
            if pairs[name] in ports:
                found_there = dequantize_array(found_there, ports[name])
            total.add(found_there, theirs[name])
    signals = {name: total.quality for name, total in sums.items()}
    makers = {o: n for n in model.graph.node for o in n.output}
    return [
        LayerAccuracy(makers[name].name, name, signal, compute_snr_loss(name, signals, makers))
        for name, signal in signals.items()
        if name in makers
    ]


def match_tensors(model: onnx.ModelProto, quantized: onnx.ModelProto) -> dict[str, str]:
    """Return the real-valued name in the quantized graph of each tensor of the float graph."""
    there = {o for n in quantized.graph.node for o in n.output}
    there.update(i.name for i in quantized.graph.input)
    unrounded = {n.input[0] for n in quantized.graph.node if n.op_type == "QuantizeLinear"}
    pairs = {}
    for name in float_tensors(model):
        for candidate in (f"{name}{RESULT_SUFFIX}", name):
            if candidate in there and candidate not in unrounded:
                pairs[name] = candidate
                break
    return pairs


def compute_snr_loss(
    name: str, signals: Mapping[str, SignalQuality], makers: Mapping[str, onnx.NodeProto]
) -> float | None:
    """Return the drop in SNR from the worst measured input, or None if there is no SNR."""
    snr = signals[name].snr
    sources = [s.snr for s in map(signals.get, find_compared_inputs(name, signals, makers)) if s]
    before = [s for s in sources if s is not None]
    if snr is None or not before:
        return None
    return round(min(before) - snr, 3)


def find_compared_inputs(
    name: str, signals: Mapping[str, SignalQuality], makers: Mapping[str, onnx.NodeProto]
) -> Iterator[str]:
    """Yield the nearest earlier tensors that were compared."""
    for source in makers[name].input:
        if source in signals:
            yield source
        elif source in makers:
            yield from find_compared_inputs(source, signals, makers)
