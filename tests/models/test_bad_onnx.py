"""Invalid ONNX models are rejected with a message; unusual models compute the right results."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from firmwright.errors import UserError
from firmwright.models.onnx import importer
from tests.networks.firmware import SANITIZED, Sample, assert_exact, lowered, run_generated
from tests.networks.onnx_models import (
    FLOAT,
    INT32,
    chain,
    graph,
    node,
    quantized,
    quantized_weights,
    value,
    window,
)


def two_named_c() -> onnx.ModelProto:
    model = chain(node("Add", ["x", "c"], ["y"]), c=np.ones(2, "float32"))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(2, "float32"), "c"))
    return model


def no_outputs() -> onnx.ModelProto:
    model = chain(node("Relu", ["x"], ["y"]))
    del model.graph.output[:]
    return model


def constant(kind: int, dims: list[int], raw: bytes) -> onnx.ModelProto:
    model = chain(node("Add", ["x", "c"], ["y"]))
    model.graph.initializer.add(name="c", data_type=kind, dims=dims, raw_data=raw)
    return model


def big(shape: list[int]) -> onnx.ModelProto:
    return graph([node("Relu", ["x"], ["y"])], [value("x", shape)], [value("y", shape)])


def grown(kind: str, inputs: list[str], **constants: np.ndarray) -> onnx.ModelProto:
    nodes = [
        node(kind, inputs, ["r"]),
        node("ReduceMax", ["r"], ["m"]),
        node("Add", ["x", "m"], ["y"]),
    ]
    return graph(nodes, [value("x", [1])], [value("y", ["n"])], constants)


def of_domain(domain: str) -> onnx.ModelProto:
    model = chain(node("Relu", ["x"], ["y"], domain=domain))
    model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


def split(*parts: int) -> onnx.ModelProto:
    nodes = [node("Split", ["x", "c"], ["y", "z"], axis=-1)]
    outputs = [value(n, [2, 3]) for n in "yz"]
    return graph(nodes, [value("x", [2, 6])], outputs, {"c": np.array(parts, "int64")})


def attribute_in_another_file() -> onnx.ModelProto:
    tensor = TensorProto(name="far", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="far.bin")
    return chain(node("Constant", [], ["c"], value=tensor), node("Add", ["x", "c"], ["y"]))


def attribute_of_a_function() -> onnx.ModelProto:
    model = window("MaxPool", kernel_shape=[1, 1], strides=[1, 1])
    model.graph.node[0].attribute[1].ref_attr_name = "strides"
    return model


def of_opset(version: int) -> onnx.ModelProto:
    return graph([], [value("x", [2])], [value("x", [2])], opset=version)


REFUSED: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "attribute in another file": (attribute_in_another_file, "is in another file, 'far.bin'"),
    "attribute of a function": (
        attribute_of_a_function,
        "MaxPool .*refer to its attribute 'strides'",
    ),
    "data longer than its shape": (
        lambda: constant(FLOAT, [], bytes(12)),
        r"'c': its data does not fit its shape: cannot reshape array of size 3 into shape \(\)",
    ),
    "data of half an element": (
        lambda: constant(FLOAT, [2], bytes(7)),
        "'c': its data does not fit its shape: buffer size must be a multiple",
    ),
    "split too long": (
        lambda: split(4, 3),
        r"Split .*the length of the axis; found lengths \[4, 3\] for an axis of 6",
    ),
    "split too short": (lambda: split(4, 1), r"found lengths \[4, 1\] for"),
    "split negative": (lambda: split(7, -1), r"found lengths \[7, -1\] for"),
    "index outside": (
        lambda: chain(node("Gather", ["x", "c"], ["y"]), c=np.array([0, 9])),
        r"Gather .*positions on its axis; found index 9 for an axis of 2",
    ),
    "kernel of other weights": (
        lambda: window("Conv", kernel_shape=[2, 5]),
        r"Conv .*must equal the shape of its weights; found \[2, 5\] for weights",
    ),
    "input left out": (
        lambda: chain(node("Add", ["x", ""], ["y"])),
        "input 1 is marked single but has an empty string",
    ),
    "operator of no domain's": (
        lambda: of_domain("com.microsoft"),
        r"cannot be compiled:\n  com.microsoft.Relu",
    ),
    "scale nan": (
        lambda: quantized(np.nan),
        r"QuantizeLinear \(node 'q'\): a scale must be .* found nan",
    ),
    "scale zero": (lambda: quantized(0.0), "a scale must be a positive finite number; found 0.0"),
    "scale negative": (
        lambda: quantized(-0.5),
        "a scale must be a positive finite number; found -0.5",
    ),
    "scale infinite": (
        lambda: quantized(np.inf),
        "a scale must be a positive finite number; found inf",
    ),
    "one scale nan": (lambda: quantized_weights((0.1, np.nan, 0.3)), "finite number; found nan"),
    "zero points too few": (
        lambda: quantized_weights(zero_point=(0, 0)),
        "as many zero points as scales; found 2 zero points for 3 scales",
    ),
    "scales too few": (
        lambda: quantized_weights((0.1, 0.2), (0, 0)),
        "as many scales per channel as channels; found 2 for 3 channels along axis 0",
    ),
    "axis outside": (
        lambda: quantized_weights(axis=7),
        "axis .* must be an axis of the data; found axis 7 for 4 axes",
    ),
    "scale of two axes": (
        lambda: quantized_weights(np.ones((3, 2)), np.zeros((3, 2))),
        "one per channel; found scales of shape",
    ),
    "zero point of another type": (
        lambda: quantized_weights(kind="uint8"),
        "type of the quantized data; found uint8 for int8",
    ),
    "cycle": (
        lambda: chain(node("Add", ["x", "y"], ["a"]), node("Relu", ["a"], ["y"])),
        r"Add \(node 'a'\) reads 'y', which depends on its result",
    ),
    "own result": (lambda: chain(node("Add", ["x", "y"], ["y"])), "depends on its result"),
    "written twice": (
        lambda: chain(node("Relu", ["x"], ["y"]), node("Abs", ["x"], ["y"])),
        r"'y' is written twice: by Relu .* and by Abs",
    ),
    "input overwritten": (
        lambda: chain(node("Relu", ["x"], ["x"]), node("Abs", ["x"], ["y"])),
        "writes 'x', which is an input or constant",
    ),
    "never written": (
        lambda: chain(node("Add", ["x", "a"], ["y"])),
        "'a', which no operator",
    ),
    "output never written": (
        lambda: chain(node("Relu", ["x"], ["a"])),
        "no operator writes the output 'y'",
    ),
    "two constants of a name": (two_named_c, "two initializers are named 'c'"),
    "two inputs of a name": (
        lambda: graph([node("Relu", ["x"], ["y"])], [value("x", [2])] * 2, [value("y", [2])]),
        "two inputs are named 'x'",
    ),
    "no outputs": (no_outputs, "no outputs; expected one output or more"),
    "operator set 0": (lambda: of_opset(0), "set 0 is unknown; expected 1 to"),
    "operator set 999": (lambda: of_opset(999), "operator set 999 is unknown; expected 1 to"),
    "unknown domain": (
        lambda: of_domain("maker"),
        r"cannot be compiled:\n  maker.Relu \(node 'y'\)",
    ),
    "attribute missing": (
        lambda: window("MaxPool"),
        "Required attribute 'kernel_shape' is missing",
    ),
    "input missing": (lambda: chain(node("Add", ["x"], ["y"])), "input size 1 not in range"),
    "inputs too many": (
        lambda: chain(node("Relu", ["x", "x"], ["y"])),
        "input size 2 not in range",
    ),
    "kernel of nothing": (
        lambda: window("MaxPool", kernel_shape=[0, 2]),
        r"must be 1 or more; found kernel_shape \[0, 2\]",
    ),
    "stride 0": (
        lambda: window("Conv", strides=[0, 1]),
        r"must be 1 or more; found strides \[0, 1\]",
    ),
    "stride negative": (lambda: window("Conv", strides=[-1, 1]), r"found strides \[-1, 1\]"),
    "dilation 0": (lambda: window("Conv", dilations=[0, 0]), r"found dilations \[0, 0\]"),
    "group 0": (lambda: window("Conv", group=0), "group must be 1 or more; found group 0"),
    "pads negative": (
        lambda: window("MaxPool", kernel_shape=[2, 2], pads=[-9, 0, 0, 0]),
        r"pads .* must be 0 or more, .* found pads \[-9, 0, 0, 0\]",
    ),
    "pads too long": (
        lambda: window("MaxPool", kernel_shape=[2, 2], pads=[1, 1]),
        r"one number per axis, pads two; found kernel_shape \[2, 2\], pads \[1, 1\]",
    ),
    "kernel too large": (
        lambda: window("MaxPool", kernel_shape=[9, 9]),
        r"max_pool2d \('y'\) computes a tensor without elements, \[1, 2, -4, -4\]",
    ),
    "channels that do not fit": (
        lambda: window("Conv", group=2),
        "cannot import operator Conv .*channel",
    ),
    "4 GiB": (
        lambda: big([1024, 1024, 1024]),
        r"'x': a tensor must be smaller than 2 GiB; found shape \[1024",
    ),
    "elements overflow": (lambda: big([2**62, 2**62]), "smaller than 2 GiB"),
    "length at its limit": (lambda: big([2**63 - 1]), "smaller than 2 GiB"),
    "range of 8 TiB": (
        lambda: grown("Range", ["a", "b", "c"], a=np.array(0), b=np.array(2**40), c=np.array(1)),
        r"'r': a tensor must be smaller than 2 GiB; found shape \[1099511627776\]",
    ),
    "tile of 32 GiB": (
        lambda: grown("Tile", ["a", "b"], a=np.ones(1, "float32"), b=np.array([2**33])),
        r"'r': a tensor must be smaller than 2 GiB; found shape \[8589934592\]",
    ),
    "data too short": (
        lambda: constant(FLOAT, [2**20, 2**20], bytes(16)),
        "its data does not fit its shape: cannot reshape",
    ),
    "length negative": (
        lambda: constant(FLOAT, [-4], bytes(16)),
        r"'c': its shape \[-4\] has a negative length",
    ),
    "type unknown": (
        lambda: constant(99, [4], bytes(16)),
        "'c': its data has type 99",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_place_rule_and_finding(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(UserError, match=message):
        lowered(make().SerializeToString())


def test_message_stays_readable_however_much_is_wrong() -> None:
    model = chain(
        *(node("Relu", [f"no{i}"], [f"r{i}"]) for i in range(500)), node("Relu", ["x"], ["y"])
    )
    with pytest.raises(UserError) as raised:
        lowered(model.SerializeToString())
    lines = str(raised.value).splitlines()
    assert len(lines) == 23
    assert lines[-2] == "  and 480 more"


def looks_odd() -> dict[str, onnx.ModelProto]:
    """Return unusual models that ONNX allows."""
    x, y = value("x", [2]), value("y", [2])
    relu = node("Relu", ["x"], ["y"])
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4e38], "float32")
    return {
        "no nodes": graph([], [x], [x]),
        "no inputs": graph([node("Relu", ["c"], ["y"])], [], [y], {"c": np.ones(2, "float32")}),
        "input is output": graph([relu], [x], [y, x]),
        "output twice": graph([relu], [x], [y, y]),
        "input unused": graph([relu], [x, value("u", [3])], [y]),
        "scalars": graph([relu], [value("x", [])], [value("y", [])]),
        "bool": graph(
            [node("Not", ["x"], ["y"])],
            [value("x", [2], TensorProto.BOOL)],
            [value("y", [2], TensorProto.BOOL)],
        ),
        "scale as input": graph(
            [node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             node("DequantizeLinear", ["q", "s", "z"], ["y"])],
            [x, value("s", [])], [y], {"z": np.int8(1)},
        ),
        "scale subnormal": quantized(1e-42),
        "scale largest": quantized(3e38),
        "axis from behind": quantized_weights(axis=-4, scale=(0.5, 0.25, 2)),
        "floats without a literal": graph(
            [node("Add", ["x", "c"], ["y"]), node("Mul", ["x", "c"], ["z"])],
            [value("x", [6])], [value("y", [6]), value("z", [6])], {"c": odd},
        ),
        "300 inputs": graph(
            [node("Concat", [f"x{i}" for i in range(300)], ["y"], axis=0)],
            [value(f"x{i}", [2]) for i in range(300)], [value("y", [600])],
        ),
    }  # fmt: skip


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("case", looks_odd())
def test_odd_model_is_compiled_exactly(case: str, tmp_path: Path) -> None:
    assert_exact(looks_odd()[case].SerializeToString(), tmp_path)


def integers(kind: str, **attributes: str) -> bytes:
    of_type = TensorProto.UINT32 if kind == "BitShift" else INT32
    model = graph(
        [node(kind, ["x", "c"], ["y"], **attributes)],
        [value("x", [4], of_type), value("c", [4], of_type)],
        [value("y", [4], of_type)],
    )
    return bytes(model.SerializeToString())


LOWEST = -(2**31)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("kind", "right", "expected"),
    [
        ("Add", [LOWEST, -1, 1, 2**31 - 1], [0, 2**31 - 1, LOWEST, -2]),
        ("Sub", [1, LOWEST, -1, 7], [2**31 - 1, 0, LOWEST, 2**31 - 8]),
        ("Mul", [-1, 2, 2**31 - 1, 2**31 - 1], [LOWEST, 0, 1, 1]),
        ("Div", [-1, 2, 0, 7], [LOWEST, -(2**30), 0, 306783378]),
    ],
)
def test_integers_wrap_around(
    kind: str, right: list[int], expected: list[int], tmp_path: Path
) -> None:
    left = [LOWEST, LOWEST, 2**31 - 1, 2**31 - 1]
    sample: Sample = {"x": np.array(left, "int32"), "c": np.array(right, "int32")}
    ((found,),) = run_generated(integers(kind), [sample], tmp_path, SANITIZED)
    assert found.tolist() == expected


@pytest.mark.needs("gcc")
def test_shift_by_too_many_bits_leaves_nothing(tmp_path: Path) -> None:
    sample: Sample = {"x": np.full(4, 5, "uint32"), "c": np.array([0, 31, 32, 2**32 - 1], "uint32")}
    (found,) = assert_exact(integers("BitShift", direction="LEFT"), tmp_path, [sample])
    assert found[0].tolist() == [5, 2**31, 0, 0]


@pytest.mark.needs("gcc")
def test_any_float_can_be_cast_to_an_integer(tmp_path: Path) -> None:
    nodes = [node("Cast", ["x"], ["y"], to=INT32)]
    model = graph(nodes, [value("x", [5])], [value("y", [5], INT32)])
    sample: Sample = {"x": np.array([1e20, -1e20, -np.inf, 2.9, -2.9], "float32")}
    ((found,),) = run_generated(model.SerializeToString(), [sample], tmp_path, SANITIZED)
    assert found.tolist() == [0, 0, 0, 2, -2]


def test_truncated_anywhere() -> None:
    data = quantized_weights().SerializeToString()
    for end in range(0, len(data), 10):
        with pytest.raises(UserError, match=r"^test model: "):
            lowered(data[:end])


def test_damaged_bytes_never_get_through_as_a_traceback() -> None:
    generator = random.Random(3)
    data = quantized_weights().SerializeToString()
    refused = 0
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(generator.choice([1, 2, 4])):
            damaged[generator.randrange(len(data))] = generator.choice([0, 255, 127, 128, 8])
        try:
            lowered(bytes(damaged))
        except UserError:
            refused += 1
    assert refused > 50


def test_attributes_that_nobody_knows_are_remarked() -> None:
    model = chain(node("Relu", ["x"], ["y"]))
    model.graph.node[0].attribute.append(helper.make_attribute("weight_bits", 8))
    data = model.SerializeToString()
    _, interface = importer.import_model(data, "m", {})
    expected = "attributes that ONNX does not define are ignored: weight_bits (1 times)"
    assert interface.remarks == (expected,)
    name, shape = interface.inputs[0].name, interface.inputs[0].shape
    given = np.full(shape, -1, "float32")
    found = importer.run_reference(data, [{name: given}])
    assert found.runtime.startswith("onnxruntime ")
    assert np.array_equal(found.outputs[0][0], np.maximum(given, 0))
