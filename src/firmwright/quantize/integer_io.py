"""Inputs and outputs on their own grids: the firmware neither quantises nor dequantises them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import onnx

from firmwright.models import ModelInterface, Tensor
from firmwright.quantize.grids import IntegerGrid


def without_float_io(model: onnx.ModelProto) -> dict[str, IntegerGrid]:
    """Take the quantize behind each input and the dequantize before each output out of a graph.

    Names stay. Returns the grids of the inputs and outputs that are integers now: those that
    nothing else reads as real numbers.
    """
    graph = model.graph
    grids = {}
    for value in graph.input:
        readers = [n for n in graph.node if value.name in n.input]
        if len(readers) == 1 and readers[0].op_type == "QuantizeLinear":
            grids[value.name] = grid_of(readers[0], model)
            graph.node.remove(readers[0])
            rename(graph, readers[0].output[0], value.name)
    for value in graph.output:
        maker = next((n for n in graph.node if value.name in n.output), None)
        read = any(value.name in n.input for n in graph.node)
        if maker is not None and maker.op_type == "DequantizeLinear" and not read:
            grids[value.name] = grid_of(maker, model)
            graph.node.remove(maker)
            rename(graph, maker.input[0], value.name)
    for value in (*graph.input, *graph.output):
        if value.name in grids:
            kind = onnx.helper.np_dtype_to_tensor_dtype(grids[value.name].numpy)
            value.type.tensor_type.elem_type = kind
    del graph.value_info[:]
    return grids


def rename(graph: onnx.GraphProto, before: str, after: str) -> None:
    for node in graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name == before:
                    names[index] = after


def grid_of(node: onnx.NodeProto, model: onnx.ModelProto) -> IntegerGrid:
    """Return the per-tensor grid that a quantize or dequantize node names."""
    constants = {i.name: i for i in model.graph.initializer}
    scale, zero_point = (onnx.numpy_helper.to_array(constants[n]) for n in node.input[1:3])
    return IntegerGrid(zero_point.dtype.name, float(scale), int(zero_point))


def with_grids(interface: ModelInterface, grids: Mapping[str, IntegerGrid]) -> ModelInterface:
    """Return the interface with the grids of its tensors."""

    def stated(tensor: Tensor) -> Tensor:
        grid = grids.get(tensor.name)
        if grid is None:
            return tensor
        return replace(tensor, scale=grid.scale, zero_point=grid.zero_point)

    return replace(
        interface,
        inputs=tuple(stated(t) for t in interface.inputs),
        outputs=tuple(stated(t) for t in interface.outputs),
    )
