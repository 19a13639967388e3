"""Inserts torch's type conversions into a program, and replaces torch.cond.

TVM computes in the operands' types, but torch converts operands to one type implicitly. For
example, ``x + 1.5`` is float32 for integers x. This module inserts an operator for each conversion,
and for the factor ``alpha`` of sums. TVM omits this factor. Both branches of a condition run, and
the condition selects each result.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from firmwright.errors import UserError
from firmwright.models.pytorch.complex_numbers import uses_complex
from firmwright.models.pytorch.nodes import describe, find_call_nodes, kind_of

ATEN = torch.ops.aten
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
SHIFTS = frozenset({"__lshift__", "__rshift__"})
REDUCTIONS = frozenset({"prod", "cumprod", "linalg_vector_norm", "_softmax", "_log_softmax", "cat"})
"""Operators that first convert their operands to the result's type, like pointwise operators."""

BOOLEAN = {
    ATEN.add.Tensor: ATEN.logical_or.default,
    ATEN.mul.Tensor: ATEN.logical_and.default,
    ATEN.maximum.default: ATEN.logical_or.default,
    ATEN.minimum.default: ATEN.logical_and.default,
    ATEN.bitwise_not.default: ATEN.logical_not.default,
}
"""The operators that replace arithmetic if the operands and the result are Booleans."""


def state_types(program: torch.export.ExportedProgram) -> None:
    """Insert conversions of operands into the program if torch computes in another type."""
    for node in find_call_nodes(program):
        kind = find_computing_type(node)
        if kind is not None:
            first = 1 if kind_of(node) == "where" else 0  # the condition is not converted
            operands = (convert_operand(a, kind, node) for a in node.args[first:])
            node.args = (*node.args[:first], *operands)
            multiply_second_term(node, kind)
        if kind == torch.bool and all(isinstance(a, torch.fx.Node) for a in node.args):
            node.target = BOOLEAN.get(node.target, node.target)
    program.graph.lint()


def find_computing_type(node: torch.fx.Node) -> torch.dtype | None:
    """Return the type to which torch converts a node's operands.

    Return None without a conversion.
    """
    result, kind = node.meta.get("val"), kind_of(node)
    if not isinstance(result, torch.Tensor) or uses_complex(node):
        return None
    if kind in COMPARISONS:
        return torch.result_type(*(value_of(a) for a in node.args))
    if kind in ("isnan", "isinf"):
        given: torch.dtype = value_of(node.args[0]).dtype
        return given if given.is_floating_point else torch.float32
    pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    if kind in REDUCTIONS or (pointwise and kind not in SHIFTS and not kind.startswith("logical")):
        return result.dtype
    return None


def value_of(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument


def convert_operand(operand: Any, kind: torch.dtype, user: torch.fx.Node) -> Any:
    """Convert an operand of ``user`` to the type ``kind``. Other arguments remain unchanged."""
    if isinstance(operand, list | tuple):
        return [convert_operand(part, kind, user) for part in operand]
    if not isinstance(operand, torch.fx.Node):
        return wrap_number(operand, kind) if takes_numbers(user) else operand
    value = operand.meta["val"]
    if not isinstance(value, torch.Tensor) or value.dtype == kind:
        return operand
    return insert_before(user, ATEN._to_copy.default, (operand,), {"dtype": kind})


def takes_numbers(node: torch.fx.Node) -> bool:
    """Return whether the numbers in a node's arguments are operands. Exponents are not operands."""
    return torch.Tag.pointwise in node.target.tags and kind_of(node) != "pow"


def wrap_number(number: Any, kind: torch.dtype) -> Any:
    """Return the lowest bits of a number, because torch's integer conversions wrap around."""
    if not isinstance(number, int) or kind.is_floating_point or kind == torch.bool:
        return number
    return torch.tensor(int(number)).to(kind).item()


def insert_before(
    user: torch.fx.Node, target: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> torch.fx.Node:
    """Insert an operator before ``user``, with the location of ``user`` in the model's source."""
    with user.graph.inserting_before(user):
        node = user.graph.call_function(target, args, options)
    shared = ("nn_module_stack", "stack_trace")
    node.meta = {key: user.meta[key] for key in shared if key in user.meta}
    node.meta["val"] = target(*(value_of(a) for a in args), **options)
    return node


def multiply_second_term(node: torch.fx.Node, kind: torch.dtype) -> None:
    """Replace ``a + alpha * b`` and ``a - alpha * b`` with a multiplication and a sum."""
    if kind_of(node) not in ("add", "sub"):
        return
    first, second, *others = node.args
    alpha = wrap_number(others[0] if others else node.kwargs.get("alpha", 1), kind)
    node.kwargs = {}
    if alpha == 1:
        node.args = (first, second)
    elif isinstance(second, torch.fx.Node):
        node.args = (first, insert_before(node, ATEN.mul.Scalar, (second, alpha), {}))
    else:
        node.args = (first, wrap_number(second * alpha, kind))


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
