"""Replaces torch.cond. Both branches run, and the condition selects each result."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, GraphModule, Node

from firmwright.errors import UserError
from firmwright.models.pytorch.nodes import describe, kind_of
from firmwright.models.pytorch.promotion import insert_before

ATEN = torch.ops.aten


def write_out_conditions(module: GraphModule, name: str) -> None:
    """Insert the branches of each condition into the graph, including nested conditions.

    Branches have no side effects. A constant condition selects one branch. Raises UserError for a
    loop, because the number of steps is known only at run time.
    """
    nodes = list(module.graph.nodes)
    for node in nodes:
        if node.target is torch.ops.higher_order.while_loop:
            raise UserError(
                f"{name}: {describe(node)}: the number of steps is known only at run time; write "
                "a Python loop with a constant number of steps"
            )
        if node.target is torch.ops.higher_order.cond:
            write_out(module, node, name)
    if len(module.graph.nodes) != len(nodes):
        module.graph.eliminate_dead_code()


def write_out(module: GraphModule, node: Node, name: str) -> None:
    condition, *branches, operands = node.args
    if isinstance(condition, bool):
        branches = [branches[0 if condition else 1]]
    results = []
    for branch in branches:
        inner = module.get_submodule(str(branch.target))
        write_out_conditions(inner, name)
        if len(branches) == 2:
            replace_zero_divisors(inner.graph)
        results.append(insert(module.graph, node, inner.graph, operands))
    for user in list(node.users):
        if user.target is not operator.getitem:
            continue
        chosen = [result[user.args[1]] for result in results]
        if len(chosen) == 2 and chosen[0] is not chosen[1]:
            with module.graph.inserting_before(user):
                value = module.graph.call_function(ATEN.where.self, (condition, *chosen))
            value.meta = dict(user.meta)
            chosen = [value]
        user.replace_all_uses_with(chosen[0])
        module.graph.erase_node(user)
    module.graph.erase_node(node)


def replace_zero_divisors(branch: Graph) -> None:
    """Replace integer divisors of 0 with 1, because the condition may not select the branch."""
    for node in list(branch.nodes):
        if node.op != "call_function" or kind_of(node) not in ("div", "remainder", "fmod"):
            continue
        divisor = node.args[1]
        if isinstance(divisor, Node) and not node.meta["val"].is_floating_point():
            is_zero = insert_before(node, ATEN.eq.Scalar, (divisor, 0), {})
            replaced = insert_before(node, ATEN.add.Tensor, (divisor, is_zero), {})
            node.args = (node.args[0], replaced, *node.args[2:])


def insert(graph: Graph, before: Node, branch: Graph, operands: list[Node]) -> list[Node]:
    given = [n for n in branch.nodes if n.op == "placeholder"]
    copied: dict[Node, Node] = dict(zip(given, operands, strict=True))
    with graph.inserting_before(before):
        results = graph.graph_copy(branch, copied)
    return list(results)
