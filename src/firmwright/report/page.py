"""Renders the page ``report.html``: one file that is readable without a network or a script.

Every text is escaped, because names in models may contain any characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from firmwright.documents.quantities import (
    format_frequency,
    format_microjoules,
    format_milliseconds,
)
from firmwright.documents.yaml_text import write_yaml
from firmwright.report.advice import Advice, shorten_name
from firmwright.report.charts import (
    draw_arenas,
    draw_roofline,
    draw_timeline,
    name_style,
    percent,
)
from firmwright.report.network_lanes import draw_graph
from firmwright.report.page_templates import (
    BETWEEN_TAGS,
    FOLDER,
    make_page_environment,
    read_asset,
)
from firmwright.report.report import Report
from firmwright.report.timeline import NO_TIME

NAMED_LAYERS = 3
"""The maximum number of layers that one advice on the page names."""


@dataclass(frozen=True)
class Card:
    """An item of the summary. ``state`` is "good", "bad" or "plain"."""

    question: str
    answer: str
    lines: tuple[str, ...]
    state: str = "plain"


def render_page(report: Report, code: Mapping[int, str] = MappingProxyType({})) -> str:
    """Return the page, whose bytes depend only on the report.

    ``code`` maps the numbers of layers to their C code.
    """
    tracks, roofline = draw_timeline(report), draw_roofline(report)
    parts = {
        "summary": True, "advice": report.advice, "graph": True, "timeline": tracks,
        "memory": True, "roofline": roofline, "layers": True, "accuracy": report.accuracy,
        "sizes": True, "origin": True,
    }  # fmt: skip
    page = make_page_environment().get_template(f"{FOLDER}/report.html.j2")
    text = page.render(
        report=report,
        code=code,
        sections=[(name, name.capitalize()) for name, shown in parts.items() if shown],
        cards=list(summarize(report)),
        graph=draw_graph(report.layers),
        advice_of=group_advice(report),
        tracks=tracks,
        arenas=draw_arenas(report.memory),
        roofline=roofline,
        recipe=write_yaml(report.recipe, sort_keys=False, width=80),
        css=read_asset("report.css.j2"),
        script=read_asset("report.js.j2"),
        shown_layers=NAMED_LAYERS,
        style=lambda device: name_style(report.devices, device),
        share=percent,
        short=shorten_name,
        power=lambda exponent: f"{10.0**exponent:,.10g}",
    )
    return BETWEEN_TAGS.sub("><", text)


def group_advice(report: Report) -> dict[str, list[Advice]]:
    return {
        layer.title: [advice for advice in report.advice if layer.title in advice.layers]
        for layer in report.layers
    }


def summarize(report: Report) -> Iterable[Card]:
    yield tell_exactness(report)
    yield tell_fit(report)
    yield tell_speed(report)
    yield tell_fallback(report)


def tell_exactness(report: Report) -> Card:
    proof = report.proof
    if proof is None:
        return Card("Is it exact?", "not run", ("The platform has no emulator.",))
    lines: tuple[str, ...] = (
        f"{proof.exact_samples} of {proof.samples} samples, largest difference "
        f"{proof.max_difference:g}",
        f"{proof.emulator} against {proof.reference}",
    )
    stand_ins = sum(layer.stand_in is not None for layer in report.layers)
    if stand_ins:
        lines = (*lines, f"stand-ins for results of closed tools: {stand_ins} of its layers")
    if proof.mismatches:
        return Card("Is it exact?", f"{proof.mismatches:,} values are wrong", lines, "bad")
    answer = "exact" if not proof.differences else "within the tolerance"
    return Card("Is it exact?", answer, lines, "good")


def tell_fit(report: Report) -> Card:
    memory = report.memory
    bound = f"the arena has {memory.arena:,} bytes; the lower bound is {memory.arena_lower_bound:,}"
    if memory.flash is None or memory.ram is None:
        return Card("Does it fit?", "not linked", (bound,))
    used = {"flash": memory.flash, "ram": memory.ram}
    lines = tuple(
        f"{name}: {used[name]:,} of {size:,} bytes, {percent(used[name], size):.1f} %"
        for name, size in memory.capacity.items()
        if name in used
    )
    if not lines:
        return Card("Does it fit?", f"{memory.ram:,} bytes of RAM", (bound,))
    if memory.stack:
        lines = (*lines, f"the run function's stack: {memory.stack}")
    # The planner and the linker have rejected any network that does not fit.
    return Card("Does it fit?", "it fits", (*lines, bound), "good")


def tell_speed(report: Report) -> Card:
    total, macs = report.total, sum(layer.macs for layer in report.layers)
    if total is None:
        estimated = [layer.estimated_us for layer in report.layers]
        if not estimated or None in estimated:
            reasons = () if report.proof else (NO_TIME,)
            return Card("How fast is it?", "not counted", (*reasons, f"{macs:,} MACs"))
        spent = sum(time for time in estimated if time is not None)
        source = "estimated from the platform's numbers, not measured"
        return Card("How fast is it?", f"{spent:,.0f} µs", (source, f"{macs:,} MACs"))
    lines = [total.source, f"{macs:,} MACs"]
    if total.modelled:
        lines[1:1] = [f"{total.modelled:,} cycles modelled, {total.counted:,} on the processor"]
    if total.milliseconds is not None and total.clock is not None:
        lines[:0] = [f"at {format_frequency(total.clock)}: about {total.total:,} cycles"]
    if total.least_cycles is not None:
        lines.insert(0, total.describe_bound())
    if total.microjoules is not None:
        energy = format_microjoules(total.microjoules)
        lines.insert(0, f"about {energy}, by the energy per cycle of the platform")
    if report.layers:  # the outputs of a network may be its inputs
        slowest = max(report.layers, key=lambda layer: layer.length or 0)
        lines.append(f"the slowest layer is {slowest.number}: {shorten_name(slowest.title)}")
    answer = f"{total.total:,} {total.unit}"
    if total.milliseconds is not None:
        answer = f"about {format_milliseconds(total.milliseconds)}"
    return Card("How fast is it?", answer, tuple(lines))


def tell_fallback(report: Report) -> Card:
    floats = sum(len(layer.float_operators) for layer in report.layers)
    refused = [layer for layer in report.layers if layer.refusals]
    lines = [f"layer {layer.number}: {shorten_name(layer.title)}" for layer in refused[:3]]
    lines += [f"and {len(refused) - 3} more"] if len(refused) > 3 else []
    lines += [f"quantized operators that run in float32: {floats}"] if floats else []
    if not refused and not floats:
        return Card("What fell back?", "nothing", (), "good")
    answer = f"{len(refused)} of {len(report.layers)} layers" if refused else "no layer"
    return Card("What fell back?", answer, tuple(lines))
