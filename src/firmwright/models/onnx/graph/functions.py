"""Functions of operators: ONNX defines many of its own so, and files may bring some."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx.defs import OpSchema


def inline_function(
    function: onnx.FunctionProto, node: onnx.NodeProto, schema: OpSchema
) -> list[onnx.NodeProto]:
    """Return a function's nodes with the tensors and attributes of the node that calls it.

    What would be computed of an input that the caller leaves out is left out as well.
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
    """Rename a function's tensors, its own ones apart under ``scope``, and fill in attributes."""

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
