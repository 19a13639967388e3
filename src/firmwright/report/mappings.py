"""The same network on two target mixes, by what it is modelled to cost (``mapping.json``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firmwright.report.comparison import aligned, stretches
from firmwright.report.modelled import Cost, ModelledLayer, total

ORIGIN = "modelled, not measured"


@dataclass(frozen=True)
class MappedLayers:
    """The layers of both that compute the same operators of the model, named by ``sources``.

    ``devices`` are those of ``own``, ``other_devices`` those of ``other``.
    """

    sources: tuple[str, ...]
    devices: tuple[str, ...]
    other_devices: tuple[str, ...]
    own: Cost
    other: Cost


@dataclass(frozen=True)
class Mappings:
    """One inference on ``target`` (``own``) and on ``other_target`` (``other``).

    The last of the ``layers`` is the call of the run function. ``unverified`` names the numbers
    of the platform that are assumed.
    """

    target: str
    other_target: str
    origin: str
    unverified: tuple[str, ...]
    layers: tuple[MappedLayers, ...]
    total: MappedLayers


def compare_mappings(
    own: Sequence[ModelledLayer],
    target: str,
    other: Sequence[ModelledLayer],
    other_target: str,
    unverified: tuple[str, ...],
) -> Mappings:
    """Put the costs of two mixes for one network side by side; rows as in a comparison."""
    rows = tuple(mapped(*stretch) for stretch in stretches(own, other))
    return Mappings(target, other_target, ORIGIN, unverified, rows, mapped(own, other))


def mapped(own: Sequence[ModelledLayer], other: Sequence[ModelledLayer]) -> MappedLayers:
    return MappedLayers(
        sources=tuple(dict.fromkeys(source for layer in own for source in layer.sources)),
        devices=tuple(dict.fromkeys(layer.device for layer in own)),
        other_devices=tuple(dict.fromkeys(layer.device for layer in other)),
        own=total(layer.cost for layer in own),
        other=total(layer.cost for layer in other),
    )


def table(found: Mappings) -> str:
    """Return the costs as lines of text: each mix's crossings, bytes and microseconds."""
    mixes = (found.target, found.other_target)
    heads = [head for mix in mixes for head in (f"{mix}: crossings", "bytes", "us")]
    rows = [(row.sources[0] if row.sources else "call", row) for row in found.layers]
    return aligned([("layer", *heads), *(cells(*r) for r in (*rows, ("total", found.total)))])


def cells(name: str, row: MappedLayers) -> tuple[str, ...]:
    costs = (row.own, row.other)
    numbers = [(str(c.crossings), f"{c.bytes:,}", f"{c.microseconds:,.1f}") for c in costs]
    return (name[:32], *numbers[0], *numbers[1])
