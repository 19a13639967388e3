"""ONNX models with values that ONNX does not define are rejected with a message."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model
from tests.networks.onnx_models import chain, graph, node, value

UNTYPED = helper.make_empty_tensor_value_info("y")


def of_version(version: int, domain: str) -> onnx.ModelProto:
    model = chain(node("Relu", ["x"], ["y"]))
    model.opset_import.append(helper.make_opsetid(domain, version))
    return model


def resize(length: int, scale: float, **attributes: str) -> onnx.ModelProto:
    scales = {"s": np.array([1, 1, scale], "float32")}
    nodes = [node("Resize", ["x", "", "s"], ["y"], **attributes)]
    return graph(nodes, [value("x", [1, 1, length])], [value("y", [1, 1, "n"])], scales)


DAMAGED: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "operator set of 32 bits": (
        lambda: graph([], [value("x", [2])], [value("x", [2])], opset=2**31),
        "operator set 2147483648 is unknown",
    ),
    "operator set of a domain": (
        lambda: of_version(2**31, "maker"),
        "set 2147483648 of 'maker' is unknown; expected 1 to 2147483647",
    ),
    "attribute with other bytes than text": (
        lambda: chain(node("Gelu", ["x"], ["y"], approximate=b"\xff")),
        "a name or a text is not UTF-8",
    ),
    "constant without a value": (
        lambda: chain(node("Constant", [], ["a"]), node("Add", ["x", "a"], ["y"])),
        r"Constant \(node 'a'\): 0 attributes; expected one",
    ),
    "attribute without a type": (
        lambda: chain(node("RequantShift", ["x"], ["y"], div=TensorProto(name="d"))),
        "'d': its data does not fit its shape",
    ),
    "resize of a long axis": (
        lambda: resize(40000, 0.5, mode="linear"),
        r"Resize \(node 'y'\): it interpolates along 40000 elements; expected at most 16384",
    ),
    "resize by no number": (
        lambda: resize(4, float("nan"), coordinate_transformation_mode="align_corners"),
        r"Resize \(node 'y'\): its scales are \[1.0, 1.0, nan\]; expected positive numbers",
    ),
    "product of other shapes": (
        lambda: chain(node("MatMul", ["x", "w"], ["y"]), w=np.ones((3, 2), "float32")),
        r"LHS x has shape \[2\], while the RHS is a constant with a different shape; replace",
    ),
    "output without a type": (
        lambda: graph([node("F", ["x"], ["y"], domain="d")], [value("x", [2])], [UNTYPED]),
        "m.onnx: output 'y' has no type, and ONNX cannot infer it; state its type",
    ),
    "cast to no type": (
        lambda: chain(node("Cast", ["x"], ["y"], to=0)),
        r"Cast \(node 'y'\): the value 0 is unknown",
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_undefined_values_are_named(case: str) -> None:
    make, message = DAMAGED[case]
    with pytest.raises(UserError, match=message):
        import_model(make().SerializeToString(), "m.onnx", {})
