"""Describes the nodes of exported programs: operators, locations in the model's source, and labels.

torch runs a block of autocast or of ``no_grad`` as generated code. After the decomposition, the
location of a node is a line of this code, and the line contains the node's name in the block.
:func:`restore_locations` restores the source lines and modules of these nodes.
"""

from __future__ import annotations

import operator
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch.fx import GraphModule
from tvm import relax

from firmwright.ir.tensors import is_source_name

SOURCE_LINE = re.compile(r'File "([^"]*)", line (\d+)')


class Importer(Protocol):
    """The parts of TVM's importer that converters use: values by node, and the builder."""

    env: dict[Any, Any]

    @property
    def block_builder(self) -> relax.BlockBuilder: ...


Convert = Callable[[Importer, torch.fx.Node], relax.Expr]


def find_call_nodes(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    return [n for n in program.graph.nodes if n.op == "call_function"]


def kind_of(node: torch.fx.Node) -> str:
    """Return an operator's name without namespace and overload, such as ``convolution``."""
    return str(node.target.__name__).partition(".")[0]


def find_source_lines(node: torch.fx.Node) -> list[tuple[str, str]]:
    """Return the files and lines of a node in the model's source, outermost call first."""
    lines = SOURCE_LINE.findall(node.meta.get("stack_trace") or "")
    torch_files = "site-packages/torch/", "<eval_with_key>"
    return [line for line in lines if not any(part in line[0] for part in torch_files)]


def describe(node: torch.fx.Node) -> str:
    """Return an operator, its node, and its line in the model's source, if available."""
    lines = find_source_lines(node)
    location = ", {} line {}".format(*lines[-1]) if lines else ""
    return f"{node.target} (node '{node.name}'{location})"


def draws_numbers(node: torch.fx.Node) -> bool:
    """Return whether an operator draws random numbers.

    Recurrent layers draw random numbers only in training.
    """
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    stated = {option.name: i for i, option in enumerate(node.target._schema.arguments)}
    return "num_layers" not in stated or bool(node.args[stated["train"]])


def has_open_size(node: torch.fx.Node) -> bool:
    """Return whether the results' sizes, but not the operands' sizes, depend on values.

    The converter of indices itself rejects masks.
    """
    return (
        kind_of(node) != "index"
        and not is_static(node)
        and all(is_static(source) for source in node.all_input_nodes)
    )


def is_static(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    results = value if isinstance(value, tuple | list) else [value]
    tensors = (result for result in results if isinstance(result, torch.Tensor))
    return all(isinstance(length, int) for tensor in tensors for length in tensor.shape)


GENERATED = re.compile(r'File "<eval_with_key>[^\n]*\n\s*(\w+) = ')
SHARED = ("nn_module_stack", "stack_trace")


def restore_locations(
    program: torch.export.ExportedProgram, core: torch.export.ExportedProgram
) -> None:
    """Copy lines and modules from the nodes of ``program`` to the nodes of ``core``.

    A node keeps no line if several blocks have nodes of its name.
    """
    origins: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for graph_module in list_graphs(program.graph_module):
        for node in graph_module.graph.nodes:
            if isinstance(node.target, torch._ops.OpOverload):
                origins[node.name].append(node.meta)
    for graph_module in list_graphs(core.graph_module):
        for node in graph_module.graph.nodes:
            names = GENERATED.findall(node.meta.get("stack_trace") or "")
            if not names or find_source_lines(node):
                continue
            stated = origins[names[-1]]
            origin = stated[0] if len(stated) == 1 else {}
            for key in SHARED:
                node.meta.pop(key, None)
            node.meta.update({key: origin[key] for key in SHARED if key in origin})


def list_graphs(module: torch.nn.Module) -> list[GraphModule]:
    return [part for part in module.modules() if isinstance(part, GraphModule)]


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


def name_variables(importer: Importer, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of the operators by the names of their variables."""
    names: dict[str, str] = {}
    for node, value in importer.env.items():
        item = find_item(importer, value)
        if (
            node.name in labels
            and isinstance(item, relax.Var)
            and not is_source_name(str(item.name))  # the name of an input remains
        ):
            names.setdefault(str(item.name), labels[node.name])  # later nodes return it unchanged
    return names


def find_item(importer: Importer, value: Any) -> Any:
    """Return the variable with which TVM replaces an item of a tuple; other values unchanged."""
    builder = importer.block_builder
    bound = builder.lookup_binding(value) if isinstance(value, relax.Var) else None
    if not isinstance(bound, relax.TupleGetItem):
        return value
    whole = builder.lookup_binding(bound.tuple_value)
    return whole.fields[bound.index] if isinstance(whole, relax.Tuple) else value
