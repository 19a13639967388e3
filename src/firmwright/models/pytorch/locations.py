"""Restores the source lines and modules of nodes that torch traced again while decomposing.

torch runs a block of autocast or of ``no_grad`` as generated code. After the decomposition, the
location of a node is a line of this code, and the line contains the node's name in the block.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import torch
from torch.fx import GraphModule

from firmwright.models.pytorch.nodes import find_source_lines

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
            found = GENERATED.findall(node.meta.get("stack_trace") or "")
            if not found or find_source_lines(node):
                continue
            stated = origins[found[-1]]
            origin = stated[0] if len(stated) == 1 else {}
            for key in SHARED:
                node.meta.pop(key, None)
            node.meta.update({key: origin[key] for key in SHARED if key in origin})


def list_graphs(module: torch.nn.Module) -> list[GraphModule]:
    return [part for part in module.modules() if isinstance(part, GraphModule)]
