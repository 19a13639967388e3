"""Formats one layer as text, from the model's operator to the lines of C."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from firmwright.codegen.names import escape_comment
from firmwright.errors import UserError, suggest_known
from firmwright.report.advice import Advice, shorten_name
from firmwright.report.layer_rows import ReportedLayer

LABEL_WIDTH = 11


@dataclass(frozen=True)
class FollowedLayer:
    """A layer, the advice to speed it up, and the lines of its function in C."""

    layer: ReportedLayer
    advice: tuple[Advice, ...]
    code: tuple[str, ...]


@dataclass(frozen=True)
class FollowedLayers:
    """The output of ``firmwright explain --layer --json``: some of a network's ``count`` layers."""

    name: str
    platform: str
    count: int
    layers: tuple[FollowedLayer, ...]


def find_layers(layers: Sequence[ReportedLayer], wanted: str) -> list[ReportedLayer]:
    """Return the layers of a region, an operator or a tensor of the model with this name.

    ``wanted`` can also be a number of a layer, or a short name in a table. Layers whose names
    contain this name are returned if no name is equal. Raises UserError if no name contains it.
    """
    names = {layer.number: {layer.name, *layer.sources, *layer.results} for layer in layers}
    exact = [layer for layer in layers if wanted in names[layer.number]]
    shown = [layer for layer in layers if wanted in (str(layer.number), shorten_name(layer.title))]
    part = [
        layer
        for layer in layers
        if any(wanted.lower() in name.lower() for name in names[layer.number])
    ]
    if exact or shown or part:
        return exact or shown or part
    known = [layer.title for layer in layers]
    raise UserError(f"no layer has {wanted!r} in its name{suggest_known(wanted, known)}")


def format_layer(followed: FollowedLayer, count: int, width: int) -> str:
    """Return the lines of a layer and of its code. The network has ``count`` layers.

    Characters of a name that are not printable are omitted.
    """
    layer = followed.layer
    title = shorten_name(escape_comment(layer.title))
    lines = wrap(f"{title}: layer {layer.number} of {count}, on {layer.device}", width)
    for label, text in [*list_facts(layer), *(("advice", str(a)) for a in followed.advice)]:
        hanging = " " * (LABEL_WIDTH + 4)
        first = f"  {label:<{LABEL_WIDTH}}  "
        shown = escape_comment(text)
        lines += wrap(shown, width, initial_indent=first, subsequent_indent=hanging)
    return "\n".join([*lines, *(f"    {line}".rstrip() for line in followed.code)])


def list_sizes(layer: ReportedLayer) -> Iterator[tuple[str, str]]:
    size = layer.size
    yield (
        "bytes",
        (
            f"reads {size.reads:,}, writes {size.writes:,}, weights {size.weights:,}, "
            f"scratch {size.scratch:,}"
        ),
    )
    for label, part in (("weights", layer.stored), ("memories", layer.memories)):
        if part:
            yield label, str(part)


def list_facts(layer: ReportedLayer) -> Iterator[tuple[str, str]]:
    """Yield the facts about a layer, in the order in which the compiler finds them."""
    yield "model", ", ".join(layer.sources) or "no operator; the layer only moves data"
    yield "rewritten", ", ".join(layer.operators)
    yield "region", f"{layer.name}, results of {' x '.join(map(str, layer.shape)) or 'a scalar'}"
    yield layer.device, layer.reason
    for refusal in layer.refusals:
        yield f"not {refusal.device}", f"{refusal.rule}: {refusal.sentence}"
    if layer.form:
        yield "form", layer.form
    if layer.stand_in:
        yield "stand-in", f"for {layer.stand_in}"
    if layer.float_operators:
        yield "in float32", ", ".join(layer.float_operators)
    if layer.macs:
        yield "work", f"{layer.macs:,} multiply-accumulates"
    yield from list_sizes(layer)
    if layer.follows:
        yield "follows", f"layer {', '.join(map(str, layer.follows))}"
    yield "schedule", str(layer.turn)
    if layer.estimated_us is not None:
        yield "time", f"{layer.estimated_us:,.1f} us, estimated from the platform's numbers"
    if layer.code:
        yield "code", f"{layer.code.file}, lines {layer.code.first} to {layer.code.last}"
