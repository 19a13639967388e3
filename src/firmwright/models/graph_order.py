"""Every tensor of a graph is written once, and before it is read: the rules of all formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One operator as a message names it, and the tensors it reads and writes."""

    shown_as: str
    reads: tuple[Hashable, ...]
    writes: tuple[Hashable, ...]


def order_problems(
    known: Iterable[Hashable],
    steps: Sequence[Step],
    outputs: Sequence[Hashable],
    shown: Mapping[Hashable, str] | None = None,
) -> list[str]:
    """Return what is wrong with the order, a line each.

    ``known`` are the inputs and constants, ``shown`` the tensors' names where they differ
    from what identifies them.
    """
    given = set(known)
    labels = shown or {}
    writers: dict[Hashable, str] = {}
    problems = []
    for step in steps:
        for tensor in step.writes:
            label = labels.get(tensor, tensor)
            if tensor in given:
                problems.append(f"{step.shown_as} writes '{label}', an input or constant")
            elif tensor in writers:
                problems.append(
                    f"'{label}' is written twice: by {writers[tensor]} and by {step.shown_as}"
                )
            else:
                writers[tensor] = step.shown_as
    for step, tensor in too_early(given, steps):
        label = labels.get(tensor, tensor)
        if tensor not in writers:
            problems.append(f"{step.shown_as} reads '{label}', which nothing writes")
        elif in_cycle(steps, step, tensor):
            problems.append(f"{step.shown_as} reads '{label}', which is computed from its result")
        else:
            problems.append(
                f"{step.shown_as} reads '{label}' before {writers[tensor]} writes it: the "
                "operators are not in an order in which they can run"
            )
    for tensor in outputs:
        if tensor not in writers and tensor not in given:
            problems.append(f"nothing writes the output '{labels.get(tensor, tensor)}'")
    return problems


def too_early(given: set[Hashable], steps: Sequence[Step]) -> Iterator[tuple[Step, Hashable]]:
    """Yield every reading of a tensor that no earlier step has written."""
    written = set(given)
    for step in steps:
        for tensor in dict.fromkeys(step.reads):
            if tensor not in written:
                yield step, tensor
        written.update(step.writes)


def in_cycle(steps: Sequence[Step], reader: Step, tensor: Hashable) -> bool:
    """Tell whether ``tensor`` depends on what the reader writes."""
    makers = {result: step for step in steps for result in step.writes}
    pending, seen = [tensor], set()
    while pending:
        step = makers.get(pending.pop())
        if step is reader:
            return True
        if step is not None and id(step) not in seen:
            seen.add(id(step))
            pending.extend(step.reads)
    return False


def repeated(names: Iterable[Hashable]) -> list[Hashable]:
    """Return what occurs more than once, in the order of first occurrence."""
    return [name for name, count in Counter(names).items() if count > 1]
