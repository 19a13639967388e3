"""What is asked of single ONNX nodes, of which constants and inferred shapes are known.

As in :mod:`firmwright.models.onnx.checks`, a rule's docstring is the sentence that the user
reads, and its result what was found instead, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx


@dataclass(frozen=True)
class KnownNode:
    """A node with what is known of its inputs before anything runs; attributes by name."""

    node: onnx.NodeProto
    attributes: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, npt.NDArray[Any]]

    def shape(self, index: int) -> tuple[int, ...] | None:
        given = self.node.input
        return self.shapes.get(given[index]) if index < len(given) else None

    def constant(self, index: int) -> npt.NDArray[Any] | None:
        given = self.node.input
        return self.constants.get(given[index]) if index < len(given) else None

    def axis_length(self) -> int | None:
        """Return the length along the node's ``axis`` of its first input."""
        shape, axis = self.shape(0), int(self.attributes.get("axis", 0))
        return shape[axis] if shape and -len(shape) <= axis < len(shape) else None


def find_bad_split(known: KnownNode) -> str | None:
    """the parts of a Split are 0 or more long, and together as long as the axis"""
    if known.node.op_type != "Split":
        return None
    constant, length = known.constant(1), known.axis_length()
    parts = known.attributes.get("split") if constant is None else constant.reshape(-1).tolist()
    if parts is None or length is None or (min(parts, default=0) >= 0 and sum(parts) == length):
        return None
    return f"parts {list(parts)} of {length}"


def find_bad_index(known: KnownNode) -> str | None:
    """the indices of a Gather are elements of the axis"""
    indices, length = known.constant(1), known.axis_length()
    if not known.node.op_type.startswith("Gather") or known.node.op_type == "GatherND":
        return None
    if indices is None or length is None:
        return None
    wrong = indices[(indices < -length) | (indices >= length)]
    return f"index {wrong.flat[0]} of {length}" if wrong.size else None


def find_kernel_shape_mismatch(known: KnownNode) -> str | None:
    """the kernel_shape of a convolution is that of its weights"""
    weights, stated = known.shape(1), known.attributes.get("kernel_shape")
    if known.node.op_type not in ("Conv", "ConvTranspose") or weights is None or not stated:
        return None
    return None if tuple(stated) == weights[2:] else f"{list(stated)} for weights {list(weights)}"


RULES: tuple[Callable[[KnownNode], str | None], ...] = (
    find_bad_split,
    find_bad_index,
    find_kernel_shape_mismatch,
)


def make_known_node(
    node: onnx.NodeProto,
    shapes: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, onnx.TensorProto],
) -> KnownNode:
    values = {}
    for name in node.input:
        if name in constants and constants[name].data_type == onnx.TensorProto.INT64:
            values[name] = np.asarray(onnx.numpy_helper.to_array(constants[name]))
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return KnownNode(node, attributes, shapes, values)
