"""QONNX's quantizers, compared with their definition in numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from firmwright.errors import UserError
from firmwright.models.onnx.domains import get_opset
from firmwright.models.onnx.importer import import_model, run_reference
from firmwright.models.onnx.qonnx import expand_quantizers
from tests.networks.firmware import run_generated
from tests.networks.imported import run_imported
from tests.networks.onnx_models import graph, node, value

Array = np.ndarray[Any, Any]
DOMAIN = "qonnx.custom_op.general"
ROUNDINGS: dict[str, Any] = {
    "ROUND": np.round,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "DOWN": np.trunc,
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - 0.5),
}


def normal(*shape: int) -> Array:
    return np.random.default_rng(7).normal(0, 1, shape).astype("float32")


def limits(bits: int, signed: int, narrow: int) -> tuple[int, int]:
    if signed:
        return narrow - 2 ** (bits - 1), 2 ** (bits - 1) - 1
    return 0, 2**bits - 1 - narrow


def quantize(x: Array, scale: Any, zero: float, bits: int, signed: int, narrow: int,
             mode: str) -> Array:  # fmt: skip
    """Return the values of Quant; 32-bit floats as in QONNX."""
    number: Any = np.float32(x) / np.float32(scale) + np.float32(zero)
    if bits == 1 and signed:
        number = np.where(number >= 0, 1, -1)
    else:
        number = np.clip(number, *limits(bits, signed, narrow))
        number = ROUNDINGS[mode](number)
    result: Array = ((number - np.float32(zero)) * np.float32(scale)).astype("float32")
    return result


def make_quantizer(
    operator: str, x: Array, parameters: list[Any], opset: int = 13, **stated: Any
) -> bytes:
    names = [f"p{i}" for i in range(len(parameters))]
    constants = {n: np.array(p, "float32") for n, p in zip(names, parameters, strict=True)}
    nodes = [node(operator, ["x", *names], ["y"], domain=DOMAIN, **stated)]
    model = graph(nodes, [value("x", x.shape)], [value("y", x.shape)], constants, opset)
    model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    data: bytes = model.SerializeToString()
    return data


def check(data: bytes, x: Array, expected: Array, integers: bool) -> None:
    """Compare the reference and the import, and whether the quantizer computes on integers."""
    reference = run_reference(data, [{"x": x}])
    assert reference.runtime.startswith("onnxruntime")
    np.testing.assert_array_equal(reference.outputs[0][0], expected)
    module, interface = import_model(data, "m.onnx", {})
    remarks = [r for r in interface.remarks if "compute on floats, not on integers: y" in r]
    assert len(remarks) == (not integers)
    assert ("dequantize" in module.script()) == integers
    np.testing.assert_array_equal(run_imported(data, x)[0], expected)


CHANNELS = np.array([0.1, 0.25, 0.4]).reshape(3, 1, 1)


@pytest.mark.parametrize(
    ("scale", "zero", "bits", "signed", "narrow", "mode", "integers"),
    [
        (0.125, 0, 8, 1, 0, "ROUND", True),
        (0.1, 0, 4, 1, 1, "ROUND", True),
        (CHANNELS, 0, 3, 1, 0, "ROUND", True),
        (0.01, 128, 8, 0, 0, "ROUND", True),
        (0.25, 0, 2, 0, 1, "ROUND", True),
        (0.001, 0, 12, 1, 0, "ROUND", True),
        (0.5, 0, 1, 1, 0, "ROUND", True),
        (0.125, 3, 4, 0, 0, "ROUND", False),
        (0.1, 0, 6, 1, 0, "FLOOR", False),
        (0.1, 0, 5, 1, 0, "CEIL", False),
        (0.125, 0, 4, 1, 1, "UP", False),
        (0.125, 0, 3, 0, 0, "DOWN", False),
        (0.125, 2, 4, 1, 0, "HALF_UP", False),
        (0.125, 0, 8, 1, 0, "HALF_DOWN", False),
        (0.0001, 0, 20, 1, 0, "ROUND", False),
    ],
)
def test_a_quantizer_has_the_values_of_its_definition(
    scale: Any, zero: int, bits: int, signed: int, narrow: int, mode: str, integers: bool
) -> None:
    x = normal(2, 3, 4, 5)
    x.flat[:4] = [0, 0.1875, -0.0625, 60]
    stated: dict[str, Any] = {"signed": signed, "narrow": narrow, "rounding_mode": mode}
    data = make_quantizer("Quant", x, [scale, zero, bits], **stated)
    check(data, x, quantize(x, scale, zero, bits, signed, narrow, mode), integers)


def test_signs_are_quantized() -> None:
    x = normal(2, 3)
    x[0, 0] = 0
    data = make_quantizer("BipolarQuant", x, [0.5], opset=11)
    check(data, x, np.where(x >= 0, 0.5, -0.5).astype("float32"), True)


@pytest.mark.parametrize("rest", [[4], [0.5, 4]])
def test_the_last_bits_are_removed(rest: list[float]) -> None:
    x = (np.arange(-128, 128) * 0.03125).astype("float32")
    whole = np.floor(np.arange(-128, 128) / 16)
    expected = whole * (0.03125 if len(rest) == 1 else 0.5)
    data = make_quantizer("Trunc", x, [0.03125, 0, 8, *rest], rounding_mode="FLOOR")
    check(data, x, expected.astype("float32"), False)


@pytest.mark.needs("gcc")
def test_a_layer_computes_on_integers(tmp_path: Path) -> None:
    def quantizer(name: str, result: str, scale: str, bits: str, signed: int) -> onnx.NodeProto:
        return node("Quant", [name, scale, "zero", bits], [result], result, domain=DOMAIN,
                    signed=signed, narrow=signed, rounding_mode="ROUND")  # fmt: skip

    nodes = [
        quantizer("x", "a", "coarse", "eight", 1),
        quantizer("w", "f", "fine", "four", 1),
        node("Conv", ["a", "f"], ["c"]),
        node("Relu", ["c"], ["r"]),
        quantizer("r", "y", "coarse", "seven", 0),
    ]
    weights, fine = normal(4, 3, 3, 3), np.array([0.25, 0.5, 0.125, 0.0625], "float32")
    numbers = {"zero": 0.0, "four": 4.0, "seven": 7.0, "eight": 8.0, "coarse": 0.0625}
    constants = {name: np.array(number, "float32") for name, number in numbers.items()}
    constants |= {"w": weights, "fine": fine.reshape(4, 1, 1, 1)}
    ports = [value("x", [1, 3, 6, 6])], [value("y", [1, 4, 4, 4])]
    model = graph(nodes, *ports, constants, 12)
    model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    data, x = model.SerializeToString(), normal(1, 3, 6, 6)
    expected = run_reference(data, [{"x": x}])
    assert expected.runtime.startswith("onnxruntime")
    found = run_generated(data, [{"x": x}], tmp_path)[0][0]
    np.testing.assert_array_equal(found, expected.outputs[0][0])
    texts = "".join(path.read_text() for path in (tmp_path / "sources").rglob("*.c"))
    assert "int8_t" in texts


def test_a_parameter_is_a_constant() -> None:
    nodes = [node("Quant", ["x", "x", "z", "b"], ["y"], domain=DOMAIN)]
    numbers = {"z": np.float32(0), "b": np.float32(8)}
    model = graph(nodes, [value("x", [2])], [value("y", [2])], numbers)
    with pytest.raises(UserError, match=r"Quant \(node 'y'\): its parameter 'x' is not a constant"):
        import_model(model.SerializeToString(), "m.onnx", {})


def test_a_rounding_is_known() -> None:
    data = make_quantizer("Quant", normal(2), [1, 0, 8], rounding_mode="ODD")
    with pytest.raises(
        UserError, match="its rounding_mode is ODD; export it with one of ROUND, HALF"
    ):
        import_model(data, "m.onnx", {})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([0.5, -2, 1], "1 bit, and a zero point or a scale that is not positive"),
        ([-0.5, 0, 1], "1 bit, and a zero point or a scale that is not positive"),
        (
            [0.5, 0, [4, 5]],
            r"its bit width is \[4.0, 5.0\]; export it with one width, a whole number",
        ),
        ([0.5, 0, 3.9], "its bit width is"),
        ([0.5, 0, np.nan], "its bit width is nan"),
        ([0.5, 0, 3000], "its bit width is 3000.0"),
        ([0.5, 0], "it has 3 inputs; expected 4: export it again"),
    ],
)
def test_wrong_parameters_are_rejected(parameters: list[Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        import_model(make_quantizer("Quant", normal(2, 3), parameters), "m.onnx", {})


@pytest.mark.parametrize(
    ("scale", "zero"),
    [(0.5, [2.0]), (CHANNELS, np.full((1, 1, 1, 1), 2)), (CHANNELS, np.full((1, 3, 1, 1), 2))],
    ids=["scalar", "one", "other rank"],
)
def test_zero_points_have_another_rank(scale: Any, zero: Any) -> None:
    x = normal(1, 3, 4, 5)
    module, _ = import_model(make_quantizer("Quant", x, [scale, zero, 4]), "m.onnx", {})
    assert module is not None
    (found,) = run_reference(make_quantizer("Quant", x, [scale, zero, 4]), [{"x": x}]).outputs
    np.testing.assert_array_equal(found[0], quantize(x, scale, 2, 4, 1, 0, "ROUND"))


def test_a_branch_keeps_its_opset() -> None:
    """A Softmax without an axis has another meaning from opset 13 on."""
    branch = graph([node("Softmax", ["q"], ["s"])], [], [value("s", [2, 3])]).graph
    nodes = [
        node("Quant", ["x", "scale", "zero", "bits"], ["q"], domain=DOMAIN),
        node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch),
    ]
    constants = {"scale": 0.5, "zero": 0.0, "bits": 4.0}
    stored = {name: np.array(number, "float32") for name, number in constants.items()}
    stored["yes"] = np.array(True)
    model = graph(nodes, [value("x", [2, 3])], [value("y", [2, 3])], stored, 12)
    model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    assert expand_quantizers(model)
    assert get_opset(model) == 12
