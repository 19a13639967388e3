"""Builds nodes that replace a node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from onnx.defs import OpSchema

from firmwright.errors import UserError


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


class Body:
    """The nodes that replace a node.

    The names of new tensors begin with the name of the node's result.
    """

    def __init__(self, node: onnx.NodeProto, opset: int = 1) -> None:
        self.node, self.opset = node, opset
        self.nodes: list[onnx.NodeProto] = []

    def add(self, operator: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        """Append a node. Only a node that writes ``result`` has the name of the replaced node."""
        name = result or f"{self.node.output[0]}/{len(self.nodes)}"
        label = self.node.name if result else ""
        self.nodes.append(helper.make_node(operator, inputs, [name], label, **attributes))
        return name

    def attribute(self, name: str, default: Any) -> Any:
        return get_attribute(self.node, name, default)

    def attributes(self) -> dict[str, Any]:
        return {a.name: helper.get_attribute_value(a) for a in self.node.attribute}

    def input(self, index: int) -> str:
        """Return the name of an input. The name of an omitted input is empty."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def inputs(self, count: int) -> list[str]:
        return read_inputs(self.node, count)

    def refuse(self, problem: str) -> NoReturn:
        refuse(self.node, problem)

    def refuse_inconsistent(self, problem: str) -> NoReturn:
        self.refuse(f"{problem}; export the model again")

    def refuse_tensors(self, positions: Mapping[int, str], workaround: str) -> None:
        """Raise UserError if the node has one of the inputs (0, 1, …) or outputs (-1, -2, …)."""
        for position, name in positions.items():
            inputs, outputs = self.node.input, self.node.output
            stated = inputs[position:] if position >= 0 else outputs[-position - 1 :]
            if stated and stated[0]:
                kind = "input" if position >= 0 else "output"
                self.refuse(f"its {kind} {name} cannot be compiled; {workaround}")

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike = "float32") -> str:
        return self.add("Constant", value=numpy_helper.from_array(np.array(value, dtype)))

    def cast(self, name: str, dtype: npt.DTypeLike) -> str:
        return self.add("Cast", name, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def reshape(self, name: str, shape: npt.ArrayLike) -> str:
        return self.add("Reshape", name, self.constant(shape, "int64"))

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


def inline_branch(node: onnx.NodeProto, condition: bool) -> list[onnx.NodeProto]:
    name = "then_branch" if condition else "else_branch"
    branch = next(a.g for a in node.attribute if a.name == name)
    constants = [
        helper.make_node("Constant", [], [i.name], node.name, value=i) for i in branch.initializer
    ]
    results = [
        helper.make_node("Identity", [inner.name], [outer], node.name)
        for inner, outer in zip(branch.output, node.output, strict=True)
        if outer
    ]
    return [*constants, *branch.node, *results]


def list_reads(node: onnx.NodeProto) -> list[str]:
    """Return the names that a node reads, including the outer names that its subgraphs read."""
    names = list(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            names += [n for inner in graph.node for n in list_reads(inner)]
            names += [o.name for o in graph.output]
    return list(dict.fromkeys(names))


def inline_function(
    function: onnx.FunctionProto, node: onnx.NodeProto, schema: OpSchema
) -> list[onnx.NodeProto]:
    """Return a function's nodes with the tensors and attributes of the calling node.

    Nodes that read an omitted input are omitted.
    """
    inputs = [*node.input, *[""] * len(function.input)]
    tensors = {"": "", **dict(zip(function.input, inputs, strict=False))}
    tensors |= dict(zip(function.output, node.output, strict=False))
    scope = next(o for o in node.output if o)
    attributes = {n: a.default_value for n, a in schema.attributes.items() if a.default_value.name}
    attributes |= {a.name: a for a in node.attribute}
    nodes = []
    for inner in function.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        copy.name = node.name
        rename_tensors(copy, tensors, scope, attributes)
        if inner.input and inner.input[0] and not copy.input[0]:
            tensors |= dict.fromkeys(inner.output, "")
        else:
            nodes.append(copy)
    return nodes


def rename_tensors(
    node: onnx.NodeProto,
    tensors: Mapping[str, str],
    scope: str,
    attributes: Mapping[str, onnx.AttributeProto],
) -> None:
    """Rename a function's tensors, add ``scope`` to internal names, and set attributes."""

    def rename(name: str) -> str:
        return tensors.get(name, f"{scope}/{name}")

    for names in (node.input, node.output):
        names[:] = [rename(n) for n in names]
    kept = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in attributes:
                continue
            name = attribute.name
            attribute.CopyFrom(attributes[attribute.ref_attr_name])
            attribute.name = name
        for graph in (attribute.g, *attribute.graphs):
            for value in (*graph.input, *graph.output, *graph.initializer):
                value.name = rename(value.name)
            for inner in graph.node:
                rename_tensors(inner, tensors, scope, attributes)
        kept.append(attribute)
    copies = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in kept]
    del node.attribute[:]
    node.attribute.extend(copies)
