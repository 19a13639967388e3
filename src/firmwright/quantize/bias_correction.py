"""Corrects each layer's bias by the layer's mean error on the calibration samples.

Rounding weights changes the mean of a layer's results, which shifts all inputs of later layers.
Layers are corrected from the first to the last. Each correction uses the errors that remain after
the earlier corrections. Method: Nagel et al. 2019, section 4.2; real samples replace the
expectation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy

import numpy as np
import numpy.typing as npt
import onnx
from onnx.utils import Extractor

from firmwright.data.samples import Sample
from firmwright.quantize.chosen_layers import LayerChoice
from firmwright.quantize.float_graph import Array, evaluate

BIAS_OPERATORS = ("Conv", "ConvTranspose", "Gemm")
MAX_SAMPLES = 64
"""The maximum number of samples. More samples do not improve a mean, and every layer evaluates
the network on all samples.
"""


def correct_biases(
    model: onnx.ModelProto,
    rounded: onnx.ModelProto,
    samples: Sequence[Sample],
    layers: LayerChoice,
    quantize: Callable[[onnx.ModelProto], onnx.ModelProto],
) -> onnx.ModelProto:
    """Return ``rounded`` with biases that restore each layer's mean in ``model``.

    ``rounded`` and ``model`` are one float network. The weights of ``rounded`` may be rounded.
    Layers without a bias do not change.
    """
    result = deepcopy(rounded)
    uses = Counter(name for n in result.graph.node for name in n.input)
    constants = {i.name: i for i in result.graph.initializer if uses[i.name] == 1}
    biased = [n for n in result.graph.node if has_channel_bias(n, layers, constants)]
    if not biased:
        return result
    seen = samples[:MAX_SAMPLES]
    wanted = compute_channel_means(model, seen, [n.output[0] for n in biased])
    quantized = quantize(result)
    copies = {n.name: n for n in quantized.graph.node}
    quantized_layers = [copies[node.name] for node in biased]
    evaluated = evaluate_layers(quantized, quantized_layers, seen)
    for node, copy, results in zip(biased, quantized_layers, evaluated, strict=True):
        means = sum(map(average_channels, results)) / len(seen)
        bias = constants[node.input[2]]
        values = onnx.numpy_helper.to_array(bias)
        moved = values + (wanted[node.output[0]] - means).reshape(values.shape)
        bias.CopyFrom(onnx.numpy_helper.from_array(moved.astype("float32"), bias.name))
        set_bias(quantized, copy, moved.astype("float32"))
    return result


def set_bias(quantized: onnx.ModelProto, layer: onnx.NodeProto, values: Array) -> None:
    """Set the bias of a layer of a QDQ graph, rounded as ONNX Runtime's quantizer does."""
    constants = {i.name: i for i in quantized.graph.initializer}
    makers = {n.output[0]: n for n in quantized.graph.node if n.output[0] == layer.input[2]}
    stored = constants.get(layer.input[2])
    if stored is None:
        dequantize = makers[layer.input[2]]
        stored = constants[dequantize.input[0]]
        scale = onnx.numpy_helper.to_array(constants[dequantize.input[1]]).astype("float64")
        limits = np.iinfo("int32")
        values = np.clip(np.rint(values / scale), limits.min, limits.max).astype("int32")
    stored.CopyFrom(onnx.numpy_helper.from_array(values, stored.name))


def has_channel_bias(
    node: onnx.NodeProto, layers: LayerChoice, constants: Mapping[str, onnx.TensorProto]
) -> bool:
    """Return whether the bias is a constant with one value per channel of the layer's results."""
    if node.op_type not in BIAS_OPERATORS or len(node.input) < 3 or node.input[2] not in constants:
        return False
    shape = [d for d in constants[node.input[2]].dims if d != 1]
    return node.name not in layers.kept_float and len(shape) == 1


def compute_channel_means(
    model: onnx.ModelProto, samples: Sequence[Sample], tensors: Sequence[str]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return each tensor's mean over samples and positions, per channel (axis 1)."""
    totals = {name: np.zeros(0) for name in tensors}
    for arrays in evaluate(model, samples, tensors):
        for name, array in arrays.items():
            mean = average_channels(array)
            totals[name] = totals[name] + mean if totals[name].size else mean
    return {name: total / len(samples) for name, total in totals.items()}


def average_channels(array: Array) -> npt.NDArray[np.float64]:
    """Return the mean of each channel. The channels are axis 1."""
    others = tuple(a for a in range(array.ndim) if a != 1)
    mean: npt.NDArray[np.float64] = array.astype("float64").mean(axis=others)
    return mean


def evaluate_layers(
    model: onnx.ModelProto, layers: Sequence[onnx.NodeProto], samples: Sequence[Sample]
) -> Iterator[list[Array]]:
    """Yield the results of each layer, one result per sample. ``layers`` are in the graph's order.

    Later results use the new constants of a layer if the change precedes the request for the next
    layer. A layer's input is computed once, and kept as long as a later layer may need it.
    """
    describe_tensors(model.graph, [name for n in layers for name in (n.input[0], n.output[0])])
    extractor = Extractor(model)
    given = [value.name for value in model.graph.input]
    needed: list[set[str]] = []
    for index, layer in enumerate(layers):
        part = extract_part(extractor, [*given, *(n.input[0] for n in layers[:index])], layer)
        needed.append({value.name for value in part.graph.input})
    kept = [dict(sample) for sample in samples]
    for index, layer in enumerate(layers):
        part = extract_part(extractor, sorted(needed[index]), layer)
        shown = [layer.input[0], layer.output[0]]
        read = [{name: values[name] for name in needed[index]} for values in kept]
        computed = list(evaluate(part, read, shown))
        yield [np.asarray(arrays[layer.output[0]]) for arrays in computed]
        later = set().union(*needed[index + 1 :])
        kept = [
            {name: array for name, array in {**values, **arrays}.items() if name in later}
            for values, arrays in zip(kept, computed, strict=True)
        ]


def extract_part(
    extractor: Extractor, known: Sequence[str], layer: onnx.NodeProto
) -> onnx.ModelProto:
    part: onnx.ModelProto = extractor.extract_model(
        list(dict.fromkeys(known)), [layer.input[0], layer.output[0]]
    )
    read = {name for node in part.graph.node for name in node.input}
    inputs = [value for value in part.graph.input if value.name in read]
    del part.graph.input[:]
    part.graph.input.extend(inputs)
    return part


def describe_tensors(graph: onnx.GraphProto, names: Sequence[str]) -> None:
    """Add the type float32 for these tensors if the graph does not describe them."""
    known = {v.name for v in (*graph.input, *graph.value_info, *graph.output)}
    graph.value_info.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        for name in dict.fromkeys(names)
        if name not in known
    )
