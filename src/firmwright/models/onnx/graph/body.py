"""Builds nodes that replace a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from onnx.parser import parse_function

from firmwright.errors import UserError
from firmwright.models.onnx.graph.specialize import (
    REWRITES_OPSET,
    Nodes,
    Rewrite,
    Specializer,
    inline_function,
)


def get_attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    value = next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)
    return value.decode() if isinstance(value, bytes) else value


def copy_node(
    node: onnx.NodeProto, dropped: Collection[str] = (), **attributes: Any
) -> onnx.NodeProto:
    """Return a copy of a node without the ``dropped`` attributes, with new ``attributes``."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    kept = [a for a in node.attribute if a.name not in (*dropped, *attributes)]
    del copy.attribute[:]
    copy.attribute.extend(
        [*kept, *(helper.make_attribute(name, value) for name, value in attributes.items())]
    )
    return copy


def read_inputs(node: onnx.NodeProto, count: int) -> list[str]:
    """Return the names of the first ``count`` inputs. The name of an omitted input is empty."""
    return [*node.input, *[""] * count][:count]


def replace_nodes(
    graph: onnx.GraphProto | onnx.FunctionProto, nodes: Sequence[onnx.NodeProto]
) -> None:
    """Replace all nodes of a graph with new nodes, which may include nodes of the graph."""
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def along_axis(axis: int, rank: int) -> list[int]:
    """Return the shape that aligns a vector with an axis: -1 at the axis, and 1 elsewhere."""
    return [-1 if a == axis else 1 for a in range(rank)]


def refuse(node: onnx.NodeProto, problem: str) -> NoReturn:
    label = node.name or next((o for o in node.output if o), "")
    raise UserError(f"operator {node.op_type} (node '{label}'): {problem}")


def refuse_inconsistent(node: onnx.NodeProto, problem: str) -> NoReturn:
    refuse(node, f"{problem}; export the model again")


def refuse_tensors(node: onnx.NodeProto, positions: Mapping[int, str], workaround: str) -> None:
    """Raise UserError if a node has one of the inputs (0, 1, …) or outputs (-1, -2, …)."""
    for position, name in positions.items():
        stated = node.input[position:] if position >= 0 else node.output[-position - 1 :]
        if stated and stated[0]:
            kind = "input" if position >= 0 else "output"
            refuse(node, f"its {kind} {name} cannot be compiled; {workaround}")


class NodeBuilder:
    """A builder of the nodes that replace a node.

    The new nodes have the name of the node. The names of new tensors begin with the name of the
    node's result. ``scope`` is part of these names, and the tensors of each scope are counted
    separately.
    """

    def __init__(self, node: onnx.NodeProto, walk: Specializer) -> None:
        self.node = node
        self.opset = walk.opsets.get("", 1)
        self.nodes: Nodes = []
        self.scope = ""
        self.counts: Counter[str] = Counter()

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        self.counts[self.scope] += 1
        return self.add_as(str(self.counts[self.scope]), operator, *inputs, **attributes)

    def add_as(self, label: str, operator: str, *inputs: str, **attributes: Any) -> str:
        """Append a node whose result has the name ``label`` instead of a number."""
        name = self.name_tensor(label)
        self.nodes.append(helper.make_node(operator, inputs, [name], self.node.name, **attributes))
        return name

    def name_tensor(self, label: str) -> str:
        return f"{next(o for o in self.node.output if o)}/{self.scope}{label}"

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike) -> str:
        return self.add("Constant", value=numpy_helper.from_array(np.array(value, dtype)))

    def stack(self, names: list[str], axis: int) -> str:
        return self.add("Concat", *(self.unsqueeze(n, axis) for n in names), axis=axis)

    def unsqueeze(self, name: str, axis: int) -> str:
        if self.opset < 13:
            return self.add("Unsqueeze", name, axes=[axis])
        return self.add("Unsqueeze", name, self.constant([axis], "int64"))

    def squeeze(self, name: str, *axes: int) -> str:
        if self.opset < 13:
            return self.add("Squeeze", name, axes=axes)
        return self.add("Squeeze", name, self.constant(axes, "int64"))

    def cut(self, name: str, axis: int, begin: int, end: int, step: int = 1) -> str:
        limits = (self.constant([n], "int64") for n in (begin, end, axis, step))
        return self.add("Slice", name, *limits)

    def reduce(self, operator: str, name: str, *axes: int) -> str:
        """Append a reduction of axes to length 1.

        The axes are an input since opset 13 (ReduceSum) or 18.
        """
        by_input = self.opset >= (13 if operator == "ReduceSum" else 18)
        if by_input:
            return self.add(operator, name, self.constant(axes, "int64"), keepdims=1)
        return self.add(operator, name, axes=axes, keepdims=1)

    def finish(self, *names: str) -> Nodes:
        """Connect the tensors to the node's results, and return all nodes."""
        for name, output in zip(names, self.node.output, strict=False):
            if output:
                self.nodes.append(helper.make_node("Identity", [name], [output], self.node.name))
        return self.nodes


def parse_rewrite(text: str) -> Rewrite:
    """Return a rewrite that inlines a function.

    ``text`` is the function in ONNX's textual syntax.
    """
    function = parse_function(
        f'<opset_import: ["" : {REWRITES_OPSET}], domain: "firmwright"> {text}'
    )

    def rewrite(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
        schema = walk.schema(node)
        return None if schema is None else inline_function(function, node, schema)

    return rewrite
