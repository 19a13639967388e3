"""The quantization parameters of a network's inputs and outputs, as its operators state them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from firmwright.models.onnx.importer import import_model
from firmwright.models.tflite.importer import import_model as import_tflite
from tests.networks.tflite_models import ModelBuilder, Quantization


def make_model(scales: tuple[float, ...], reader: str = "DequantizeLinear") -> bytes:
    """Return a model whose int8 input is dequantized by each of these scales, and summed."""
    nodes = [
        helper.make_node(reader, ["x", f"s{n}", "z"], [f"f{n}"])
        if reader == "DequantizeLinear"
        else helper.make_node("Cast", ["x"], [f"f{n}"], to=TensorProto.FLOAT)
        for n in range(len(scales))
    ]
    nodes.append(helper.make_node("Sum", [f"f{n}" for n in range(len(scales))], ["sum"]))
    nodes.append(helper.make_node("QuantizeLinear", ["sum", "out_scale", "out_zero"], ["y"]))
    constants = {f"s{n}": np.array(scale, "float32") for n, scale in enumerate(scales)}
    constants["out_scale"] = np.array(0.5, "float32")
    constants |= {"z": np.array(-3, "int8"), "out_zero": np.array(7, "uint8")}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [1, 4])],
        [numpy_helper.from_array(v, name) for name, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("scales", "reader", "expected"),
    [
        ((0.25,), "DequantizeLinear", (0.25, -3)),
        ((0.25, 0.25), "DequantizeLinear", (0.25, -3)),
        ((0.25, 0.125), "DequantizeLinear", (None, None)),
        ((0.25,), "Cast", (None, None)),
    ],
    ids=["one", "equal", "two", "cast"],
)
def test_ports_have_the_grids_around_them(
    scales: tuple[float, ...], reader: str, expected: tuple[float | None, int | None]
) -> None:
    _, interface = import_model(make_model(scales, reader), "model", {})
    (given,), (returned,) = interface.inputs, interface.outputs
    assert (given.scale, given.zero_point) == expected
    assert (returned.scale, returned.zero_point) == (0.5, 7)


def test_a_float_tensor_of_tflite_has_no_grid() -> None:
    """TVM's converters read a scale as a quantized tensor; LiteRT's kernels ignore it."""
    builder = ModelBuilder()
    left, right = (builder.input(shape, "float32", Quantization(0.5)) for shape in ((2, 3), (3, 4)))
    result = builder.output((2, 4), "float32", Quantization(0.25, 3))
    builder.operator("BATCH_MATMUL", [left, right], [result], "BatchMatMulOptions", 1)
    _, interface = import_tflite(builder.build(), "m.tflite", {})
    assert [t.scale for t in (*interface.inputs, *interface.outputs)] == [None] * 3
