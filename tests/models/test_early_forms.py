"""Operators in the forms of early opsets, compared with the same operators in later forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model, run_reference
from tests.networks.imported import run_imported
from tests.networks.onnx_models import graph, node, value

Array = np.ndarray[Any, Any]


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(0.2, 1, shape).astype("float32")


IMAGE, CUBE = normal(1, 3, 4, 4), normal(2, 3, 4)
BYTES = np.random.default_rng(1).integers(0, 2, (2, 3)).astype(bool)
TWO = np.float32(2)


def make_model(
    opset: int, operator: str, operands: Sequence[Array], counts: int, **attributes: Any
) -> bytes:
    """Return a model of one node that reads ``x`` and constants; early constants are inputs, too.

    Its outputs have no shapes.
    """
    names = ["x", *(f"c{i}" for i in range(1, len(operands)))]
    outputs = [f"y{i}" for i in range(counts)]
    kinds = [helper.np_dtype_to_tensor_dtype(np.asarray(a).dtype) for a in operands]
    inputs = [value(n, np.shape(a), k) for n, a, k in zip(names, operands, kinds, strict=True)]
    kind = attributes.pop("kind", kinds[0])
    made = helper.make_graph(
        [node(operator, names, outputs, **attributes)],
        "g",
        inputs if opset < 9 else inputs[:1],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), n)
         for n, a in zip(names[1:], operands[1:], strict=True)],
    )  # fmt: skip
    version = 3 if opset < 9 else 8
    opsets = [helper.make_opsetid("", opset)]
    data: bytes = helper.make_model(
        made, opset_imports=opsets, ir_version=version
    ).SerializeToString()
    return data


def check(found: Sequence[Array], expected: Sequence[Array]) -> None:
    for ours, wanted in zip(found, expected, strict=True):
        assert (ours.dtype, ours.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(ours, wanted, 1e-5, 1e-6)


ALONG = normal(3)[:, None]
PADDED = np.pad(IMAGE, ((0, 0), (0, 0), (1, 2), (0, 1)), constant_values=0.5)
BOOL, INT32 = TensorProto.BOOL, TensorProto.INT32
TILES, LENGTHS, AXIS = np.array(2), np.array([1, 2]), np.array(1)
EARLY = [
    (6, "Add", [CUBE, normal(3)], {"broadcast": 1, "axis": 1}, [CUBE + ALONG]),
    (1, "Sub", [CUBE, normal(2, 3)], {"broadcast": 1, "axis": 0, "consumed_inputs": [0, 0]},
     [CUBE - normal(2, 3)[..., None]]),
    (6, "Mul", [CUBE, normal(3, 4)], {"broadcast": 1}, [CUBE * normal(3, 4)]),
    (6, "Div", [CUBE, normal(3)[:, None]], {"broadcast": 1, "axis": 1}, [CUBE / ALONG]),
    (6, "And", [BYTES, BYTES[:, 0]], {"broadcast": 1, "axis": 0}, [BYTES & BYTES[:, :1]]),
    (1, "Less", [CUBE, normal(2)], {"broadcast": 1, "axis": 0, "kind": BOOL},
     [np.less(CUBE, normal(2)[:, None, None])]),
    (6, "PRelu", [IMAGE, normal(3)], {}, [np.where(IMAGE < 0, IMAGE * normal(3)[:, None, None],
                                                  IMAGE)]),
    (1, "Cast", [CUBE * 5], {"to": "INT32", "kind": INT32}, [(CUBE * 5).astype("int32")]),
    (1, "Concat", [CUBE, CUBE], {}, [np.concatenate([CUBE, CUBE], 1)]),
    (1, "Pad", [IMAGE], {"paddings": [0, 0, 1, 0, 0, 0, 2, 1], "value": 0.5}, [PADDED]),
    (2, "Pad", [IMAGE], {"pads": [0, 0, 1, 0, 0, 0, 2, 1], "value": 0.5}, [PADDED]),
    (1, "Reshape", [CUBE], {"shape": [0, -1]}, [CUBE.reshape(2, 12)]),
    (5, "Reshape", [CUBE, np.array([0, -1])], {}, [CUBE.reshape(2, 12)]),
    (1, "Split", [CUBE, LENGTHS], {"axis": 1}, [CUBE[:, :1], CUBE[:, 1:]]),
    (1, "Tile", [CUBE, TILES, AXIS], {}, [np.tile(CUBE, (1, 2, 1))]),
    (1, "Upsample", [IMAGE], {"height_scale": 2.0, "width_scale": 3.0},
     [IMAGE.repeat(2, 2).repeat(3, 3)]),
    (1, "GlobalLpPool", [IMAGE], {"p": 1.0}, [np.abs(IMAGE).sum((2, 3), keepdims=True)]),
    (6, "Gemm", [CUBE[0], normal(4, 2), normal(2)], {"broadcast": 1},
     [CUBE[0] @ normal(4, 2) + normal(2)]),
    (6, "Dropout", [CUBE], {"is_test": 1}, [CUBE]),
    (1, "Selu", [CUBE], {}, [1.0507 * np.where(CUBE > 0, CUBE, 1.6732 * np.expm1(CUBE))]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("opset", "operator", "operands", "attributes", "expected"),
    EARLY,
    ids=[f"{operator}-{opset}" for opset, operator, *_ in EARLY],
)
def test_an_early_form_is_raised(
    opset: int,
    operator: str,
    operands: list[Array],
    attributes: dict[str, Any],
    expected: list[Array],
) -> None:
    data = make_model(opset, operator, operands, len(expected), **attributes)
    reference = run_reference(data, [{"x": operands[0]}])
    assert reference.runtime.startswith("onnxruntime")
    check(reference.outputs[0], expected)
    outputs = import_model(data, "m.onnx", {})[1].outputs
    assert [(o.dtype, o.shape) for o in outputs] == [(str(a.dtype), a.shape) for a in expected]


@pytest.mark.parametrize("opset", [6, 8])
def test_a_batch_is_normalized_by_element(opset: int) -> None:
    scale, bias, mean = normal(3, 4, 4), normal(3, 4, 4) + 1, normal(3, 4, 4)
    variance = np.abs(mean) + 1
    data = make_model(
        opset, "BatchNormalization", [IMAGE, scale, bias, mean, variance], 1,
        spatial=0, epsilon=0.5,
    )  # fmt: skip
    expected = (IMAGE - mean) / np.sqrt(variance + 0.5) * scale + bias
    check(run_imported(data, IMAGE), [expected.astype("float32")])


def test_windows_beyond_an_image_have_no_more_weight() -> None:
    data = make_model(18, "LpPool", [IMAGE], 1, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    windows = [[np.linalg.norm(IMAGE[..., y : y + 3, x : x + 3], axis=(2, 3)) for x in (0, 2)]
               for y in (0, 2)]  # fmt: skip
    check(run_imported(data, IMAGE), [np.moveaxis(np.array(windows), (0, 1), (2, 3))])


def test_the_axis_of_a_maximum_is_negative_before_opset_11() -> None:
    data = make_model(10, "ArgMax", [CUBE], 1, axis=-1, kind=TensorProto.INT64)
    check(run_imported(data, CUBE), [CUBE.argmax(2)[..., None]])


ELU = np.where(CUBE < 0, np.expm1(np.float64(CUBE)), CUBE)
CENTERED = IMAGE.astype("float64") - IMAGE.mean((2, 3), "float64", keepdims=True)


@pytest.mark.parametrize(
    ("operator", "operands", "attributes", "expected"),
    [
        ("Elu", [CUBE], {"alpha": 0.5}, np.where(CUBE < 0, ELU / 2, CUBE)),
        ("Selu", [CUBE], {"alpha": 1.0, "gamma": 2.0}, 2 * ELU),
        ("ThresholdedRelu", [CUBE], {"alpha": 0.25}, np.where(CUBE > 0.25, CUBE, 0)),
        ("LayerNormalization", [CUBE, normal(4)], {"epsilon": 0.5},
         (CUBE - CUBE.mean(2, "float64", keepdims=True))
         / np.sqrt(CUBE.var(2, "float64", keepdims=True) + 0.5) * normal(4)),
        ("InstanceNormalization", [IMAGE, np.ones(3), np.zeros(3)], {"epsilon": 0.5},
         CENTERED / np.sqrt((CENTERED**2).mean((2, 3), keepdims=True) + 0.5)),
    ],
)  # fmt: skip
def test_an_operator_is_computed_in_float64(
    operator: str, operands: list[Array], attributes: dict[str, Any], expected: Array
) -> None:
    wide = [a.astype("float64") for a in operands]
    (found,) = run_imported(make_model(21, operator, wide, 1, **attributes), wide[0])
    np.testing.assert_allclose(found, expected, 1e-14, 1e-14)


@pytest.mark.parametrize(
    ("operator", "operands", "attributes", "message"),
    [
        ("Add", [CUBE, normal(3)], {"broadcast": 1, "axis": 3}, "axis is 3; expected 0 to 2"),
        ("Dropout", [CUBE], {"is_test": 0}, "in training mode; export the model for inference"),
        ("Cast", [CUBE], {"to": "REAL"}, "its attribute 'to' is 'REAL'; expected the name of"),
        ("Pad", [IMAGE], {"pads": [0] * 8}, "its attributes or inputs have wrong types"),
        ("Tile", [CUBE, np.array(2), np.array(7)], {}, "its axis is 7; expected 0 to 2"),
        ("Upsample", [IMAGE], {"scales": [1.0, 1, 2, 2]}, "it has no height_scale"),
        ("GlobalLpPool", [IMAGE], {"p": np.inf}, "its attributes or inputs have wrong types"),
    ],
)
def test_a_wrong_early_form_is_rejected(
    operator: str, operands: list[Array], attributes: dict[str, Any], message: str
) -> None:
    data = make_model(1, operator, operands, 1, **attributes)
    with pytest.raises(UserError, match=rf"operator {operator} \(node 'y0'\).*{message}"):
        import_model(data, "m.onnx", {})


@pytest.mark.parametrize("slopes", [1, 5])
def test_slopes_of_a_vector_are_aligned(slopes: int) -> None:
    x = normal(5)
    slope = normal(slopes)
    data = make_model(6, "PRelu", [x, slope], 1)
    (found,) = run_imported(data, x)
    np.testing.assert_allclose(found, np.where(x < 0, x * slope, x), 1e-6)


@pytest.mark.parametrize("is_input", [True, False])
def test_an_operand_is_aligned_behind_another_early_form(is_input: bool) -> None:
    """ONNX infers no rank behind a form that it no longer has.

    IR version 3 requires constants to be inputs, but ONNX Runtime does not.
    """
    x, bias = normal(2, 12), normal(3)
    nodes = [
        node("Reshape", ["x"], ["r"], shape=[2, 3, 4]),
        node("Add", ["r", "b"], ["y"], broadcast=1, axis=1),
    ]
    model = graph(nodes, [value("x", [2, 12])], [value("y", [2, 3, 4])], {"b": bias}, 1)
    model.ir_version = 3
    model.graph.input.extend([value("b", [3])] * is_input)
    (found,) = run_imported(model.SerializeToString(), x)
    np.testing.assert_allclose(found, x.reshape(2, 3, 4) + bias[:, None], 1e-6)
