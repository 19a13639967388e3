"""Forms: the ways in which this device writes a layer's C, and the choice between them.

A form is a row of its core's table and a template of its name in a folder of templates.
:mod:`firmwright.devices.cpu.all_forms` lists the tables. The C of a form compiles on every machine:
instructions of one family of cores are inside ``#if``, with plain C that computes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from firmwright.ir.layer import Array, LayerKind, LinearLayer, MatrixProduct, Pair, Softmax

KnownLayer = LinearLayer | Pair | MatrixProduct | Softmax


@dataclass(frozen=True)
class Scratch:
    """Working memory of a layer: C's name of it, and how many elements of a type."""

    name: str
    dtype: str
    elements: int


@dataclass(frozen=True)
class TemplateVariables:
    """What a form's C is rendered with: layers of the same text can share a function.

    ``parts`` are functions that it calls by its record: the variables of the templates
    ``<form>_<part>.c.j2``, None for a part that a layer does without.
    """

    variant: Mapping[str, Any]
    parts: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Packing:
    """A layer's numbers as a form's C reads them.

    ``arrays`` are constants by their name in C, ``record`` is what the C finds in the layer's
    struct. ``variant`` are the variables of the form's template, with ``parts`` and their
    parameters behind the record. ``shared`` is the text of a function that layers share, where
    that depends on less.
    """

    arrays: Mapping[str, Array]
    record: Mapping[str, int]
    variant: Mapping[str, Any]
    scratch: tuple[Scratch, ...] = ()
    parts: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    part_parameters: str = ""
    shared: TemplateVariables | None = None

    def choose_text(self, shared: bool) -> TemplateVariables:
        """Return the text of a function that layers share, or of a layer's own."""
        own = TemplateVariables(self.variant, self.parts)
        return self.shared or own if shared else own


@dataclass(frozen=True)
class Condition:
    """What a form asks of a layer of its kind; the sentence completes "needs"."""

    sentence: str
    holds: Callable[[Any], bool]


class Tile(NamedTuple):
    """How many pixels and channels of a layer's output a form computes at once."""

    pixels: int
    channels: int

    def __str__(self) -> str:
        return f"{self.pixels}x{self.channels}"


def shrink_tile(layer: Any, tile: Tile) -> Tile:
    """Return a tile that is no larger than the output of a group of a layer."""
    channels = layer.out_channels // layer.groups
    return Tile(min(tile.pixels, layer.pixels), min(tile.channels, channels))


@dataclass(frozen=True)
class Form:
    """One way to compute layers of a kind on cores with these ``features``.

    ``cost`` is about how many instructions a multiply-accumulate takes. ``sentence`` says how it
    works, ``headers`` names what its C includes of ``templates/c/layers``; its own template is in
    ``folder``. ``pack`` may be slow: it runs once a layer, and never for one that breaks a
    condition.
    ``shared``: layers share its functions unless the user asks for speed, because these are large
    and a layer's numbers in them save few instructions.
    It reads element i of the inputs ``in_place`` before it writes element i, and never after.
    ``tiles`` are sizes of what its C computes at once, if it has several; ``fit_tile`` makes one
    smaller for a layer. ``pack`` gets the first of them, or the one for which a layer was tuned.
    """

    name: str
    kind: LayerKind
    features: frozenset[str]
    conditions: tuple[Condition, ...]
    pack: Callable[..., Packing]
    cost: float
    sentence: str
    in_place: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    shared: bool = False
    folder: str = "c/layers"
    tiles: tuple[Tile, ...] = ()
    fit_tile: Callable[[Any, Tile], Tile] = shrink_tile

    def is_for(self, layer: KnownLayer, features: Collection[str]) -> bool:
        """Tell whether a layer is of its kind, and the core has all that it uses."""
        return self.kind is layer.kind and self.features <= set(features)

    def list_tiles(self, layer: KnownLayer) -> list[Tile]:
        """Return the tiles of a layer that differ, the usual one first."""
        return [*dict.fromkeys(self.fit_tile(layer, tile) for tile in self.tiles)]

    def with_tile(self, tile: Tile) -> Form:
        """Return the same form with this tile alone, for which its sentence stands."""
        return replace(self, tiles=(tile,), sentence=f"Pixels by channels at once: {tile}.")

    def pack_layer(self, layer: KnownLayer) -> Packing:
        """Return a layer's numbers, in the usual tile."""
        return self.pack(layer, *self.list_tiles(layer)[:1])

    def find_broken(self, layer: KnownLayer) -> list[str]:
        """Return the sentences of the conditions that a layer of its kind breaks."""
        return [c.sentence for c in self.conditions if not c.holds(layer)]


@dataclass(frozen=True)
class Choice:
    """The form of a layer, None where none fits, and why those before it in the table do not.

    ``shared``: the layer calls a function that others call, too.
    """

    form: Form | None
    refusals: tuple[str, ...]
    shared: bool = False


def choose(
    layer: KnownLayer,
    features: Collection[str],
    forms: Sequence[Form],
) -> Choice:
    """Return the first form for this layer on a core with these features.

    Forms of other kinds and of other cores are not worth a refusal.
    """
    refusals: list[str] = []
    for form in forms:
        if not form.is_for(layer, features):
            continue
        broken = form.find_broken(layer)
        if not broken:
            return Choice(form, tuple(refusals))
        refusals.append(f"{form.name} needs {'; '.join(broken)}")
    return Choice(None, tuple(refusals))
