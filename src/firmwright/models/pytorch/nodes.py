"""Describes the nodes of exported programs: operators, and locations in the model's source."""

from __future__ import annotations

import re

import torch

SOURCE_LINE = re.compile(r'File "([^"]*)", line (\d+)')


def find_call_nodes(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    return [n for n in program.graph.nodes if n.op == "call_function"]


def kind_of(node: torch.fx.Node) -> str:
    """Return an operator's name without namespace and overload, such as ``convolution``."""
    return str(node.target.__name__).partition(".")[0]


def describe(node: torch.fx.Node) -> str:
    """Return an operator, its node, and its line in the model's source, if available."""
    lines = SOURCE_LINE.findall(node.meta.get("stack_trace") or "")
    user_lines = [line for line in lines if "site-packages/torch/" not in line[0]]
    location = ", {} line {}".format(*user_lines[-1]) if user_lines else ""
    return f"{node.target} (node '{node.name}'{location})"


def draws_numbers(node: torch.fx.Node) -> bool:
    """Return whether an operator draws random numbers.

    Recurrent layers draw random numbers only in training.
    """
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    stated = {option.name: i for i, option in enumerate(node.target._schema.arguments)}
    return "num_layers" not in stated or bool(node.args[stated["train"]])
