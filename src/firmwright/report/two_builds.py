"""Renders the page of ``firmwright diff --html``: two builds side by side, and the differences.

The page is one file with the style and the script of a report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from firmwright.report.comparison import align_layers, list_devices, list_sources
from firmwright.report.difference import Difference, rate, show
from firmwright.report.layer_rows import ReportedLayer
from firmwright.report.page import Card, summarize
from firmwright.report.page_templates import (
    BETWEEN_TAGS,
    FOLDER,
    make_page_environment,
    read_asset,
)
from firmwright.report.report import Report

MICROSECONDS = "µs"
NOT_SHOWN = frozenset({"device of an operator", "time"})
"""Areas of a difference that the table of layers shows."""


@dataclass(frozen=True)
class LayerPair:
    """The layers of both builds that compute the operators in ``title``.

    ``before`` and ``after`` are the devices. Unknown costs are None.
    """

    title: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    cost_before: float | None
    cost_after: float | None

    @property
    def moved(self) -> bool:
        return self.before != self.after

    @property
    def more(self) -> float | None:
        """Return the additional cost of the second build, or None if a cost is unknown."""
        if self.cost_before is None or self.cost_after is None:
            return None
        return self.cost_after - self.cost_before


@dataclass(frozen=True)
class Answers:
    """The answers of both builds to one question."""

    before: Card
    after: Card


def render_comparison(before: Report, after: Report, difference: Difference) -> str:
    """Return the page, whose bytes depend only on the two bundles."""
    measure, unit = choose_measure(before, after)
    layers = pair_layers(before.layers, after.layers, measure)
    page = make_page_environment().get_template(f"{FOLDER}/comparison.html.j2")
    devices = tuple(dict.fromkeys((*before.devices, *after.devices)))
    areas = groupby(difference.changes, key=lambda change: change.area)
    text = page.render(
        before=before,
        after=after,
        difference=difference,
        answers=[Answers(*pair) for pair in zip(summarize(before), summarize(after), strict=True)],
        layers=layers,
        moved=sum(pair.moved for pair in layers),
        unit=unit,
        digits=1 if unit == MICROSECONDS else 0,
        areas=[(name, list(each)) for name, each in areas if name not in NOT_SHOWN],
        css=read_asset("report.css.j2"),
        script=read_asset("report.js.j2"),
        style=lambda device: f"device-{devices.index(device) % 6}",
        show=show,
        rate=rate,
    )
    return BETWEEN_TAGS.sub("><", text)


def choose_measure(
    before: Report, after: Report
) -> tuple[Callable[[ReportedLayer], float | None], str]:
    """Return a function for a layer's cost, and its unit, which both builds have."""
    if before.total and after.total and before.total.unit == after.total.unit:
        return lambda layer: layer.length, before.total.unit
    return lambda layer: layer.estimated_us, MICROSECONDS


def pair_layers(
    before: Sequence[ReportedLayer],
    after: Sequence[ReportedLayer],
    measure: Callable[[ReportedLayer], float | None],
) -> list[LayerPair]:
    """Return the shortest sequences of layers of both builds that compute the same operators."""

    def add(layers: Sequence[ReportedLayer]) -> float | None:
        costs = [measure(layer) for layer in layers]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    return [
        LayerPair(
            ", ".join(list_sources(old) or list_sources(new)) or "data movement",
            list_devices(old),
            list_devices(new),
            add(old),
            add(new),
        )
        for old, new in align_layers(before, after)
    ]
