"""A network with a batch computes for each sample the result of the sample alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.tensors import ModelInterface
from firmwright.models.onnx.importer import import_model
from firmwright.planning import MemoryUse
from firmwright.planning.batch import batch_module, batch_network, largest_tensor
from firmwright.transforms import canonicalize

SIZE = 3
Arrays = list[np.ndarray[Any, Any]]


def network_of(
    nodes: list[onnx.NodeProto], shape: list[int], constants: dict[str, Any] | None = None
) -> tuple[tvm.IRModule, ModelInterface]:
    """Import a graph from ``x`` to ``y`` as the partition stage does."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    module, interface = import_model(model.SerializeToString(), "test.onnx", {})
    return canonicalize(module), interface


def module_of(
    nodes: list[onnx.NodeProto], shape: list[int], constants: dict[str, Any] | None = None
) -> tvm.IRModule:
    return network_of(nodes, shape, constants)[0]


def evaluate(module: tvm.IRModule, *inputs: np.ndarray[Any, Any]) -> Arrays:
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(a) for a in inputs))
    results = [result] if hasattr(result, "numpy") else list(result)
    return [np.asarray(r.numpy()) for r in results]


def floats(*shape: int) -> np.ndarray[Any, Any]:
    values: np.ndarray[Any, Any] = np.random.default_rng(0).normal(0, 1, shape).astype("float32")
    return values


def node(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), [output], name=f"{kind}_{output}", **attributes)


GRAPHS: dict[str, tuple[list[onnx.NodeProto], list[int], dict[str, Any]]] = {
    "convolution, pooling, dense": (
        [
            node("Conv", "x w b", "a", pads=[1, 1, 1, 1]),
            node("Relu", "a", "c"),
            node("MaxPool", "c", "d", kernel_shape=[2, 2], strides=[2, 2]),
            node("Reshape", "d shape", "e"),
            node("MatMul", "e m", "f"),
            node("Softmax", "f", "y", axis=-1),
        ],
        [1, 3, 4, 4],
        {"w": floats(5, 3, 3, 3), "b": floats(5), "shape": np.array([1, 20]), "m": floats(20, 7)},
    ),
    "batch moved away and back": (
        [
            node("Transpose", "x", "a", perm=[1, 0, 2]),
            node("Unsqueeze", "a axes", "b"),
            node("Mul", "b k", "c"),
            node("Squeeze", "c axes", "d"),
            node("Transpose", "d", "y", perm=[1, 2, 0]),
        ],
        [1, 4, 5],
        {"axes": np.array([0]), "k": floats(1, 4, 1, 5)},
    ),
    "shared tensor joined": (
        [node("Mul", "k k", "a"), node("Concat", "x a", "y", axis=1)],
        [1, 2, 3],
        {"k": floats(1, 4, 3)},
    ),
    "slice, reduce, broadcast": (
        [
            node("Slice", "x from to axes", "a"),
            node("ReduceMean", "a", "b", axes=[2], keepdims=0),
            node("Sub", "b k", "y"),
        ],
        [1, 6, 8],
        {"from": np.array([1]), "to": np.array([5]), "axes": np.array([1]), "k": floats(4)},
    ),
    "channels shuffled, the batch merged with them": (
        [
            node("Reshape", "x grouped", "a"),
            node("Transpose", "a", "b", perm=[1, 0, 2]),
            node("Reshape", "b apart", "c"),
            node("Gather", "c second", "y", axis=0),
        ],
        [1, 6, 2, 2],
        {
            "grouped": np.array([3, 2, 4]),
            "apart": np.array([2, 1, 3, 2, 2]),
            "second": np.array(1),
        },
    ),
    "cells of all samples in one axis": (
        [
            node("Transpose", "x", "a", perm=[0, 2, 3, 1]),
            node("Reshape", "a cells", "b"),
            node("MatMul", "b m", "c"),
            node("Softmax", "c", "d", axis=1),
            node("Reshape", "d grid", "y"),
        ],
        [1, 5, 2, 3],
        {"cells": np.array([6, 5]), "m": floats(5, 4), "grid": np.array([1, 2, 3, 4])},
    ),
    "normalized images": (
        [node("InstanceNormalization", "x s b", "y")],
        [1, 3, 2, 4],
        {"s": floats(3), "b": floats(3)},
    ),
    "samples multiplied with themselves": (
        [node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "x t", "y")],
        [1, 4, 6],
        {},
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_each_sample_of_a_batch_gets_what_it_gets_alone(name: str) -> None:
    nodes, shape, constants = GRAPHS[name]
    module = module_of(nodes, shape, constants)
    lengthened, (axis,) = batch_module(module, SIZE)
    samples = [floats(*shape) + i for i in range(SIZE)]
    alone = [evaluate(module, s)[0] for s in samples]
    assert axis is not None
    (together,) = evaluate(lengthened, np.concatenate(samples))
    np.testing.assert_array_equal(together, np.concatenate(alone, axis))


MIXED: dict[str, tuple[list[onnx.NodeProto], list[int], dict[str, Any], str]] = {
    "softmax over the batch": (
        [node("Softmax", "x", "y", axis=0)], [1, 4], {}, "softmax.* computes along the batch axis",
    ),
    "mean over everything": (
        [node("ReduceMean", "x", "y")], [1, 4], {}, "mean.* reduces over the batch axis",
    ),
    "concatenation of samples": (
        [node("Concat", "x k", "y", axis=0)], [1, 4], {"k": floats(2, 4)},
        "concat.* joins tensors along the batch axis",
    ),
    "flattened away": (
        [node("Reshape", "x shape", "y")], [1, 4], {"shape": np.array([4])},
        "no axis of the output of shape .* is only for samples",
    ),
    "samples within an axis": (
        [node("Transpose", "x", "t", perm=[1, 0]), node("Reshape", "t shape", "y")], [1, 4],
        {"shape": np.array([2, 2])}, "keeps no axis for the batch",
    ),
    "window over merged samples": (
        [node("Reshape", "x shape", "a"), node("MaxPool", "a", "y", kernel_shape=[2])], [1, 4, 6],
        {"shape": np.array([4, 1, 6])}, "reads an axis that a reshape merged with the batch",
    ),
    "a constant for each merged element": (
        [node("Reshape", "x shape", "a"), node("Add", "a k", "b"), node("Reshape", "b back", "y")],
        [1, 4, 6], {"shape": np.array([4, 6]), "k": floats(4, 1), "back": np.array([1, 4, 6])},
        "spreads a tensor along the batch axis",
    ),
    "each with every other": (
        [node("Transpose", "x", "t", perm=[1, 0]), node("MatMul", "x t", "y")], [1, 4], {},
        "multiplies each sample by every other sample",
    ),
    "summed over the batch": (
        [node("MatMul", "k x", "y")], [1, 4], {"k": floats(3, 1)}, "sums over the batch axis",
    ),
    "spread along the batch": (
        [node("Add", "x k", "y")], [1, 4], {"k": floats(3, 4)},
        "spreads a tensor along the batch axis",
    ),
    "a matrix for each of several": (
        [node("MatMul", "x k", "y")], [1, 2, 4], {"k": floats(5, 4, 3)},
        "spreads a tensor along the batch axis",
    ),
    "read as channels": (
        [node("Transpose", "x", "t", perm=[1, 0, 2, 3]), node("Conv", "t w", "y")],
        [1, 1, 5, 5], {"w": floats(2, 1, 3, 3)}, "reads the batch axis as axis C of NCHW",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_an_operator_that_mixes_samples_is_named(name: str) -> None:
    nodes, shape, constants, message = MIXED[name]
    with pytest.raises(UserError, match=message):
        batch_module(module_of(nodes, shape, constants), SIZE)


def test_an_operator_that_makes_an_output_is_named_as_in_the_model() -> None:
    module, interface = network_of([node("ReduceMean", "x", "y", axes=[0])], [1, 4])
    with pytest.raises(UserError, match=r"operator mean \('ReduceMean_y'\) reduces over the batch"):
        batch_network(module, interface, SIZE)


def test_largest_tensor_of_a_batch() -> None:
    nodes = [node("Concat", "x x", "a", axis=1), node("ReduceMax", "a", "y", axes=[1])]
    module, interface = network_of(nodes, [1, 4])
    for size, fits in ((2**26 - 1, True), (2**26, False)):
        batched, _, _ = batch_network(module, interface, size)
        assert largest_tensor(batched) == MemoryUse("largest tensor", size * 32, 2**31 - 1)
        assert largest_tensor(batched).fits == fits


def test_an_input_with_a_first_axis_of_its_own_is_refused() -> None:
    module = module_of([node("Relu", "x", "y")], [2, 4])
    with pytest.raises(UserError, match=r"input 'x' has the shape \[2, 4\]"):
        batch_module(module, SIZE)
