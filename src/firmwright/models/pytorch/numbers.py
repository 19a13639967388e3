"""Evaluates the parts of a PyTorch program that do not depend on inputs."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from firmwright.models.pytorch.nodes import draws_numbers, kind_of

MASKING = ("add", "where", "masked_fill", "sub")
"""The operators that write -inf into scores."""

FILLING = ("full", "empty", "empty_permuted")


def evaluate_numbers(program: torch.export.ExportedProgram) -> dict[torch.fx.Node, torch.Tensor]:
    """Return the tensors that depend on no input and no weight, except for constant fills.

    Operators that draw random numbers are not evaluated, because a later check rejects these
    operators.
    """
    tensors: dict[torch.fx.Node, torch.Tensor] = {}
    for node in program.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        known = all(source in tensors for source in node.all_input_nodes)
        if known and not draws_numbers(node):
            arguments = torch.fx.map_arg((node.args, node.kwargs), tensors.__getitem__)
            value = node.target(*arguments[0], **arguments[1])
            if isinstance(value, torch.Tensor):
                tensors[node] = value
    return {
        node: value
        for node, value in tensors.items()
        if kind_of(node) not in FILLING
        and value.dtype != torch.bfloat16  # numpy has no bfloat16
        and not value.is_complex()
    }


def may_mask_rows(
    scores: torch.fx.Node, axis: int, numbers: Mapping[torch.fx.Node, torch.Tensor]
) -> bool:
    """Return whether all scores of a row may be -inf. A constant mask can exclude this case."""
    if scores.target.__name__.partition(".")[0] not in MASKING:
        return False
    masks = [numbers[n] for n in scores.all_input_nodes if n in numbers]
    shown = [
        bool((mask.amax(axis) > -torch.inf).all()) for mask in masks if mask.is_floating_point()
    ]
    return len(masks) != 1 or not all(shown) or not shown
