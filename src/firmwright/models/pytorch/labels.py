"""Labels the operators of a program, and names the variables of its module after the labels."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from tvm import relax

from firmwright.ir.tensors import is_source_name
from firmwright.models.pytorch.corrections import TorchImporter
from firmwright.models.pytorch.nodes import find_call_nodes


def label_nodes(program: torch.export.ExportedProgram) -> dict[str, str]:
    """Return the label of each node: the path of its submodule, or else the node's name.

    If a submodule becomes several nodes, only the last node has the path as its label, and the
    other nodes have their names.
    """
    labels: dict[str, str] = {}
    last: dict[str, str] = {}
    for node in find_call_nodes(program):
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path = stack[-1][0] if stack else ""
        if path:
            if node.target is operator.getitem:  # TVM returns the item instead of the tuple
                labels.pop(node.args[0].name, None)
            if last.get(path) in labels:
                labels[last[path]] = last[path]
            last[path] = node.name
        labels[node.name] = path or node.name
    return labels


def name_variables(importer: TorchImporter, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of the operators by the names of their variables."""
    names: dict[str, str] = {}
    for node, value in importer.env.items():
        found = find_item(importer, value)
        if (
            node.name in labels
            and isinstance(found, relax.Var)
            and not is_source_name(str(found.name))  # the name of an input remains
        ):
            names.setdefault(str(found.name), labels[node.name])  # later nodes return it unchanged
    return names


def find_item(importer: TorchImporter, value: Any) -> Any:
    """Return the variable with which TVM replaces an item of a tuple; other values unchanged."""
    builder = importer.block_builder
    bound = builder.lookup_binding(value) if isinstance(value, relax.Var) else None
    if not isinstance(bound, relax.TupleGetItem):
        return value
    whole = builder.lookup_binding(bound.tuple_value)
    return whole.fields[bound.index] if isinstance(whole, relax.Tuple) else value
