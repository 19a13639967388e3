"""The same network on two target mixes, by what it is modelled to cost (``mapping.json``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firmwright.report.comparison import align_columns, align_layers
from firmwright.report.estimates import Cost, LayerEstimate, sum_costs

ORIGIN = "modelled, not measured"


@dataclass(frozen=True)
class CostRow:
    """The layers of both that compute the same operators of the model, named by ``sources``.

    ``devices`` are those of ``own``, ``other_devices`` those of ``other``.
    """

    sources: tuple[str, ...]
    devices: tuple[str, ...]
    other_devices: tuple[str, ...]
    own: Cost
    other: Cost


@dataclass(frozen=True)
class CostComparison:
    """One inference on ``target`` (``own``) and on ``other_target`` (``other``).

    The last of the ``layers`` is the call of the run function. ``unverified`` names the numbers
    of the platform that are assumed.
    """

    target: str
    other_target: str
    origin: str
    unverified: tuple[str, ...]
    layers: tuple[CostRow, ...]
    total: CostRow


def compare_costs(
    own: Sequence[LayerEstimate],
    target: str,
    other: Sequence[LayerEstimate],
    other_target: str,
    unverified: tuple[str, ...],
) -> CostComparison:
    """Put the costs of two mixes for one network side by side; rows as in a comparison."""
    rows = tuple(make_row(*stretch) for stretch in align_layers(own, other))
    return CostComparison(target, other_target, ORIGIN, unverified, rows, make_row(own, other))


def make_row(own: Sequence[LayerEstimate], other: Sequence[LayerEstimate]) -> CostRow:
    return CostRow(
        sources=tuple(dict.fromkeys(source for layer in own for source in layer.sources)),
        devices=tuple(dict.fromkeys(layer.device for layer in own)),
        other_devices=tuple(dict.fromkeys(layer.device for layer in other)),
        own=sum_costs(layer.cost for layer in own),
        other=sum_costs(layer.cost for layer in other),
    )


def format_table(found: CostComparison) -> str:
    """Return the costs as lines of text: each mix's crossings, bytes and microseconds."""
    mixes = (found.target, found.other_target)
    heads = [head for mix in mixes for head in (f"{mix}: crossings", "bytes", "us")]
    rows = [(row.sources[0] if row.sources else "call", row) for row in found.layers]
    return align_columns(
        [("layer", *heads), *(format_row(*r) for r in (*rows, ("total", found.total)))]
    )


def format_row(name: str, row: CostRow) -> tuple[str, ...]:
    costs = (row.own, row.other)
    numbers = [(str(c.crossings), f"{c.bytes:,}", f"{c.microseconds:,.1f}") for c in costs]
    return (name[:32], *numbers[0], *numbers[1])
