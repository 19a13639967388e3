"""Operators of Deeploy and quantlib (integers in float tensors), compared with their definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model, run_reference
from tests.networks.firmware import run_generated
from tests.networks.imported import run_imported
from tests.networks.onnx_models import graph, node, value

Array = np.ndarray[Any, Any]


def number(value: float) -> onnx.TensorProto:
    """Return an attribute as quantlib writes it: a tensor of one float."""
    return onnx.numpy_helper.from_array(np.array([value], "float32"))


def requantize(total: Array, mul: Array, add: Array, shift: int) -> Array:
    """Return the integers of Deeploy's kernel RequantShift, before they are clipped."""
    wide: Array = total.astype("int64") * mul.astype("int64") + add.astype("int64")
    rounded: Array = (wide + (1 << shift >> 1)) >> shift
    return rounded


def compare(model: onnx.ModelProto, sample: Array, expected: Array, folder: Path) -> None:
    data = model.SerializeToString()
    given = [{"x": sample.astype("float32")}]
    reference = run_reference(data, given)
    assert reference.runtime.startswith("onnxruntime")
    np.testing.assert_array_equal(reference.outputs[0][0], expected)
    np.testing.assert_array_equal(run_generated(data, given, folder)[0][0], expected)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("domain", ["", "PACTOps"])
@pytest.mark.parametrize(("signed", "low", "high"), [(1, -128, 127), (0, 0, 255)])
@pytest.mark.parametrize("size", [[5, 6], [7]])
def test_a_convolution_is_requantized_by_channel(
    size: list[int], signed: int, low: int, high: int, domain: str, tmp_path: Path
) -> None:
    random = np.random.default_rng(5)
    weights = random.integers(-128, 128, (4, 3, *[1] * len(size))).astype("float32")
    mul = random.integers(5000, 90000, (1, 4, 1, 1)).astype("int32")
    add = random.integers(-(2**28), 2**28, (1, 4, 1, 1)).astype("int32")
    nodes = [
        node("Conv", ["x", "w"], ["t"]),
        node("RequantShift", ["t", "mul", "add"], ["y"], "requant", domain=domain,
             div=number(2**24), n_levels=number(256), signed=number(signed)),
    ]  # fmt: skip
    constants = {"w": weights, "mul": mul, "add": add}
    ports = [value("x", [1, 3, *size])], [value("y", [1, 4, *size])]
    x = random.integers(-128, 128, (1, 3, *size))
    total = np.einsum("oi,ni...->no...", weights[..., 0].reshape(4, 3), x)
    along = [1, 4, *[1] * len(size)]
    expected = requantize(total, mul.reshape(along), add.reshape(along), 24)
    compare(graph(nodes, *ports, constants, 13), x, np.clip(expected, low, high), tmp_path)


@pytest.mark.needs("gcc")
def test_a_hard_swish_is_one_of_integers(tmp_path: Path) -> None:
    swish = node("iHardswish", ["x"], ["y"], one_over_six=33, three=76, six=153)
    x = np.arange(-128, 128).reshape(1, -1)
    expected = x * np.clip(x + 76, 0, 153) * 33
    model = graph([swish], [value("x", [1, 256])], [value("y", [1, 256])], {}, 13)
    compare(model, x, expected, tmp_path)


def divide(dividend: Array, divisor: Any) -> Array:
    """Divide and round toward zero, like C."""
    quotient: Array = np.sign(dividend * divisor) * (np.abs(dividend) // np.abs(divisor))
    return quotient


def normalize(x: Array, weight: Array, bias: Any, shift: int) -> Array:
    deviation = np.sqrt(divide((x * x).sum(-1, keepdims=True), x.shape[-1]) + 1).astype(int)
    result: Array = (divide(x * weight, deviation) + bias) >> shift
    return np.clip(result, -128, 127)


NUMBERS = np.random.default_rng(2).integers(-128, 128, (3, 16))
WEIGHT = np.random.default_rng(3).integers(-(2**21), 2**21, 16)
BIAS = np.random.default_rng(4).integers(-(2**20), 2**20, 16)


def compare_import(name: str, expected: Array, weights: list[Array], **stated: int) -> None:
    """Compare the imported operator and ONNX Runtime's result, bit for bit."""
    constants = {f"c{i}": weight.astype("float32") for i, weight in enumerate(weights)}
    attributes: dict[str, Any] = dict(stated)
    nodes = [node(name, ["x", *constants], ["y"], **attributes)]
    ports = [value("x", NUMBERS.shape)], [value("y", NUMBERS.shape)]
    data, x = graph(nodes, *ports, constants, 13).SerializeToString(), NUMBERS.astype("float32")
    reference = run_reference(data, [{"x": x}])
    assert reference.runtime.startswith("onnxruntime")
    np.testing.assert_array_equal(reference.outputs[0][0], expected)
    np.testing.assert_array_equal(run_imported(data, x)[0], expected)


def test_a_softmax_is_one_of_integers() -> None:
    below = NUMBERS - NUMBERS.max(-1, keepdims=True)
    shift = -below // 90
    part = ((below + shift * 90 + 110) ** 2 + 5000) >> shift
    expected = part * 255 // part.sum(-1, keepdims=True)
    stated = {"coeffA": 1, "coeffB": 110, "coeffC": 5000, "log2": 90, "n_levels": 256}
    compare_import("iSoftmax", expected, [], **stated)


def test_a_gelu_is_one_of_integers() -> None:
    part = np.minimum(np.abs(NUMBERS), 70) - 70
    expected = NUMBERS * ((5000 + np.sign(NUMBERS) * (5000 - part * part)) >> 1)
    compare_import("iGELU", expected, [], b=-70, one=5000)


def test_a_layer_is_normalized_on_integers() -> None:
    centered = NUMBERS - divide(NUMBERS.sum(-1, keepdims=True), 16)
    expected = normalize(centered, WEIGHT, BIAS, 15)
    compare_import("iLayerNorm", expected, [WEIGHT, BIAS], D=2**15, n_levels=256)


def test_a_root_mean_square_is_one_of_integers() -> None:
    expected = normalize(NUMBERS, WEIGHT, 0, 15)
    compare_import("iRMSNorm", expected, [WEIGHT], D=2**15, n_levels=256)


def test_factors_without_a_deviation_are_integers() -> None:
    expected = np.clip((NUMBERS * WEIGHT + BIAS) * 425 >> 26, -128, 127)
    compare_import("iNoNorm", expected, [WEIGHT, BIAS], D=2**26, mul=425, n_levels=256)


@pytest.mark.parametrize("divisor", [None, np.arange(1, 17), -np.arange(1, 17)])
def test_a_quotient_is_rounded_toward_zero(divisor: Array | None) -> None:
    y = 2 if divisor is None else divisor
    expected = divide(NUMBERS * 16384 * 200000, y * 200000 + 1)
    constants, stated = ([], {"y": 2}) if divisor is None else ([divisor], {})
    compare_import("TrueIntegerDiv", expected, constants, Delta=16384, eps=1, eta=200000, **stated)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("iSoftmax", "its attribute 'log2' is missing"),
        ("RequantShift", "one of its 1 inputs is missing"),
    ],
)
def test_an_incomplete_operator_is_rejected(name: str, problem: str) -> None:
    model = graph([node(name, ["x"], ["y"])], [value("x", [2])], [value("y", [2])], {}, 13)
    with pytest.raises(UserError, match=rf"m.onnx: operator {name} \(node 'y'\): {problem}"):
        import_model(model.SerializeToString(), "m.onnx", {})
