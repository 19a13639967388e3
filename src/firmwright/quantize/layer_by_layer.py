"""A graph evaluated one layer after the other: a layer may change before those behind it are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx.utils import Extractor

from firmwright.data.samples import Sample
from firmwright.quantize.graph import Array, evaluate


def evaluate_layers(
    model: onnx.ModelProto, layers: Sequence[onnx.NodeProto], samples: Sequence[Sample]
) -> Iterator[list[Array]]:
    """Yield the results of each layer, one a sample; ``layers`` are nodes in the graph's order.

    Constants of a layer that change before the next is asked for count from then on. What a layer
    reads is computed once, and kept as long as a later one may need it.
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
        yield [np.asarray(found[layer.output[0]]) for found in computed]
        later = set().union(*needed[index + 1 :])
        kept = [
            {name: array for name, array in {**values, **found}.items() if name in later}
            for values, found in zip(kept, computed, strict=True)
        ]


def extract_part(
    extractor: Extractor, known: Sequence[str], layer: onnx.NodeProto
) -> onnx.ModelProto:
    """Return what computes a layer's input and result from tensors that are known."""
    part: onnx.ModelProto = extractor.extract_model(
        list(dict.fromkeys(known)), [layer.input[0], layer.output[0]]
    )
    read = {name for node in part.graph.node for name in node.input}
    inputs = [value for value in part.graph.input if value.name in read]
    del part.graph.input[:]
    part.graph.input.extend(inputs)
    return part


def describe_tensors(graph: onnx.GraphProto, names: Sequence[str]) -> None:
    """State that these tensors are float32 where the graph does not describe them."""
    known = {v.name for v in (*graph.input, *graph.value_info, *graph.output)}
    graph.value_info.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        for name in dict.fromkeys(names)
        if name not in known
    )
