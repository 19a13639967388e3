"""ONNX models of pairs: an operator, and a second operator that the firmware fuses with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from tests.networks.onnx_models import graph, node, value

IMAGE, SERIES, ROWS = (1, 2, 6, 6), (1, 4, 8), (3, 8)

Array = npt.NDArray[Any]
Chain = tuple[list[onnx.NodeProto], dict[str, Array]]


@dataclass(frozen=True)
class Producer:
    """An operator on a tensor of a shape, and its other inputs.

    Float inputs have the type of the tensor; '' omits an input. ``picked`` is the number of the
    result, among ``results``, that the consumer reads as a float.
    """

    operator: str
    shape: tuple[int, ...]
    others: Sequence[Any] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    results: int = 1
    picked: int = 0
    is_index: bool = False


def make_numbers(*shape: int) -> Array:
    """Return numbers from -1 to 1; neighbors always differ."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 % 11) / 5 - 1).astype("float32").reshape(shape)


WIDE = np.array([1, 1, 1.5, 2], "float32")

PRODUCERS = {
    "Conv": Producer("Conv", IMAGE, [make_numbers(3, 2, 3, 3), make_numbers(3)]),
    "Conv depthwise": Producer("Conv", IMAGE, [make_numbers(2, 1, 3, 3)], {"group": 2}),
    "ConvTranspose": Producer("ConvTranspose", IMAGE, [make_numbers(2, 3, 2, 2)]),
    "MatMul": Producer("MatMul", ROWS, [make_numbers(8, 5)]),
    "Gemm": Producer("Gemm", ROWS, [make_numbers(5, 8), make_numbers(5)], {"transB": 1}),
    "Einsum": Producer("Einsum", ROWS, [make_numbers(8, 4)], {"equation": "ij,jk->ki"}),
    "MaxPool": Producer("MaxPool", IMAGE, (), {"kernel_shape": [2, 2]}),
    "AveragePool": Producer("AveragePool", IMAGE, (), {"kernel_shape": [2, 2], "pads": [1] * 4}),
    "LpPool": Producer("LpPool", IMAGE, (), {"kernel_shape": [2, 2]}),
    "GlobalAveragePool": Producer("GlobalAveragePool", IMAGE),
    "GlobalMaxPool": Producer("GlobalMaxPool", IMAGE),
    "Softmax": Producer("Softmax", ROWS),
    "LogSoftmax": Producer("LogSoftmax", ROWS),
    "Hardmax": Producer("Hardmax", ROWS),
    "LayerNormalization": Producer("LayerNormalization", ROWS, [make_numbers(8)]),
    "InstanceNormalization": Producer(
        "InstanceNormalization", IMAGE, [make_numbers(2), make_numbers(2)]
    ),
    # ONNX cannot infer the type of the result without the attribute.
    "MeanVarianceNormalization": Producer(
        "MeanVarianceNormalization", IMAGE, (), {"axes": [0, 2, 3]}
    ),
    "LRN": Producer("LRN", IMAGE, (), {"size": 3}),
    "LpNormalization": Producer("LpNormalization", ROWS),
    "ReduceSum": Producer("ReduceSum", ROWS, [np.array([1])]),
    "ReduceMean": Producer("ReduceMean", ROWS, [np.array([0])]),
    "ReduceMax": Producer("ReduceMax", ROWS, [np.array([1])], {"keepdims": 0}),
    "ReduceProd": Producer("ReduceProd", ROWS, [np.array([1])]),
    "ReduceL2": Producer("ReduceL2", ROWS, [np.array([0, 1])]),
    "ReduceLogSumExp": Producer("ReduceLogSumExp", ROWS, [np.array([1])]),
    "CumSum": Producer("CumSum", ROWS, [np.array(1)]),
    "ArgMax": Producer("ArgMax", ROWS, (), {"axis": 1}, is_index=True),
    "TopK values": Producer("TopK", ROWS, [np.array([3])], {}, 2),
    "TopK one value": Producer("TopK", ROWS, [np.array([1])], {}, 2),
    "TopK one index": Producer("TopK", ROWS, [np.array([1])], {}, 2, 1, is_index=True),
    "Gather": Producer("Gather", ROWS, [np.array([1, 0, -1])]),
    "Gather of one": Producer("Gather", (3, 1), [np.array([0, -1])], {"axis": 1}),
    "GatherElements": Producer("GatherElements", ROWS, [np.array([[0, 2, 1, 0, 1, 2, 0, 1]])]),
    "GatherND": Producer("GatherND", ROWS, [np.array([[0, 1], [2, 7]])]),
    "ScatterElements": Producer(
        "ScatterElements", ROWS, [np.array([[1, 2, 0]]), make_numbers(1, 3)], {"reduction": "add"}
    ),
    "ScatterND": Producer("ScatterND", ROWS, [np.array([[1], [0]]), make_numbers(2, 8)]),
    "Resize nearest": Producer("Resize", IMAGE, ["", WIDE]),
    "Resize linear": Producer("Resize", IMAGE, ["", WIDE], {"mode": "linear"}),
    "Resize cubic": Producer("Resize", IMAGE, ["", WIDE], {"mode": "cubic"}),
    "GridSample": Producer("GridSample", IMAGE, [make_numbers(1, 3, 4, 2)]),
    "RoiAlign": Producer(
        "RoiAlign", IMAGE, [np.array([[0, 0, 4, 5]], "float32"), np.array([0])],
        {"output_height": 2, "output_width": 2, "sampling_ratio": 0},
    ),
    "Pad": Producer("Pad", ROWS, [np.array([1, 0, 0, 2])], {"mode": "reflect"}),
    "Tile": Producer("Tile", ROWS, [np.array([2, 1])]),
    "DepthToSpace": Producer("SpaceToDepth", IMAGE, (), {"blocksize": 2}),
    "Trilu": Producer("Trilu", ROWS),
    "Split": Producer("Split", ROWS, [np.array([3, 5])], {"axis": 1}, 2, 1),
    "LSTM": Producer(
        "LSTM", SERIES, [make_numbers(1, 12, 8), make_numbers(1, 12, 3)], {"hidden_size": 3}
    ),
    "GRU": Producer(
        "GRU", SERIES, [make_numbers(1, 9, 8), make_numbers(1, 9, 3)], {"hidden_size": 3}
    ),
}  # fmt: skip
"""Operators by name; most compute their results in more than one step."""


def unary(operator: str, **attributes: Any) -> Callable[[str, str, str], Chain]:
    return lambda x, y, _kind: ([node(operator, [x], [y], **attributes)], {})


def with_constants(operator: str, *numbers: Any, **attributes: Any) -> Callable[..., Chain]:
    """Return a maker of an operator with other inputs; its float inputs have the chain's type."""

    def make(x: str, y: str, kind: str) -> Chain:
        names = [f"{y}_{number}" for number in range(len(numbers))]
        arrays = (np.asarray(n, kind if isinstance(n, float) else None) for n in numbers)
        made = [node(operator, [x, *names], [y], **attributes)]
        return made, dict(zip(names, arrays, strict=True))

    return make


def choose_positive(x: str, y: str, kind: str) -> Chain:
    made = [node("Greater", [x, f"{y}_0"], [f"{y}_c"]), node("Where", [f"{y}_c", x, f"{y}_0"], [y])]
    return made, {f"{y}_0": np.array(0.125, kind)}


CONSUMERS: Mapping[str, Callable[[str, str, str], Chain]] = {
    "Relu": unary("Relu"),
    "Gelu": unary("Gelu"),
    "HardSwish": unary("HardSwish"),
    "Softplus": unary("Softplus"),
    "Cast": unary("Cast", to=TensorProto.INT32),
    "Softmax": unary("Softmax", axis=0),
    "Clip": with_constants("Clip", -0.5, 0.75),
    "Add": with_constants("Add", 0.375),
    "QuantizeLinear": with_constants("QuantizeLinear", 0.0625, np.int8(3)),
    "ReduceSum": with_constants("ReduceSum", np.array([0]), keepdims=0),
    "Square": lambda x, y, _kind: ([node("Mul", [x, x], [y])], {}),
    "Where": choose_positive,
}
"""Operators that read one tensor, by name, as functions of input, output and element type."""


def make_model(producer: Producer, consumers: Sequence[str], kind: str) -> bytes:
    """Return a model with a chain for each consumer, from ``x_<consumer>`` to ``y_<consumer>``."""
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, Array] = {}
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    for name in consumers:
        inputs = [f"x_{name}"]
        for number, other in enumerate(producer.others):
            if isinstance(other, str):
                inputs.append(other)
                continue
            inputs.append(f"{name}_{number}")
            is_scale = producer.operator == "Resize"
            is_float = other.dtype == np.float32 and not is_scale
            constants[inputs[-1]] = other.astype(kind) if is_float else other
        results = [f"{name}_result_{number}" for number in range(producer.results)]
        nodes.append(node(producer.operator, inputs, results, **producer.attributes))
        read = results[producer.picked]
        if producer.is_index:
            nodes.append(node("Cast", [read], [f"{name}_float"], to=element))
            read = f"{name}_float"
        made, others = CONSUMERS[name](read, f"y_{name}", kind)
        nodes += made
        constants |= others
    return finish_model(nodes, producer, consumers, constants, element)


def finish_model(
    nodes: Sequence[onnx.NodeProto], producer: Producer, consumers: Sequence[str],
    constants: Mapping[str, Array], element: int,
) -> bytes:  # fmt: skip
    """Return the model with the types of its results filled in."""
    inputs = [value(f"x_{name}", producer.shape, element) for name in consumers]
    outputs = [onnx.ValueInfoProto(name=f"y_{name}") for name in consumers]
    made = graph(nodes, inputs, outputs, constants, opset=22)
    inferred = onnx.shape_inference.infer_shapes(made, check_type=True, strict_mode=True)
    return bytes(inferred.SerializeToString())
