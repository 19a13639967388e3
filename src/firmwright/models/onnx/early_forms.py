"""Converts the operators of opsets 1 to 6 to opset 7, the first opset that ONNX Runtime evaluates.

Source: the changelog of ONNX's operators. ONNX's version converter does not convert logical
operators, and aligns operands with a wrong axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from firmwright.models.onnx.domains import get_opset
from firmwright.models.onnx.graph.body import get_attribute, refuse, replace_nodes

RUNTIME_OPSET = 7
DROPPED = frozenset({"consumed_inputs", "output_sequence"})
"""Attributes that opset 7 no longer has, and that do not change the results."""

BROADCAST = frozenset("Add And Div Equal Greater Less Mul Or Pow PRelu Sub Xor".split())
"""Operators whose attribute ``axis`` aligns the second operand with the first operand."""


def raise_early_forms(model: onnx.ModelProto, graphs: Sequence[onnx.GraphProto]) -> None:
    """Change a model of opset 1 to 6 to an equivalent model of opset 7.

    ``graphs`` lists each graph of the model before its subgraphs. Raises UserError if a node is in
    training mode. Raises UserError if the form of a node depends on an unknown rank or value.
    """
    entry = next((o for o in model.opset_import if o.domain in ("", "ai.onnx")), None)
    if entry is None or not 1 <= get_opset(model) < RUNTIME_OPSET:
        return
    facts = Facts(model, graphs)
    for graph in reversed(graphs):  # a copied node contains copies of its subgraphs
        replace_nodes(graph, [new for node in graph.node for new in raise_node(node, facts)])
    entry.version = RUNTIME_OPSET


class Facts:
    def __init__(self, model: onnx.ModelProto, graphs: Iterable[onnx.GraphProto]) -> None:
        self.opset = get_opset(model)
        self.constants = {t.name: t for graph in graphs for t in graph.initializer}
        self.constants |= {
            node.output[0]: attribute.t
            for graph in graphs
            for node in graph.node
            if node.op_type == "Constant" and node.output
            for attribute in node.attribute
        }
        self.ranks = {name: len(tensor.dims) for name, tensor in self.constants.items()}
        self.ranks |= infer_ranks(model, self)

    def rank(self, node: onnx.NodeProto, position: int) -> int:
        if node.input[position] not in self.ranks:
            refuse(node, f"the rank of '{node.input[position]}' is unknown; export with opset 7")
        return self.ranks[node.input[position]]

    def values(self, node: onnx.NodeProto, position: int) -> list[int]:
        if node.input[position] not in self.constants:
            refuse(
                node, f"'{node.input[position]}' is not a constant; export the model with opset 7"
            )
        return [int(v) for v in numpy_helper.to_array(self.constants[node.input[position]]).flat]


def infer_ranks(model: onnx.ModelProto, facts: Facts) -> dict[str, int]:
    """Return the known ranks of the tensors.

    ONNX infers no shapes of early forms, so the forms that need no rank are converted first. The
    result of an operator with an axis has the shape of the first operand, so the first operand
    replaces the second.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    next(o for o in copy.opset_import if o.domain in ("", "ai.onnx")).version = RUNTIME_OPSET
    for node in copy.graph.node:
        if node.op_type in BROADCAST and len(node.input) == 2:
            node.input[1] = node.input[0]
    raised = (
        raise_node(node, facts) if node.op_type in FORMS.keys() - {"Tile"} else [node]
        for node in copy.graph.node
    )
    replace_nodes(copy.graph, [node for nodes in raised for node in nodes])
    try:
        graph = onnx.shape_inference.infer_shapes(copy).graph
    except (onnx.shape_inference.InferenceError, ValueError):  # the checks report damaged models
        graph = copy.graph
    known = (*graph.input, *graph.value_info, *graph.output)
    kinds = {value.name: value.type.tensor_type for value in known}
    return {name: len(k.shape.dim) for name, k in kinds.items() if k.HasField("shape")}


def raise_node(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """Return the nodes that replace a node.

    New nodes precede the changed node, which reads their results.
    """
    if node.domain not in ("", "ai.onnx") or not all(node.input) or not node.output:
        return [node]
    for name in DROPPED:
        take(node, name)
    if not take(node, "is_test", 1):
        refuse(node, "it is in training mode; export the model for inference")
    try:
        if node.op_type in BROADCAST and len(node.input) == 2:
            return align_operand(node, facts)
        return FORMS[node.op_type](node, facts) if node.op_type in FORMS else [node]
    except (OverflowError, TypeError, ValueError):
        refuse(node, "its attributes or inputs have wrong types; export the model again")


def take(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    value = get_attribute(node, name, default)
    for attribute in [a for a in node.attribute if a.name == name]:
        node.attribute.remove(attribute)
    return value


def state(node: onnx.NodeProto, name: str, value: Any) -> None:
    take(node, name)
    node.attribute.append(helper.make_attribute(name, value))


def align_operand(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """Append axes of length 1 to the second operand, so that ``axis`` aligns the operands."""
    axis = take(node, "axis", 1 if node.op_type == "PRelu" else None)
    is_aligned = not take(node, "broadcast", node.op_type == "PRelu") or axis is None
    if is_aligned:
        return [node]
    rank, length = facts.rank(node, 0), facts.rank(node, 1)
    if node.op_type == "PRelu" and (length != 1 or rank < 2):
        return [node]
    after = range(length, rank - axis)
    if axis < 0 or length + axis > rank:
        refuse(
            node,
            f"its axis is {axis}; expected 0 to {rank - length}, because the operands have "
            f"{rank} and {length} axes",
        )
    if not after:
        return [node]
    name = f"{node.output[0]}/aligned"
    part = helper.make_node("Unsqueeze", [node.input[1]], [name], node.name, axes=after)
    node.input[1] = name
    return [part, node]


def raise_cast(node: onnx.NodeProto, _: Facts) -> list[onnx.NodeProto]:
    """Replace the type's name in a Cast with the type's number."""
    kind = get_attribute(node, "to", None)
    if isinstance(kind, str):
        if kind not in list(TensorProto.DataType.keys()):
            refuse(
                node,
                f"its attribute 'to' is '{kind}'; expected the name of an ONNX type, such as "
                "'FLOAT'",
            )
        state(node, "to", TensorProto.DataType.Value(kind))
    return [node]


def raise_concat(node: onnx.NodeProto, _: Facts) -> list[onnx.NodeProto]:
    state(node, "axis", get_attribute(node, "axis", 1))
    return [node]


def raise_gemm(node: onnx.NodeProto, _: Facts) -> list[onnx.NodeProto]:
    take(node, "broadcast")
    return [node]


def raise_norm(node: onnx.NodeProto, _: Facts) -> list[onnx.NodeProto]:
    state(node, "p", int(get_attribute(node, "p", 2)))
    return [node]


def raise_pad(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    if facts.opset == 1:
        state(node, "pads", take(node, "paddings", []))
    return [node]


def raise_reshape(node: onnx.NodeProto, _: Facts) -> list[onnx.NodeProto]:
    """Replace the attribute ``shape`` of a Reshape with an input."""
    return add_input(node, take(node, "shape", [])) if len(node.input) == 1 else [node]


def add_input(node: onnx.NodeProto, numbers: Sequence[int]) -> list[onnx.NodeProto]:
    name = f"{node.output[0]}/{len(node.input)}"
    value = numpy_helper.from_array(np.array(numbers, "int64"))
    node.input.append(name)
    return [helper.make_node("Constant", [], [name], node.name, value=value), node]


def raise_selu(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """Set the default values of a Selu, which have fewer digits before opset 6."""
    if facts.opset < 6:
        state(node, "alpha", get_attribute(node, "alpha", 1.6732))
        state(node, "gamma", get_attribute(node, "gamma", 1.0507))
    return [node]


def raise_split(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """Replace the second input of a Split, which contains the lengths, with an attribute."""
    if len(node.input) == 2:
        state(node, "split", facts.values(node, 1))
        del node.input[1]
    return [node]


def raise_tile(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """Replace the axis and the count of a Tile with one count per axis."""
    if len(node.input) != 3:
        return [node]
    counts = [1] * facts.rank(node, 0)
    (count,), (axis,) = facts.values(node, 1), facts.values(node, 2)
    if not 0 <= axis < len(counts):
        refuse(node, f"its axis is {axis}; expected 0 to {len(counts) - 1}")
    counts[axis] = count
    del node.input[1:]
    return add_input(node, counts)


def raise_upsample(node: onnx.NodeProto, _: Facts) -> list[onnx.NodeProto]:
    """Set the scales of all axes of an Upsample, and rename ``bilinear`` to ``linear``."""
    sides = [f"{side}_scale" for side in ("height", "width")]
    if {a.name for a in node.attribute}.isdisjoint(sides):
        refuse(node, "it has no height_scale and no width_scale; export the model again")
    scales = [float(take(node, side, 1)) for side in sides]
    mode = take(node, "mode", "nearest")
    state(node, "mode", "linear" if mode == "bilinear" else mode)
    state(node, "scales", [1.0, 1.0, *scales])
    return [node]


FORMS: Mapping[str, Callable[[onnx.NodeProto, Facts], list[onnx.NodeProto]]] = {
    "Cast": raise_cast,
    "Concat": raise_concat,
    "Gemm": raise_gemm,
    "GlobalLpPool": raise_norm,
    "LpPool": raise_norm,
    "Pad": raise_pad,
    "Reshape": raise_reshape,
    "Selu": raise_selu,
    "Split": raise_split,
    "Tile": raise_tile,
    "Upsample": raise_upsample,
}
