"""The tile that DORY chooses for a layer on DIANA, from its objective and its constraints.

This restates the objective of DORY 8a0fe7b (``Tiler/tiler_conv2d.py`` and the tiler of additions),
and tries all tiles: widths in multiples of 16, no padding in the relation of input to output, one
buffer. If DORY is silent, the better case is assumed: an addition that fits is not tiled, and a
layer's tiles do not depend on the layer before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.cost import Accelerator
from firmwright.devices.soma_dory.tiles import Tile, align
from firmwright.ir.layer import LayerKind

BIAS_BYTES = {LayerKind.CONV2D: 4, LayerKind.DEPTHWISE_CONV2D: 4, LayerKind.DENSE: 16}
BLOCK = 1_000_000
"""DORY's weight for tiles that fill the accelerator's 16 columns and 16 channels."""


@dataclass(frozen=True)
class Sizes:
    """A tile as DORY's solver sees it; its fields are in the order of the solver's search."""

    in_channels: int
    out_channels: int
    in_height: int
    in_width: int
    out_height: int
    out_width: int

    @property
    def activations(self) -> int:
        read = self.in_channels * self.in_height * self.in_width
        return read + self.out_channels * self.out_height * self.out_width


def dory_tile(layer: AcceleratorLayer, accelerator: Accelerator) -> Tile | None:
    """Return DORY's tile, or None if DORY would end with a message."""
    if layer.kind is LayerKind.ADD:
        return addition_tile(layer, accelerator)
    whole = whole_layer(layer)
    if fits(layer, whole, accelerator) and untiled(whole):
        return tile_of(layer, whole)
    for rows, columns in ((False, False), (True, False), (True, True)):
        candidates = [
            sizes
            for sizes in tiles(layer, whole, rows, columns)
            if sizes != whole and fits(layer, sizes, accelerator)
        ]
        if candidates:
            return tile_of(layer, max(candidates, key=lambda s: objective(layer, s)))
    return None


def whole_layer(layer: AcceleratorLayer) -> Sizes:
    if layer.kind is LayerKind.DENSE:
        return Sizes(align(layer.channels), layer.out_channels, 1, 1, 1, 1)
    return Sizes(layer.channels, layer.out_channels, layer.height, align(layer.width),
                 layer.out_height, align(layer.out_width))  # fmt: skip


def untiled(whole: Sizes) -> bool:
    """DORY always cuts layers with one row or one column into blocks of 16 channels."""
    return whole.out_channels <= 16 or (whole.out_height > 1 and whole.out_width > 1)


def fits(layer: AcceleratorLayer, sizes: Sizes, accelerator: Accelerator) -> bool:
    kernel = layer.kernel[0] * layer.kernel[1]
    inputs, lanes = (1, 16) if layer.kind is LayerKind.DEPTHWISE_CONV2D else (sizes.in_channels, 1)
    weights = sizes.out_channels * (inputs * kernel + BIAS_BYTES[layer.kind]) * lanes
    return sizes.activations <= accelerator.l1 and weights <= accelerator.weights


def tiles(layer: AcceleratorLayer, whole: Sizes, rows: bool, columns: bool) -> Iterator[Sizes]:
    """Yield the tiles with or without tiled rows and columns, in the solver's order."""
    heights = [(whole.in_height, whole.out_height)]
    widths = [(whole.in_width, whole.out_width)]
    if rows:
        heights = list(lengths(whole.in_height, layer.kernel[0], layer.strides[0]))
    if columns:
        widths = list(lengths(whole.in_width, layer.kernel[1], layer.strides[1]))
    most = min(16, whole.out_channels) if whole.out_height == whole.out_width == 1 else None
    for channels in range(1, (most or whole.out_channels) + 1):
        inputs = channels if layer.kind is LayerKind.DEPTHWISE_CONV2D else whole.in_channels
        for (in_height, out_height), (in_width, out_width) in product(heights, widths):
            yield Sizes(inputs, channels, in_height, in_width, out_height, out_width)


def lengths(whole: int, kernel: int, stride: int) -> Iterator[tuple[int, int]]:
    """Yield the lengths of input and output tiles that belong together, without padding."""
    for result in range(1, whole // stride + 1):
        read = (result - 1) * stride + kernel
        if read <= whole:
            yield read, result


def objective(layer: AcceleratorLayer, sizes: Sizes) -> int:
    value = BLOCK * ((sizes.out_width - 1) % 16) + BLOCK * ((sizes.out_channels - 1) % 16)
    value += BLOCK * (sizes.out_width * sizes.out_height >= 16) + BLOCK * sizes.out_width
    if layer.kind is not LayerKind.DEPTHWISE_CONV2D:
        value += BLOCK // 10 * sizes.out_channels
    return value + sizes.activations


def tile_of(layer: AcceleratorLayer, sizes: Sizes) -> Tile:
    columns = min(sizes.out_width, layer.out_width)
    return Tile(sizes.out_channels, sizes.out_height, columns)


def addition_tile(layer: AcceleratorLayer, accelerator: Accelerator) -> Tile | None:
    """Yield all channels; a tiled sum has two buffers for each of the three tiles."""
    channels, height, width = layer.out_channels, layer.out_height, align(layer.out_width)
    whole = Tile(channels, height, layer.out_width)
    if 3 * channels * height * width <= accelerator.l1:
        return whole
    best: tuple[int, Tile] | None = None
    for rows, columns in product(range(1, height + 1), range(1, width + 1)):
        size = 3 * channels * rows * columns
        value = BLOCK * size + 10 * columns + rows + 1000 * channels
        if 2 * size <= accelerator.l1 and (best is None or value > best[0]):
            best = (value, Tile(channels, rows, min(columns, layer.out_width)))
    return None if best is None else best[1]
