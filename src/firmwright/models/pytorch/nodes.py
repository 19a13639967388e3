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
