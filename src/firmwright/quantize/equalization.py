"""Equalizes layers: the weights of neighboring layers get equal ranges.

A ReLU commutes with a positive factor. Therefore a channel can become smaller in one layer and
larger in the next layer without a change of the network. The factor makes both ranges of weights
equal, so that one scale per tensor fits every channel. Method: Nagel, van Baalen, Blankevoort,
Welling, "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, section
4.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx

from firmwright.quantize.float_graph import find_readers, read_attributes

ITERATIONS = 20
"""The number of passes over all pairs of layers, which is enough in practice."""


@dataclass(frozen=True)
class ConvolutionPair:
    """Two convolutions with only a ReLU between them. ``depthwise`` describes the second one."""

    first: onnx.NodeProto
    second: onnx.NodeProto
    depthwise: bool


def equalize_layers(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the network with equalized weights. Results are equal up to float32's rounding.

    Batch normalizations must be folded before the call.
    """
    result = deepcopy(model)
    pairs = list(find_pairs(result))
    names = {n for p in pairs for node in (p.first, p.second) for n in node.input[1:3] if n}
    constants = {i.name: i for i in result.graph.initializer if i.name in names}
    arrays = {n: onnx.numpy_helper.to_array(c).astype("float64") for n, c in constants.items()}
    for _ in range(ITERATIONS):
        for pair in pairs:
            equalize_pair(pair, arrays)
    for name, constant in constants.items():
        constant.CopyFrom(onnx.numpy_helper.from_array(arrays[name].astype("float32"), name))
    return result


def find_pairs(model: onnx.ModelProto) -> Iterator[ConvolutionPair]:
    """Yield the pairs whose intermediate tensors and weights have no other users."""
    graph = model.graph
    readers = find_readers(model)
    constants = {i.name for i in graph.initializer}
    outputs = {o.name for o in graph.output}

    def only_reader(name: str) -> onnx.NodeProto | None:
        nodes = readers.get(name, [])
        return nodes[0] if len(nodes) == 1 and name not in outputs else None

    def has_unshared_constants(node: onnx.NodeProto) -> bool:
        return all(n in constants and len(readers[n]) == 1 for n in node.input[1:3] if n)

    for first in graph.node:
        if first.op_type != "Conv" or not has_unshared_constants(first):
            continue
        second = only_reader(first.output[0])
        if second is not None and second.op_type == "Relu":
            second = only_reader(second.output[0])
        if second is None or second.op_type != "Conv" or not has_unshared_constants(second):
            continue
        groups = read_attributes(second).get("group", 1)
        shape = next(tuple(i.dims) for i in graph.initializer if i.name == second.input[1])
        channels = shape[1] * groups
        if groups == 1 or (groups == channels == shape[0]):
            yield ConvolutionPair(first, second, depthwise=groups > 1)


def equalize_pair(pair: ConvolutionPair, arrays: dict[str, npt.NDArray[np.float64]]) -> None:
    """Divide each channel of the first layer by its factor, and multiply it in the second layer."""
    first, second = arrays[pair.first.input[1]], arrays[pair.second.input[1]]
    inward = second if pair.depthwise else np.moveaxis(second, 1, 0)
    reach = [np.abs(w).reshape(w.shape[0], -1).max(axis=1) for w in (first, inward)]
    alive = (reach[0] > 0) & (reach[1] > 0)
    factors = np.where(alive, np.sqrt(reach[0] / np.where(alive, reach[1], 1)), 1.0)
    factors[factors == 0] = 1.0
    arrays[pair.first.input[1]] = first / factors.reshape(-1, *[1] * (first.ndim - 1))
    if len(pair.first.input) > 2:
        arrays[pair.first.input[2]] = arrays[pair.first.input[2]] / factors
    shape = [-1, 1] if pair.depthwise else [1, -1]
    arrays[pair.second.input[1]] = second * factors.reshape(shape + [1] * (second.ndim - 2))
