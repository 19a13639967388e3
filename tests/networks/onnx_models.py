"""Small valid and invalid ONNX models; this module does not check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
INT32 = TensorProto.INT32

node = helper.make_node


def value(name: str, shape: Sequence[int | str], kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(shape))


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Mapping[str, npt.NDArray[Any] | np.generic] | None = None,
    opset: int = 21,
) -> onnx.ModelProto:
    stored = [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()]
    made = helper.make_graph(nodes, "g", inputs, outputs, stored)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10)


def chain(*nodes: onnx.NodeProto, **constants: npt.NDArray[Any]) -> onnx.ModelProto:
    """Nodes from ``x`` to ``y``, both vectors of two floats."""
    return graph(nodes, [value("x", [2])], [value("y", [2])], constants)


def window(kind: str, **attributes: Any) -> onnx.ModelProto:
    """A pooling, or a convolution with a kernel of 3 x 2 x 1 x 1."""
    inputs = ["x", "w"] if kind == "Conv" else ["x"]
    return graph(
        [node(kind, inputs, ["y"], **attributes)],
        [value("x", [1, 2, 4, 4])],
        [value("y", ["a", "b", "c", "d"])],
        {"w": np.ones((3, 2, 1, 1), "float32")},
    )


def quantized_weights(
    scale: Any = (0.1, 0.2, 0.3), zero_point: Any = (0, 0, 0), kind: str = "int8", axis: int = 0
) -> onnx.ModelProto:
    """A convolution whose weights are dequantized, three channels along axis 0."""
    return graph(
        [
            node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=axis),
            node("Conv", ["x", "f"], ["y"]),
        ],
        [value("x", [1, 2, 4, 4])],
        [value("y", [1, 3, 4, 4])],
        {
            "w": np.ones((3, 2, 1, 1), "int8"),
            "s": np.array(scale, "float32"),
            "z": np.array(zero_point, kind),
        },
    )


def quantized(scale: float) -> onnx.ModelProto:
    """Return a quantize to int8 and a dequantize."""
    return graph(
        [
            node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            node("DequantizeLinear", ["q", "s", "z"], ["y"]),
        ],
        [value("x", [2, 3])],
        [value("y", [2, 3])],
        {"s": np.float32(scale), "z": np.int8(3)},
    )
