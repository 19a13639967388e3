"""Defines forms, which are the variants of a layer's C on the device ``c``, and chooses a form.

A form is an entry in the table of its core. Its template has the form's name.
:mod:`firmwright.devices.cpu.all_forms` lists the tables. The C of a form compiles on every machine.
The instructions of one family of cores are inside ``#if``, next to plain C with equal results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from firmwright.ir.byte_layers import AnyLayer
from firmwright.ir.layer import Array, LayerKind


@dataclass(frozen=True)
class Scratch:
    """The working memory of a layer: its C name, its dtype, and its number of elements."""

    name: str
    dtype: str
    elements: int


@dataclass(frozen=True)
class TemplateVariables:
    """The variables of the templates that produce a form's C.

    Layers with equal variables can share a function.

    ``parts`` are functions that the C calls through its record. A part has the variables of its
    template ``<form>_<part>.c.j2``, or None if the layer does not need the part.
    """

    variant: Mapping[str, Any]
    parts: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Packing:
    """The numbers of a layer in the format of a form's C.

    ``arrays`` has constants by their C names, and ``record`` has the members of the layer's struct.
    ``variant`` has the variables of the form's template. ``parts`` has the variables of the form's
    parts. The functions of the parts have ``part_parameters`` after the record. ``shared`` has the
    variables of a shared function if this function depends on fewer variables.
    """

    arrays: Mapping[str, Array]
    record: Mapping[str, int]
    variant: Mapping[str, Any]
    scratch: tuple[Scratch, ...] = ()
    parts: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    part_parameters: str = ""
    shared: TemplateVariables | None = None

    def choose_text(self, shared: bool) -> TemplateVariables:
        separate = TemplateVariables(self.variant, self.parts)
        return self.shared or separate if shared else separate


@dataclass(frozen=True)
class Condition:
    """A condition of a form on layers of its kind. The sentence completes "needs"."""

    sentence: str
    holds: Callable[[Any], bool]


class Tile(NamedTuple):
    """The numbers of pixels and channels of a layer's output that a form computes per step."""

    pixels: int
    channels: int

    def __str__(self) -> str:
        return f"{self.pixels}x{self.channels}"


class BlockCosts(NamedTuple):
    """The cycles of a form that computes blocks of pixels by channels.

    The C gathers the inputs of a block of pixels. Per block of channels, the C then reads inputs,
    loads weights, multiplies and stores results.
    """

    gather: float
    read: float
    load: float
    product: float
    result: float
    block: float

    def count_cycles(self, layer: Any, tile: Tile) -> float:
        channel_blocks = layer.groups * -(-layer.out_channels // layer.groups // tile.channels)
        of_channels = (
            layer.taps * tile.channels * (self.load + self.product * tile.pixels)
            + layer.taps * tile.pixels * self.read
            + self.result * tile.pixels * tile.channels
            + self.block
        )
        of_pixels = self.gather * layer.taps * tile.pixels + channel_blocks * of_channels
        return float(-(-layer.pixels // tile.pixels) * of_pixels)


def shrink_tile(layer: Any, tile: Tile) -> Tile:
    channels = layer.out_channels // layer.groups
    return Tile(min(tile.pixels, layer.pixels), min(tile.channels, channels))


def has_few_values(layer: Any, bits: int) -> bool:
    """Return whether a table of 2^bits values contains all weights of a layer."""
    return np.unique(layer.weights).size <= 1 << bits


def fits_bits(layer: Any, bits: int) -> bool:
    """Return whether the weights of each channel differ by less than 2^bits.

    The result is False for layers with one or two weights per channel. The bases of their channels
    would need as much memory as packed weights save, because a base is one byte.
    """
    return layer.taps > 2 and int(np.ptp(layer.matrix, 1).max()) < 1 << bits


CORES = {
    "dot": frozenset({"dotprod"}),
    "dsp": frozenset({"armv7e-m-dsp"}),
    "mmla": frozenset({"i8mm"}),
    "mve": frozenset({"armv8.1-m-mve"}),
    "neon": frozenset({"neon"}),
    "rv32m": frozenset({"rv32m"}),
    "x64": frozenset({"x86-64"}),
    "xcv": frozenset({"xcvalu", "xcvhwlp", "xcvmac", "xcvmem", "xcvsimd"}),
}
"""The features of each core by the first word in the names of its forms.

The C of forms with other first words runs on every core.
"""


@dataclass(frozen=True)
class Form:
    """A method to compute layers of a kind on cores with some ``features``.

    The ``name`` begins with the core and ends with the kind of layer. The C needs the features of
    the core in :data:`CORES`, or only the ``extensions`` if they are given. ``cost`` is the
    approximate number of instructions per multiply-accumulate, or 0. ``sentence`` describes the
    method. ``folder`` contains the form's template and the ``headers``, which are other files that
    the C needs. ``pack`` may be slow, because it runs once per layer. ``pack`` never runs for a
    layer that breaks a condition.

    If ``shared`` is true, layers share the form's functions unless the user asks for speed. Such
    functions are large, and constants in the code would save few instructions.

    The C reads element i of the inputs ``in_place`` before it writes element i, and never
    afterward. If the C can compute tiles of several sizes, ``tiles`` lists the sizes. ``fit_tile``
    makes a tile smaller for a layer. The argument of ``pack`` is the first tile, or the layer's
    tuned tile. ``bits`` is the number of bits in which the C stores a weight. If ``looked_up`` is
    true, these bits are the number of a weight in a table of the layer's values.

    ``cycles`` maps a feature of cores to a function that returns the approximate cycles of a layer
    with a tile. This function selects the default tile, and the best of the forms that have such
    functions.
    """

    name: str
    pack: Callable[..., Packing]
    sentence: str
    conditions: tuple[Condition, ...] = ()
    cost: float = 0.0
    extensions: frozenset[str] = frozenset()
    in_place: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    shared: bool = False
    folder: str = "c/layers"
    tiles: tuple[Tile, ...] = ()
    fit_tile: Callable[[Any, Tile], Tile] = shrink_tile
    bits: int = 8
    looked_up: bool = False
    cycles: Mapping[str, Callable[[Any, Tile], float]] = field(default_factory=dict)

    @cached_property
    def kind(self) -> LayerKind:
        """The kind of layer with which the name ends, such as ``float_conv2d``."""
        return max(
            (k for k in LayerKind if self.name.endswith(k.value)), key=lambda k: len(k.value)
        )

    @property
    def features(self) -> frozenset[str]:
        """The features that a core must have."""
        return self.extensions or CORES.get(self.name.partition("_")[0], frozenset())

    def is_for(self, layer: AnyLayer, features: Collection[str]) -> bool:
        is_for_core = self.kind is layer.kind and self.features <= set(features)
        fits = has_few_values if self.looked_up else fits_bits
        return is_for_core and (self.bits == 8 or fits(layer, self.bits))

    def list_tiles(self, layer: AnyLayer) -> list[Tile]:
        """Return the distinct tiles of a layer, with the default tile first."""
        tiles = [*dict.fromkeys(self.fit_tile(layer, tile) for tile in self.tiles)]
        for feature in sorted(self.features & self.cycles.keys()):
            tiles.sort(key=lambda tile: self.cycles[feature](layer, tile))
        return tiles

    def order_tiles(self, layer: AnyLayer, features: Collection[str]) -> Form:
        """Return the form with the fastest tile of a layer first, if the core has known cycles."""
        known = [cycles for feature, cycles in self.cycles.items() if feature in features]
        if not known or len(self.tiles) < 2:
            return self
        tiles = sorted(self.list_tiles(layer), key=lambda tile: known[0](layer, tile))
        return replace(self, tiles=tuple(tiles))

    def predict_cycles(self, layer: AnyLayer, features: Collection[str]) -> float | None:
        """Return the approximate cycles of a layer on a core, or None if they are unknown."""
        tile = next(iter(self.list_tiles(layer)), Tile(1, 1))
        known = (cycles for feature, cycles in self.cycles.items() if feature in features)
        return next((cycles(layer, tile) for cycles in known), None)

    def with_tile(self, tile: Tile) -> Form:
        return replace(self, tiles=(tile,), sentence=f"Pixels by channels at once: {tile}.")

    def pack_layer(self, layer: AnyLayer) -> Packing:
        return self.pack(layer, *self.list_tiles(layer)[:1])

    def find_broken(self, layer: AnyLayer) -> list[str]:
        """Return the sentences of the conditions that a layer of the form's kind breaks."""
        return [c.sentence for c in self.conditions if not c.holds(layer)]


@dataclass(frozen=True)
class FormChoice:
    """The form of a layer, or None if no form fits, and the reasons against earlier forms.

    If ``shared`` is true, the layer calls a function that other layers also call.
    """

    form: Form | None
    refusals: tuple[str, ...]
    shared: bool = False


def choose(
    layer: AnyLayer,
    features: Collection[str],
    forms: Sequence[Form],
) -> FormChoice:
    """Return the best form for a layer on a core with these features."""
    refusals: list[str] = []
    for form in forms:
        if not form.is_for(layer, features):
            continue
        broken = form.find_broken(layer)
        if not broken:
            return FormChoice(list_fitting(layer, features, forms)[0], tuple(refusals))
        refusals.append(f"{form.name} needs {'; '.join(broken)}")
    return FormChoice(None, tuple(refusals))


def list_fitting(layer: AnyLayer, features: Collection[str], forms: Sequence[Form]) -> list[Form]:
    """Return all forms that fit a layer on a core, the best one first.

    The best form is the first form in the table, or the fastest form if the cycles of the first
    form are known.
    """
    fitting = [
        f.order_tiles(layer, features)
        for f in forms
        if f.is_for(layer, features) and not f.find_broken(layer)
    ]
    known = [(cycles, f) for f in fitting if (cycles := f.predict_cycles(layer, features))]
    if known and known[0][1] is fitting[0]:
        _, best = min(known, key=lambda pair: pair[0])
        fitting.sort(key=lambda form: form is not best)
    return fitting
