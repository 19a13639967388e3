"""Computes the variables of the templates for the C of tiled layers.

The templates are in ``templates/soma_dory/layers``. Sizes and positions of tiles are C expressions.
An axis with a single tile has no loop, and its expressions are numbers. The expressions of other
axes are names that the loop declares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from firmwright.codegen.templates import make_environment, render
from firmwright.devices.soma_dory import tiles
from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.device_layout import ROW, WORD
from firmwright.devices.soma_dory.tiling import Tiling


def render_layer(tiling: Tiling, double_buffering: bool, clear: int = 0) -> str:
    """Return the statements of a layer's function.

    The function's parameters are ``input`` (``input_0`` and ``input_1`` for an addition),
    ``weights`` and ``output``. ``clear`` is the number of columns after the results that must be 0.
    """
    layer, tile = tiling.layer, tiling.tile
    needed, count = tiles.footprint(layer, tile), tiling.jobs
    several = count * layer.batch > 1
    variables = {
        "tiling": tiling,
        "layer": layer,
        "tile": tile,
        "jobs": count,
        "places": TileBuffers(needed.inputs, needed.outputs, double_buffering and several),
        "samples": TileLoop("sample", layer.batch, 1),
        "channels": TileLoop("channel", layer.out_channels, tile.channels),
        "rows": RowLoop("row", layer.out_height, tile.rows, tiles.row_axis(layer)),
        "bytes": TileLoop("byte", layer.out_width, tile.columns),
        "surplus": list(range(layer.out_width, layer.out_width + clear)),
        "sums_channels": tiles.is_channel_sum(layer),
        "block": weight_block_words(layer),
        "channels_a_block": tiles.channels_per_block(layer),
        "aligned": tiles.align,
        "whole_rows": round_up_rows,
        "product": format_product,
        "place": offset_pointer,
    }
    template = layer.kind.value.removeprefix("depthwise_").removeprefix("analog_")
    text = render(make_environment(), f"soma_dory/layers/{template}.c.j2", variables)
    return "\n".join(f"    {line}" if line else "" for line in text.rstrip().split("\n"))


@dataclass(frozen=True)
class TileBuffers:
    """The bytes of tiles in L1: inputs first, then results.

    If ``two`` is true, L1 has two buffers for inputs and two buffers for results. The tiles
    alternate between the two buffers.
    """

    inputs: int
    outputs: int
    two: bool

    @property
    def x(self) -> str:
        return "x_at" if self.two else "0"

    @property
    def y(self) -> str:
        return "y_at" if self.two else str(self.first_y)

    @property
    def first_y(self) -> int:
        return self.inputs * (2 if self.two else 1)

    @property
    def second_x(self) -> str:
        """Return the position of an addition's second tensor, in the second half of the inputs."""
        half = self.inputs // 2
        return f"x_at + {half}" if self.two else str(half)


@dataclass(frozen=True)
class TileLoop:
    """A loop over tiles of ``step`` along an axis of ``length``. Its variable is ``name``."""

    name: str
    length: int
    step: int

    @property
    def tiled(self) -> bool:
        return self.step < self.length

    @property
    def start(self) -> str:
        return self.name if self.tiled else "0"

    @property
    def ragged(self) -> bool:
        """Return whether the last tile is smaller than the other tiles."""
        return self.tiled and self.length % self.step != 0

    @property
    def size(self) -> str:
        return f"{self.name}s" if self.ragged else str(self.step)

    def declarations(self) -> Iterator[tuple[str, str]]:
        if self.ragged:
            rest = f"{self.length} - {self.name}"
            yield self.size, f"{rest} < {self.step} ? {rest} : {self.step}"


@dataclass(frozen=True)
class RowLoop(TileLoop):
    """A loop over tiles along rows, with the input rows that the tiles read, and their padding."""

    axis: tiles.RowAxis

    @property
    def first(self) -> str:
        return f"first_{self.name}" if self.tiled else "0"

    @property
    def read(self) -> str:
        return f"{self.name}s_read" if self.tiled else str(self.axis.elements)

    @property
    def before(self) -> str:
        return self.padding("before")

    @property
    def after(self) -> str:
        return self.padding("after")

    def padding(self, side: str) -> str:
        paddings = [getattr(span, side) for span in self.axis.make_spans(self.step)]
        return f"{self.name}s_{side}" if self.tiled and any(paddings) else str(paddings[0])

    def declarations(self) -> Iterator[tuple[str, str]]:
        yield from super().declarations()
        if not self.tiled:
            return
        axis, end = self.axis, f"{self.name}s_end"
        begin = format_product(self.name, axis.stride)
        beyond = axis.kernel - axis.padding - axis.stride
        if self.ragged:
            yield end, format_sum(f"{begin} + {format_product(self.size, axis.stride)}", beyond)
        else:
            yield end, format_sum(begin, self.step * axis.stride + beyond)
        padding, elements = axis.padding, axis.elements
        yield self.first, f"{begin} > {padding} ? {begin} - {padding} : 0" if padding else begin
        last = f"({end} < {elements} ? {end} : {elements})" if self.after != "0" else end
        yield self.read, f"{last} - {self.first}"
        if self.before != "0":
            yield self.before, f"{begin} < {padding} ? {padding} - {begin} : 0"
        if self.after != "0":
            yield self.after, f"{end} > {elements} ? {end} - {elements} : 0"


def format_product(text: str, factor: int) -> str:
    return text if factor == 1 else f"{text} * {factor}"


def format_sum(text: str, number: int) -> str:
    return text if number == 0 else f"{text} {'-' if number < 0 else '+'} {abs(number)}"


def offset_pointer(pointer: str, *offsets: tuple[str, int]) -> str:
    """Return the C expression of a pointer plus offsets.

    An offset is an expression times a number of bytes.
    """
    return " + ".join(
        [pointer, *(format_product(text, size) for text, size in offsets if text != "0")]
    )


def round_up_rows(size: str) -> str:
    """Return the C of a size, rounded up to whole rows of 16 bytes or blocks of 16 channels."""
    if size.isdigit():
        return str(tiles.align(int(size)))
    return f"({size} + {ROW - 1}) / {ROW} * {ROW}"


def weight_block_words(layer: AcceleratorLayer) -> int:
    return tiles.weight_bytes(layer, 1) // WORD
