"""Models as ONNX Runtime's tools write them: quantized operators and fused operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from firmwright.data.samples import random_samples
from firmwright.errors import UserError
from firmwright.models.onnx.domains import LEAST_INPUTS
from firmwright.models.onnx.graph.quantized_lstm import QUANTIZED_LSTM
from firmwright.models.onnx.graph.rewrites import RUNTIME_REWRITES
from firmwright.models.onnx.importer import import_model, run_reference
from tests.networks.firmware import lowered, run_generated
from tests.networks.onnx_models import graph, node, value

pytestmark = pytest.mark.needs("gcc")

RANDOM = np.random.default_rng(3)


def weights(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 0.3, shape).astype("float32")


def make_network(*, is_quantizable: bool) -> onnx.ModelProto:
    """Return a network with each operator that the quantizer or the optimizer replaces."""
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]),
        node("LeakyRelu", ["a"], ["leaky"], alpha=0.2),
        node("Conv", ["leaky", "w2"], ["b"]),
        node("Sigmoid", ["b"], ["gate"]),
        node("Mul", ["b", "gate"], ["swish"]),
        node("Add", ["swish", "leaky"], ["sum"]),
        node("Concat", ["sum", "gate"], ["joined"], axis=1),
        node("AveragePool", ["joined"], ["small"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["small"], ["pooled"]),
        node("Flatten", ["pooled"], ["flat"]),
        node("Gemm", ["flat", "w3", "b3"], ["scores"], transB=1),
    ]
    last = node("Softmax", ["scores"], ["y"]) if is_quantizable else node("Relu", ["scores"], ["y"])
    constants = {
        "w1": weights(6, 3, 3, 3), "b1": weights(6), "w2": weights(6, 6, 1, 1),
        "w3": weights(5, 12), "b3": weights(5),
    }  # fmt: skip
    return graph([*nodes, last], [value("x", [1, 3, 8, 8])], [value("y", [1, 5])], constants, 17)


class Samples(CalibrationDataReader):  # type: ignore[misc]
    """Samples with which the quantizer finds the ranges."""

    def __init__(self) -> None:
        self.left = [{"x": RANDOM.normal(0, 1, (1, 3, 8, 8)).astype("float32")} for _ in range(4)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def largest_difference(data: bytes, folder: Path) -> float:
    interface = import_model(data, "network", {})[1]
    samples = [dict(s) for s in random_samples(interface.inputs, 4, 1)]
    found = run_generated(data, samples, folder)
    expected = run_reference(data, samples)
    assert expected.runtime.startswith("onnxruntime")
    return max(
        float(np.abs(ours.astype("float64") - theirs).max())
        for mine, reference in zip(found, expected.outputs, strict=True)
        for ours, theirs in zip(mine, reference, strict=True)
    )


@pytest.mark.parametrize("per_channel", [False, True])
def test_what_the_quantizer_writes_is_within_one_step(tmp_path: Path, per_channel: bool) -> None:
    quantize_static(
        make_network(is_quantizable=True),
        tmp_path / "q.onnx",
        Samples(),
        quant_format=QuantFormat.QOperator,
        per_channel=per_channel,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=None,
    )
    model = onnx.load(tmp_path / "q.onnx")
    kinds = {n.op_type for n in model.graph.node if n.domain == "com.microsoft"}
    assert kinds == {
        "QGemm", "QLinearAdd", "QLinearAveragePool", "QLinearConcat", "QLinearGlobalAveragePool",
        "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid", "QLinearSoftmax",
    }  # fmt: skip
    assert largest_difference(model.SerializeToString(), tmp_path) <= 2 / 256


def test_what_the_optimizer_writes_is_the_same_network(tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "o.onnx")
    plain = make_network(is_quantizable=False).SerializeToString()
    onnxruntime.InferenceSession(plain, options, providers=["CPUExecutionProvider"])
    model = onnx.load(tmp_path / "o.onnx")
    kinds = {n.op_type for n in model.graph.node if n.domain == "com.microsoft"}
    assert {"FusedConv", "FusedGemm"} <= kinds
    assert largest_difference(model.SerializeToString(), tmp_path) < 1e-5


def with_domain(model: onnx.ModelProto) -> bytes:
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return bytes(model.SerializeToString())


def test_fused_operators_with_all_that_they_can_have(tmp_path: Path) -> None:
    nodes = [
        node("FusedConv", ["x", "w", "", "x"], ["clipped"], domain="com.microsoft",
             activation="Clip", activation_params=[-0.5, 1.5]),
        node("FusedMatMul", ["clipped", "m"], ["y"], domain="com.microsoft",
             transA=1, transB=1, alpha=0.5),
    ]  # fmt: skip
    constants = {"w": weights(3, 3, 1, 1), "m": weights(5, 4)}
    model = graph(nodes, [value("x", [1, 3, 4, 8])], [value("y", [1, 3, 8, 5])], constants, 17)
    assert largest_difference(with_domain(model), tmp_path) < 1e-5


def test_an_activation_that_nobody_knows_is_refused() -> None:
    fused = node("FusedConv", ["x", "w"], ["y"], domain="com.microsoft", activation="Gelu")
    constants = {"w": weights(3, 3, 1, 1)}
    model = graph([fused], [value("x", [1, 3, 4, 8])], [value("y", [1, 3, 4, 8])], constants)
    with pytest.raises(
        UserError, match="its activation is Gelu; expected one of Celu, Clip, Elu, HardSigmoid"
    ):
        import_model(with_domain(model), "m.onnx", {})


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_lstm_of_the_dynamic_quantizer_is_within_its_noise(
    tmp_path: Path, per_channel: bool, direction: str
) -> None:
    ways = 2 if direction == "bidirectional" else 1
    lstm = node("LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], hidden_size=6, direction=direction)
    constants = {"w": weights(ways, 24, 5), "r": weights(ways, 24, 6), "b": weights(ways, 48)}
    outputs = [value("y", [3, ways, 1, 6]), value("h", [ways, 1, 6]), value("c", [ways, 1, 6])]
    model = graph([lstm], [value("x", [3, 1, 5])], outputs, constants, 17)
    onnx.save(model, tmp_path / "float.onnx")
    quantize_dynamic(tmp_path / "float.onnx", tmp_path / "q.onnx", per_channel=per_channel)
    data = (tmp_path / "q.onnx").read_bytes()
    assert b"DynamicQuantizeLSTM" in data
    assert largest_difference(data, tmp_path) < 1e-5


COLUMNS = 5
BYTES = RANDOM.integers(0, 256, (4, 32)).astype("uint8")
STORED = RANDOM.integers(-127, 128, (32, COLUMNS)).astype("int8")


@pytest.mark.parametrize(
    ("kind", "inputs", "x", "attributes"),
    [
        ("QLinearWhere", ["cond", "x", "s", "z", "other", "s2", "z", "s", "z"], BYTES, {}),
        ("MatMulIntegerToFloat", ["x", "w", "s", "ws", "z", "wz", "bias"], BYTES, {}),
        ("DynamicQuantizeMatMul", ["x", "w", "ws", "wz", "bias"], weights(4, 32), {}),
        *(
            ("MatMulNBits", ["x", f"B{bits}", "scales", *points], weights(4, 32),
             {"K": 32, "N": COLUMNS, "bits": bits, "block_size": 16})
            for bits, points in ((4, []), (4, ["points4"]), (8, ["points8"]))
        ),
    ],
)  # fmt: skip
def test_an_operator_of_onnx_runtime_equals_it(
    tmp_path: Path, kind: str, inputs: list[str], x: np.ndarray, attributes: dict[str, Any]
) -> None:
    constants = {
        "cond": RANDOM.integers(0, 2, (4, 32)).astype(bool), "other": BYTES[::-1],
        "s": np.float32(0.02), "s2": np.float32(0.05), "z": np.uint8(120),
        "w": STORED, "ws": np.array([0.01, 0.02, 0.03, 0.04, 0.05], "float32"),
        "wz": np.zeros(COLUMNS, "int8"), "bias": weights(COLUMNS),
        "B4": RANDOM.integers(0, 256, (COLUMNS, 2, 8)).astype("uint8"),
        "B8": RANDOM.integers(0, 256, (COLUMNS, 2, 16)).astype("uint8"),
        "scales": np.abs(weights(COLUMNS * 2)),
        "points4": RANDOM.integers(0, 256, COLUMNS).astype("uint8"),
        "points8": RANDOM.integers(0, 256, COLUMNS * 2).astype("uint8"),
    }  # fmt: skip
    is_float = kind != "QLinearWhere"
    model = graph(
        [node(kind, inputs, ["y"], domain="com.microsoft", **attributes)],
        [value("x", list(x.shape), onnx.helper.np_dtype_to_tensor_dtype(x.dtype))],
        [value("y", [4, COLUMNS]) if is_float else value("y", [4, 32], onnx.TensorProto.UINT8)],
        {name: constants[name] for name in inputs if name in constants},
    )
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    data = model.SerializeToString()
    expected = run_reference(data, [{"x": x}])
    assert expected.runtime.startswith("onnxruntime")
    ((found,),) = run_generated(data, [{"x": x}], tmp_path)
    np.testing.assert_allclose(found, expected.outputs[0][0], 1e-5, 1e-4 if is_float else 0)


@pytest.mark.parametrize("bits", [2, 4])
def test_weights_of_few_bits_stay_packed(tmp_path: Path, bits: int) -> None:
    """The last block has 7 of 16 weights, and the level permits ONNX Runtime's 8-bit products."""
    stored = RANDOM.integers(0, 256, (COLUMNS, 3, 2 * bits)).astype("uint8")
    constants = {"b": stored, "s": np.abs(weights(COLUMNS * 3)), "bias": weights(COLUMNS)}
    product = node(
        "MatMulNBits", ["x", "b", "s", "", "", "bias"], ["y"], domain="com.microsoft",
        K=39, N=COLUMNS, bits=bits, block_size=16, accuracy_level=4,
    )  # fmt: skip
    data = with_domain(
        graph([product], [value("x", [2, 3, 39])], [value("y", [2, 3, COLUMNS])], constants, 17)
    )
    (remark,) = import_model(data, "m.onnx", {})[1].remarks
    assert remark.startswith("MatMulNBits ('y'): accuracy_level is ignored")
    network = lowered(data)
    assert network.partition.macs == 6 * 39 * COLUMNS
    assert sum(array.nbytes for array in network.weights.values()) == sum(
        (stored.nbytes, 4 * COLUMNS * 3, COLUMNS * 3, 4 * COLUMNS)
    )
    assert largest_difference(data, tmp_path) < 1e-4


def test_an_axis_of_another_length_than_the_weights_is_rejected() -> None:
    constants = {"b": np.zeros((3, 1, 8), "uint8"), "s": np.ones(3, "float32")}
    product = node("MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft",
                   K=16, N=3, bits=4, block_size=16)  # fmt: skip
    data = with_domain(graph([product], [value("x", [2, 20])], [value("y", [2, 3])], constants, 17))
    with pytest.raises(UserError, match="its K is 16; expected 20, the length of"):
        import_model(data, "m.onnx", {})


def test_a_block_that_the_runtime_does_not_support_is_rejected() -> None:
    constants = {"b": np.zeros((3, 2, 12), "uint8"), "s": np.ones(6, "float32")}
    product = node("MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft",
                   K=40, N=3, bits=4, block_size=24)  # fmt: skip
    data = with_domain(graph([product], [value("x", [2, 40])], [value("y", [2, 3])], constants, 17))
    with pytest.raises(UserError, match="its block_size is 24; expected one of 16, 32, 64,"):
        import_model(data, "m.onnx", {})


OPERATORS = {name.removeprefix("com.microsoft.") for name in (*RUNTIME_REWRITES, *QUANTIZED_LSTM)}


def test_the_least_numbers_of_inputs_are_those_of_onnx_runtime() -> None:
    schemas = onnxruntime_pybind11_state.get_all_operator_schema()
    stated = {
        schema.name: schema.min_input
        for schema in schemas
        if schema.name in OPERATORS and schema.domain == "com.microsoft"
    }
    assert {"LayerNormalization": 2, "SimplifiedLayerNormalization": 2, **stated} == LEAST_INPUTS


@pytest.mark.parametrize("kind", sorted(OPERATORS))
def test_an_operator_without_an_input_that_it_needs_is_refused(kind: str) -> None:
    inputs = ["x"] * (LEAST_INPUTS[kind] - 1)
    damaged = node(kind, inputs, ["y"], domain="com.microsoft")
    model = graph([damaged], [value("x", [2, 5, 12])], [value("y", [2, 5, 12])], {}, 17)
    with pytest.raises(UserError, match=rf"{kind} \(node 'y'\): .* requires; found \d+ of"):
        import_model(with_domain(model), "m.onnx", {})
