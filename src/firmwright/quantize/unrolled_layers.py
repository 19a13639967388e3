"""Writes out recurrent layers step by step, because the quantizer supports only their operators.

The steps share their code, so all steps have equal quantization parameters. The first step reads
its state as a tensor. Tensors that differ only in the step share one calibration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from firmwright.ir.tensors import Tensor
from firmwright.models.onnx.graph.recurrent import LAYERS, RecurrentLayer, is_initial_state
from firmwright.models.onnx.graph.specialize import Rewrite, specialize

Array = npt.NDArray[Any]


def write_out_steps(model: onnx.ModelProto, inputs: Sequence[Tensor]) -> dict[str, Array]:
    """Replace recurrent layers in the graph. Return the known states before their first steps.

    The states become inputs to prevent folding. :func:`store_states` makes them constants.
    """
    stored = [i for i in model.graph.initializer if is_initial_state(i.name)]
    states = {i.name: numpy_helper.to_array(i) for i in stored}
    for tensor in stored:
        model.graph.initializer.remove(tensor)
    if not LAYERS.keys().isdisjoint(n.op_type for n in model.graph.node):
        model.graph.CopyFrom(write_out_operators(model, inputs, states))
    for name, value in states.items():
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        model.graph.input.append(helper.make_tensor_value_info(name, kind, value.shape))
    return states


def write_out_operators(
    model: onnx.ModelProto, inputs: Sequence[Tensor], states: dict[str, Array]
) -> onnx.GraphProto:
    """Return the graph without recurrent operators. Add the operators' states to ``states``."""

    def make_rewrite(layer: RecurrentLayer) -> Rewrite:
        return lambda body: layer.write_out(body, states.__setitem__)

    rewrites = {kind: make_rewrite(layer) for kind, layer in LAYERS.items()}
    graph = specialize(model, inputs, rewrites).graph
    name_apart(graph)
    return graph


def name_apart(graph: onnx.GraphProto) -> None:
    """Rename nodes with equal names after their results, and remove the types of inner tensors."""
    count = Counter(n.name for n in graph.node)
    for node in graph.node:
        if count[node.name] > 1:
            node.name = node.output[0]  # no other node has this name
    del graph.value_info[:]


def store_states(model: onnx.ModelProto, states: Mapping[str, Array]) -> None:
    for value in [i for i in model.graph.input if i.name in states]:
        model.graph.input.remove(value)
        model.graph.initializer.append(numpy_helper.from_array(states[value.name], value.name))


def join_steps(arrays: Mapping[str, Array], keys: Mapping[str, str]) -> dict[str, Array]:
    """Return the values of tensors by their keys. Tensors with equal keys share one array."""
    joined: dict[str, list[Array]] = {}
    for name, array in arrays.items():
        joined.setdefault(keys[name], []).append(array)
    return {k: a[0] if len(a) == 1 else np.concatenate(a, None) for k, a in joined.items()}
