"""The same network on two target mixes, layer by layer (file ``comparison/comparison.json``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeVar

from firmwright.report.timeline import LayerCycles, Timeline


class HasSources(Protocol):
    """Anything that says which operators of the model it computes."""

    @property
    def sources(self) -> tuple[str, ...]: ...


LayerT = TypeVar("LayerT", bound=HasSources)


@dataclass(frozen=True)
class CycleCount:
    """Cycles that a device's cost model gives, and instructions that the CPU executed."""

    modelled: int
    counted: int

    @property
    def cycles(self) -> int:
        return self.modelled + self.counted


@dataclass(frozen=True)
class CycleRow:
    """The layers of both that compute the same operators of the model, named by ``sources``.

    ``devices`` are those of ``own``. ``speed_up`` is ``other`` over ``own``, in cycles, with
    three decimals.
    """

    sources: tuple[str, ...]
    devices: tuple[str, ...]
    own: CycleCount
    other: CycleCount
    speed_up: float


@dataclass(frozen=True)
class CycleComparison:
    """One inference on ``target`` (``own``) and on ``other_target`` (``other``)."""

    target: str
    other_target: str
    layers: tuple[CycleRow, ...]
    total: CycleRow


def compare_timelines(
    own: Timeline, target: str, other: Timeline, other_target: str
) -> CycleComparison:
    """Put the layers of two timelines of one network side by side.

    Both execute the network's operators in an order of their own, in layers of their own: a row
    is the shortest stretch of both timelines that holds the same operators. The last row is what
    follows the last named operator.
    """
    rows = [make_row(*stretch) for stretch in align_layers(own.layers, other.layers)]
    return CycleComparison(target, other_target, tuple(rows), make_row(own.layers, other.layers))


def align_layers(
    own: Sequence[LayerT], other: Sequence[LayerT]
) -> list[tuple[Sequence[LayerT], Sequence[LayerT]]]:
    """Cut both sequences wherever the same operators have been executed in both."""
    common = sources_of(own) & sources_of(other)
    reached, others_reached = find_milestones(own, common), find_milestones(other, common)
    cuts = [(n, others_reached[done]) for done, n in reached.items() if done in others_reached]
    cuts = [(0, 0), *cuts, (len(own), len(other))]
    return [(own[a:b], other[x:y]) for (a, x), (b, y) in pairwise(cuts) if b > a or y > x]


def find_milestones(layers: Sequence[HasSources], common: set[str]) -> dict[frozenset[str], int]:
    """Map every set of operators that is executed at some time to the layers that it takes."""
    found: dict[frozenset[str], int] = {}
    done: frozenset[str] = frozenset()
    for count, layer in enumerate(layers, 1):
        done |= common.intersection(layer.sources)
        if done:
            found.setdefault(done, count)
    return found


def sources_of(layers: Sequence[HasSources]) -> set[str]:
    return {source for layer in layers for source in layer.sources}


def make_row(own: Sequence[LayerCycles], other: Sequence[LayerCycles]) -> CycleRow:
    mine, theirs = count_cycles(own), count_cycles(other)
    return CycleRow(
        sources=tuple(dict.fromkeys(source for layer in own for source in layer.sources)),
        devices=tuple(dict.fromkeys(layer.device for layer in own)),
        own=mine,
        other=theirs,
        speed_up=round(theirs.cycles / max(mine.cycles, 1), 3),
    )


def count_cycles(layers: Sequence[LayerCycles]) -> CycleCount:
    modelled = sum(layer.modelled.total for layer in layers if layer.modelled)
    return CycleCount(modelled, sum(layer.counted.cpu for layer in layers))


def format_table(comparison: CycleComparison) -> str:
    """Return the comparison as lines of text."""
    rows = [(x.sources[0] if x.sources else "other", x) for x in comparison.layers]
    lines = [
        ("layer", "cycles", "modelled", "counted", f"with {comparison.other_target}", "speed-up"),
        *(format_row(name, row) for name, row in (*rows, ("total", comparison.total))),
    ]
    return align_columns(lines)


def align_columns(lines: Sequence[tuple[str, ...]]) -> str:
    """Return a table as text: the first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(pairs))
        for pairs in (list(zip(line, widths, strict=True)) for line in lines)
    )


def format_row(name: str, row: CycleRow) -> tuple[str, ...]:
    own = (row.own.cycles, row.own.modelled, row.own.counted, row.other.cycles)
    return (name[:32], *(f"{number:,}" for number in own), f"{row.speed_up:.2f}")
