"""Replaces strings in a graph with bytes along an additional last axis.

The operators of :data:`WRITERS` move or compare strings. :mod:`firmwright.ir.strings` defines the
stored form of strings.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper

from firmwright.errors import UserError
from firmwright.ir.strings import STRING_BYTES, encode_strings
from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Rewrite, Specializer


def is_string(name: str, walk: Specializer) -> bool:
    return name in walk.types and walk.types[name].tensor_type.elem_type == TensorProto.STRING


def describe_equal(body: NodeBuilder) -> None:
    """Store the result type of an Equal of strings, which ONNX infers only since opset 19."""
    shapes = [body.walk.shape(name) for name in body.node.input if is_string(name, body.walk)]
    known = [shape for shape in shapes if shape is not None]
    if len(known) == len(body.node.input):
        shape = np.broadcast_shapes(*known)
        body.walk.types[body.node.output[0]] = helper.make_tensor_type_proto(
            TensorProto.BOOL, shape
        )


def rewrite_normalizer(body: NodeBuilder) -> Nodes | None:
    """Rewrite a StringNormalizer that keeps all strings.

    Return None if the input is constant. Raises UserError if the operator drops or changes strings.
    """
    if body.input(0) in body.walk.constants:
        return None
    case = body.attribute("case_change_action", "NONE")
    if case != "NONE" or body.attribute("stopwords", []):
        body.refuse(
            "firmware cannot drop strings or change their case; export the model without this "
            "operator, and change the strings before the network"
        )
    return body.finish(body.input(0))


STRINGS: dict[str, Rewrite] = {"Equal": describe_equal, "StringNormalizer": rewrite_normalizer}


def store_strings(walk: Specializer) -> None:
    names = [name for name in walk.types if is_string(name, walk)]
    if names:
        walk.nodes = [new for node in walk.nodes for new in rewrite(node, walk)]
    for name in names:
        shape = [*(walk.shape(name) or ()), STRING_BYTES]
        walk.types[name] = helper.make_tensor_type_proto(TensorProto.UINT8, shape)
        if name in walk.constants:
            walk.constants[name] = encode_strings(walk.constants[name])


def rewrite(node: onnx.NodeProto, walk: Specializer) -> Nodes:
    if not any(is_string(name, walk) for name in (*node.input, *node.output)):
        return [node]
    known = all(walk.shape(name) is not None for name in (*node.input, node.output[0]))
    if node.op_type not in WRITERS or not known:
        raise UserError(
            f"operator {node.op_type} (node '{node.name}') has string tensors; firmware supports "
            f"{', '.join(WRITERS)} for strings of known shapes: export the model without this "
            "operator"
        )
    return WRITERS[node.op_type](Writer(node, walk))


class Writer(NodeBuilder):
    def __init__(self, node: onnx.NodeProto, walk: Specializer) -> None:
        super().__init__(node, walk)
        self.scope = "bytes/"
        self.shapes = [list(walk.shape(name) or ()) for name in node.input]
        self.result = list(walk.shape(node.output[0]) or ())

    def align(self, index: int) -> str:
        """Return an input with the result's rank. New axes are first, as in broadcasting."""
        shape = self.shapes[index]
        lengths = [*[1] * (len(self.result) - len(shape)), *shape, STRING_BYTES]
        return self.reshape(self.node.input[index], lengths)


def write_along_axis(body: Writer) -> Nodes:
    """Return nodes that select or join strings along an axis.

    The axis is counted from the first axis.
    """
    axis = body.attribute("axis", 0) % len(body.shapes[0])
    return body.finish(body.add(body.node.op_type, *body.node.input, axis=axis))


def write_equal(body: Writer) -> Nodes:
    """Return nodes that compare strings. Two strings are equal if all bytes are equal."""
    equal = body.add("Equal", body.align(0), body.align(1))
    all_equal = body.reduce("ReduceMin", body.cast(equal, "int32"), -1)
    return body.finish(body.reshape(body.cast(all_equal, "bool"), body.result))


def write_moved(body: Writer) -> Nodes:
    return body.finish(body.reshape(body.input(0), [*body.result, STRING_BYTES]))


def write_where(body: Writer) -> Nodes:
    condition = body.unsqueeze(body.input(0), -1)
    return body.finish(body.add("Where", condition, body.align(1), body.align(2)))


WRITERS: dict[str, Callable[[Writer], Nodes]] = {
    "Concat": write_along_axis,
    "Equal": write_equal,
    "Flatten": write_moved,
    "Gather": write_along_axis,
    "Identity": write_moved,
    "Reshape": write_moved,
    "Squeeze": write_moved,
    "Unsqueeze": write_moved,
    "Where": write_where,
}
