"""Compares one network on two target mixes, layer by layer: times and estimated costs.

The files are ``comparison/comparison.json`` and ``mapping/mapping.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeVar

from firmwright.report.estimates import Cost, LayerEstimate, sum_costs
from firmwright.report.rows import align_columns
from firmwright.report.timeline import CYCLES, TimedLayer, Timeline

ORIGIN = "modelled, not measured"
"""The origin of the numbers in a comparison of costs."""
LONGEST_NAME = 32
"""The maximum number of characters of a layer's name on the terminal."""


class ComparedLayer(Protocol):
    """A layer on a device. ``sources`` are the operators of the model that it computes."""

    @property
    def device(self) -> str: ...

    @property
    def sources(self) -> tuple[str, ...]: ...


LayerT = TypeVar("LayerT", bound=ComparedLayer)


@dataclass(frozen=True, slots=True)
class TimeCount:
    """The cycles that cost models of devices estimate, and the processor's part."""

    modelled: int
    counted: int

    @property
    def total(self) -> int:
        return self.modelled + self.counted


@dataclass(frozen=True, slots=True)
class TimeRow:
    """The layers of both mixes that compute the same operators of the model, its ``sources``.

    ``devices`` are the devices of ``base``. ``speed_up`` is ``other`` divided by ``base``, with
    three decimals.
    """

    sources: tuple[str, ...]
    devices: tuple[str, ...]
    base: TimeCount
    other: TimeCount
    speed_up: float


@dataclass(frozen=True, slots=True)
class TimeComparison:
    """One inference on ``target`` (``base``) and on ``other_target`` (``other``).

    ``source`` is the origin of the numbers of both targets.
    """

    target: str
    other_target: str
    unit: str
    source: str
    layers: tuple[TimeRow, ...]
    total: TimeRow


@dataclass(frozen=True, slots=True)
class CostRow:
    """The layers of both mixes that compute the same operators of the model, its ``sources``.

    ``devices`` are the devices of ``base``. ``other_devices`` are the devices of ``other``.
    """

    sources: tuple[str, ...]
    devices: tuple[str, ...]
    other_devices: tuple[str, ...]
    base: Cost
    other: Cost


@dataclass(frozen=True, slots=True)
class CostComparison:
    """The estimated cost of one inference on ``target`` (``base``) and on ``other_target``.

    The last of the ``layers`` is the call of the run function. ``unverified`` names the numbers of
    the platform that are assumed.
    """

    target: str
    other_target: str
    origin: str
    unverified: tuple[str, ...]
    layers: tuple[CostRow, ...]
    total: CostRow


def compare_timelines(
    base: Timeline, target: str, other: Timeline, other_target: str
) -> TimeComparison:
    """Return a comparison of two timelines of one network.

    Each instruction counts as a cycle if only the other timeline has cycles. The last row contains
    the layers after the last named operator.
    """
    rows = tuple(make_time_row(*stretch) for stretch in align_layers(base.layers, other.layers))
    total = make_time_row(base.layers, other.layers)
    unit = base.unit if base.unit == other.unit else CYCLES
    source = "; ".join(dict.fromkeys([base.source, other.source]))
    return TimeComparison(target, other_target, unit, source, rows, total)


def compare_costs(
    base: Sequence[LayerEstimate],
    target: str,
    other: Sequence[LayerEstimate],
    other_target: str,
    unverified: tuple[str, ...],
) -> CostComparison:
    rows = tuple(make_cost_row(*stretch) for stretch in align_layers(base, other))
    total = make_cost_row(base, other)
    return CostComparison(target, other_target, ORIGIN, unverified, rows, total)


def make_time_row(base: Sequence[TimedLayer], other: Sequence[TimedLayer]) -> TimeRow:
    mine, theirs = count_time(base), count_time(other)
    speed_up = round(theirs.total / max(mine.total, 1), 3)
    return TimeRow(list_sources(base), list_devices(base), mine, theirs, speed_up)


def make_cost_row(base: Sequence[LayerEstimate], other: Sequence[LayerEstimate]) -> CostRow:
    mine, theirs = (sum_costs(layer.cost for layer in layers) for layers in (base, other))
    return CostRow(list_sources(base), list_devices(base), list_devices(other), mine, theirs)


def count_time(layers: Sequence[TimedLayer]) -> TimeCount:
    modelled = sum(layer.modelled.total for layer in layers if layer.modelled)
    return TimeCount(modelled, sum(layer.counted.amount for layer in layers))


def list_sources(layers: Sequence[ComparedLayer]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(source for layer in layers for source in layer.sources))


def list_devices(layers: Sequence[ComparedLayer]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(layer.device for layer in layers))


def align_layers(
    base: Sequence[LayerT], other: Sequence[LayerT]
) -> list[tuple[Sequence[LayerT], Sequence[LayerT]]]:
    """Cut both sequences at each point at which the executed operators of both are equal.

    The sequences may execute the network's operators in different orders and in different layers.
    Therefore each pair has the shortest parts of the sequences with equal operators.
    """
    common = {*list_sources(base)} & {*list_sources(other)}
    reached, others_reached = find_milestones(base, common), find_milestones(other, common)
    cuts = [(n, others_reached[done]) for done, n in reached.items() if done in others_reached]
    cuts = [(0, 0), *cuts, (len(base), len(other))]
    return [(base[a:b], other[x:y]) for (a, x), (b, y) in pairwise(cuts) if b > a or y > x]


def find_milestones(layers: Sequence[ComparedLayer], common: set[str]) -> dict[frozenset[str], int]:
    """Return the number of layers after which each set of operators is done."""
    milestones: dict[frozenset[str], int] = {}
    done: frozenset[str] = frozenset()
    for count, layer in enumerate(layers, 1):
        done |= common.intersection(layer.sources)
        if done:
            milestones.setdefault(done, count)
    return milestones


RowT = TypeVar("RowT", bound=TimeRow | CostRow)


def format_times(comparison: TimeComparison) -> str:
    head = (comparison.unit, "modelled", "processor", f"with {comparison.other_target}", "speed-up")

    def format_row(row: TimeRow) -> list[str]:
        numbers = (row.base.total, row.base.modelled, row.base.counted, row.other.total)
        return [*(f"{number:,}" for number in numbers), f"{row.speed_up:.2f}"]

    return format_rows(head, comparison.layers, comparison.total, "other", format_row)


def format_costs(comparison: CostComparison) -> str:
    """Return the comparison of costs as a table: each mix's crossings, bytes and microseconds."""
    mixes = (comparison.target, comparison.other_target)
    head = [title for mix in mixes for title in (f"{mix}: crossings", "bytes", "us")]

    def format_row(row: CostRow) -> list[str]:
        costs = (row.base, row.other)
        cells = ((str(c.crossings), f"{c.bytes:,}", f"{c.microseconds:,.1f}") for c in costs)
        return [cell for three in cells for cell in three]

    return format_rows(head, comparison.layers, comparison.total, "call", format_row)


def format_rows(
    head: Sequence[str],
    rows: Sequence[RowT],
    total: RowT,
    unnamed: str,
    format_row: Callable[[RowT], Sequence[str]],
) -> str:
    """Return a table of the rows and the total. Each row has the name of its first operator.

    ``unnamed`` is the name of rows without an operator.
    """
    names = [*(row.sources[0] if row.sources else unnamed for row in rows), "total"]
    lines = [["layer", *head]]
    for name, row in zip(names, [*rows, total], strict=True):
        lines.append([name[:LONGEST_NAME], *format_row(row)])
    return "\n".join(align_columns(lines, "<" + ">" * len(head)))
