"""Checks that each tensor of a graph is written once, before an operator reads the tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from firmwright.errors import UserError

MAX_PROBLEMS = 20


@dataclass(frozen=True)
class GraphNode:
    """An operator with its label in messages, and the tensors that it reads and writes."""

    label: str
    reads: tuple[Hashable, ...]
    writes: tuple[Hashable, ...]


def order_problems(
    known: Iterable[Hashable],
    nodes: Sequence[GraphNode],
    outputs: Sequence[Hashable],
    shown: Mapping[Hashable, str] | None = None,
) -> list[str]:
    """Return the problems of a graph's order, one line per problem.

    ``known`` contains the inputs and constants. ``shown`` maps tensors to names for messages, if
    the identifiers of tensors are not names.
    """
    given = set(known)
    labels = shown or {}
    writers: dict[Hashable, str] = {}
    problems = []
    for node in nodes:
        for tensor in node.writes:
            label = labels.get(tensor, tensor)
            if tensor in given:
                problems.append(f"{node.label} writes '{label}', which is an input or constant")
            elif tensor in writers:
                problems.append(
                    f"'{label}' is written twice: by {writers[tensor]} and by {node.label}"
                )
            else:
                writers[tensor] = node.label
    for node, tensor in find_early_reads(given, nodes):
        label = labels.get(tensor, tensor)
        if tensor not in writers:
            problems.append(f"{node.label} reads '{label}', which no operator writes")
        elif is_in_cycle(nodes, node, tensor):
            problems.append(
                f"{node.label} reads '{label}', which depends on its result: the graph has a cycle"
            )
        else:
            problems.append(
                f"{node.label} reads '{label}' before {writers[tensor]} writes it; expected an "
                "order in which each operator follows the operators that it reads from"
            )
    for tensor in outputs:
        if tensor not in writers and tensor not in given:
            problems.append(f"no operator writes the output '{labels.get(tensor, tensor)}'")
    return problems


def find_early_reads(
    given: set[Hashable], nodes: Sequence[GraphNode]
) -> Iterator[tuple[GraphNode, Hashable]]:
    """Yield each node and each tensor that the node reads before any node writes the tensor."""
    written = set(given)
    for node in nodes:
        for tensor in dict.fromkeys(node.reads):
            if tensor not in written:
                yield node, tensor
        written.update(node.writes)


def is_in_cycle(nodes: Sequence[GraphNode], reader: GraphNode, tensor: Hashable) -> bool:
    makers = {result: node for node in nodes for result in node.writes}
    pending, seen = [tensor], set()
    while pending:
        node = makers.get(pending.pop())
        if node is reader:
            return True
        if node is not None and id(node) not in seen:
            seen.add(id(node))
            pending.extend(node.reads)
    return False


def find_duplicates(names: Iterable[Hashable]) -> list[Hashable]:
    return [name for name, count in Counter(names).items() if count > 1]


def refuse_problems(heading: str, problems: Iterable[str], advice: str) -> None:
    """Raise UserError with one line per problem and the advice, if there are problems."""
    found = list(dict.fromkeys(problems))
    if len(found) > MAX_PROBLEMS:
        found = [*found[:MAX_PROBLEMS], f"and {len(found) - MAX_PROBLEMS} more"]
    if found:
        raise UserError("\n".join([heading, *(f"  {p}" for p in (*found, advice))]))
