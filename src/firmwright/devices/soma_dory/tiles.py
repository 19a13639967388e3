"""Defines tiles, which are the parts of a layer that the accelerator computes one at a time.

A tile is a part of the results. The kernel determines the input that the tile reads. The tiles of
all output channels follow each other before the next rows. The accelerator fetches the weights
again for every job. Because output channels are inside of rows, an input tile is loaded once for
all output channels. No other order saves more cycles. Columns are not split. A job reads whole rows
of its input, and pads both ends of the rows (diana-driver.md, K2 and E1). A job reads all input
channels of its sums, because no job of ``fw_soma.h`` continues the sums of another job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.device_layout import PIECE, ROW, WORD
from firmwright.ir.layer import LayerKind

LANES = 16
"""The output channels in a block of weights, and in a block of results in L1."""

SPACING = 4
"""A depthwise channel uses the first of four lanes. DORY sets the other lanes to zeros."""

DEPTHWISE_PLANES = LANES - 1
"""The planes after a depthwise tile that its last jobs also write (diana-driver.md, B4)."""

BIAS_BYTES = {
    LayerKind.CONV2D: 4,
    LayerKind.DEPTHWISE_CONV2D: 4,
    LayerKind.DENSE: 16,
    LayerKind.ANALOG_CONV2D: 4,
}
"""Bytes of bias per lane. For an analog layer, they are the bytes of its factor and its bias."""


def align(count: int, multiple: int = ROW) -> int:
    """Return a count rounded up to whole rows of 16 bytes, or to whole blocks of 16 channels."""
    return -(-count // multiple) * multiple


@dataclass(frozen=True)
class Tile:
    """The sizes of a layer's tiles. The last tile along each axis may be smaller.

    The sizes are those of the results. ``columns`` is the whole width, except for an addition.
    """

    channels: int
    rows: int
    columns: int


@dataclass(frozen=True)
class Span:
    """A tile of rows: ``size`` results from ``start`` on, and the input rows that they read.

    ``before`` and ``after`` are the rows of padding that the kernel also covers. ``kernel_rows`` is
    the sum over the results of the kernel's rows that are not padding.
    """

    start: int
    size: int
    first: int
    read: int
    before: int
    after: int
    kernel_rows: int


@dataclass(frozen=True)
class RowAxis:
    """The rows of a layer: elements in, results out, and the kernel between them."""

    elements: int
    results: int
    kernel: int
    stride: int
    padding: int

    def make_spans(self, size: int) -> tuple[Span, ...]:
        """Return tiles of ``size`` results. A single tile reads the whole axis."""
        starts = range(0, self.results, size)
        return tuple(
            self.make_span(s, min(size, self.results - s), len(starts) == 1) for s in starts
        )

    def make_span(self, start: int, size: int, whole: bool) -> Span:
        begin = start * self.stride - self.padding
        end = begin + (size - 1) * self.stride + self.kernel
        first, stop = (0, self.elements) if whole else (max(begin, 0), min(end, self.elements))
        before, after = max(-begin, 0), max(end - self.elements, 0)
        taps = sum(map(self.kernel_elements, range(start, start + size)))
        return Span(start, size, first, stop - first, before, after, taps)

    def kernel_elements(self, result: int) -> int:
        """Return the number of the kernel's elements that are not padding for one result."""
        begin = result * self.stride - self.padding
        return max(0, min(begin + self.kernel, self.elements) - max(begin, 0))


@lru_cache(maxsize=1024)
def count_spans(axis: RowAxis, size: int) -> Mapping[Span, int]:
    """Return the different tiles of ``size`` results, and the number of tiles that equal each.

    Tiles that differ only in their positions are equal. The returned positions are 0.
    """
    return Counter(replace(span, start=0, first=0) for span in axis.make_spans(size))


@dataclass(frozen=True)
class TileTransfer:
    """A move of planes of ``plane_bytes`` bytes: contiguous in L1, ``stride`` bytes apart in L2."""

    planes: int
    plane_bytes: int
    stride: int

    def pieces(self) -> tuple[int, int]:
        """Return the number of contiguous pieces in L2, and the bytes per piece."""
        if self.planes == 1 or self.stride == self.plane_bytes:
            return 1, self.planes * self.plane_bytes
        return self.planes, self.plane_bytes


@dataclass(frozen=True)
class TileJob:
    """One run of the accelerator. ``loads`` is true if its input tile is not in L1 yet."""

    rows: Span
    columns: int
    channels: int
    loads: bool


def row_axis(layer: AcceleratorLayer) -> RowAxis:
    return RowAxis(
        layer.height, layer.out_height, layer.kernel[0], layer.strides[0], layer.padding[0]
    )


def is_channel_sum(layer: AcceleratorLayer) -> bool:
    """Return whether each result is a sum over the input channels."""
    return layer.kind in (LayerKind.CONV2D, LayerKind.DENSE, LayerKind.ANALOG_CONV2D)


def flatten_addition(layer: AcceleratorLayer) -> AcceleratorLayer:
    """Return the layer for tiling. An addition becomes one row of all bytes of the batch."""
    if layer.kind is not LayerKind.ADD:
        return layer
    width = layer.batch * layer.channels * layer.height * align(layer.width)
    return replace(layer, batch=1, channels=1, height=1, width=width, out_channels=1,
                   out_height=1, out_width=width)  # fmt: skip


def channels_per_block(layer: AcceleratorLayer) -> int:
    """Return the number of result channels whose weights are in one block of 16 lanes."""
    return LANES // SPACING if layer.kind is LayerKind.DEPTHWISE_CONV2D else LANES


def tile_sizes(length: int, size: int) -> list[int]:
    return [min(size, length - start) for start in range(0, length, size)]


def count_jobs(layer: AcceleratorLayer, tile: Tile) -> Iterator[tuple[TileJob, int]]:
    """Yield the different jobs of one sample, and the number of jobs that equal each.

    Equal jobs have equal cycles. The positions of their rows are 0.
    """
    rows = count_spans(row_axis(layer), tile.rows)
    columns = Counter(tile_sizes(layer.out_width, tile.columns))
    parts = enumerate(tile_sizes(layer.out_channels, tile.channels))
    channels = Counter((count, i == 0 or not is_channel_sum(layer)) for i, count in parts)
    for (span, i), (width, j), (part, k) in product(
        rows.items(), columns.items(), channels.items()
    ):
        yield TileJob(span, width, *part), i * j * k


def input_transfer(layer: AcceleratorLayer, rows: Span, columns: int, planes: int) -> TileTransfer:
    """Return the transfer of an input tile. ``planes`` are the channels of a dense layer."""
    if layer.kind is LayerKind.DENSE:
        return TileTransfer(1, align(planes), 0)
    pitch = align(columns if layer.kind is LayerKind.ADD else layer.width)
    return TileTransfer(planes, rows.read * pitch, layer.height * pitch)


def output_transfer(layer: AcceleratorLayer, rows: Span, columns: int, planes: int) -> TileTransfer:
    """Return the transfer of a tile of results. ``planes`` are the channels of a dense layer."""
    if layer.kind is LayerKind.DENSE:
        return TileTransfer(1, align(planes), 0)
    pitch = align(columns)
    return TileTransfer(planes, rows.size * pitch, layer.out_height * pitch)


def row_tile_sizes(layer: AcceleratorLayer) -> list[int]:
    """Return the possible numbers of rows in a tile of results, largest first.

    If the size of a store is not a multiple of 32 bytes, the store overwrites 16 more bytes
    (diana-driver.md, T2). After the rows of the last tile, these bytes are the next channel's first
    rows, which are already stored. Therefore the rows of each tile, including the last tile, are
    whole pieces, unless one tile has all rows.
    """
    height, pitch = layer.out_height, align(layer.out_width)
    if height * pitch % PIECE:
        return [height]
    rows = 2 if pitch % PIECE else 1
    return [height, *(n for n in range(height - 1, 0, -1) if n % rows == 0)]


def weight_bytes(layer: AcceleratorLayer, channels: int) -> int:
    """Return the bytes of weights and biases in one fetch of the accelerator.

    A depthwise layer has one job per channel, and each job fetches one block (diana-driver.md, J4).
    """
    if layer.kind is LayerKind.ADD:
        return 0
    area = layer.kernel[0] * layer.kernel[1]
    if layer.kind is LayerKind.DEPTHWISE_CONV2D:
        return LANES * (area + BIAS_BYTES[layer.kind])
    if layer.kind is LayerKind.ANALOG_CONV2D:
        block = layer.channels * area * WORD + LANES * BIAS_BYTES[layer.kind]
        return align(channels) // LANES * block
    return align(channels) * (count_planes(layer, channels) * area + BIAS_BYTES[layer.kind])


@dataclass(frozen=True)
class Footprint:
    """The bytes that the largest tiles of a layer need in L1 and in the weight memory."""

    inputs: int
    outputs: int
    weights: int

    @property
    def l1(self) -> int:
        return self.inputs + self.outputs


def footprint(layer: AcceleratorLayer, tile: Tile) -> Footprint:
    """Return the bytes of the tiles, without the second tiles of double buffering.

    Transfers into L1 also write whole pieces of 32 bytes.
    """
    bytes_in = bytes_out = 1
    if layer.kind is not LayerKind.DENSE:
        row_spans = count_spans(row_axis(layer), tile.rows)
        width_in = tile.columns if layer.kind is LayerKind.ADD else layer.width
        bytes_in = max(s.read for s in row_spans) * align(width_in)
        bytes_out = max(s.size for s in row_spans) * align(tile.columns)
    planes = tile.channels
    if is_channel_sum(layer):
        planes = align(planes)  # results are in blocks of 16
    elif layer.kind is LayerKind.DEPTHWISE_CONV2D:
        planes += DEPTHWISE_PLANES
    read = count_inputs(layer) * align(count_planes(layer, tile.channels) * bytes_in, PIECE)
    return Footprint(read, align(planes * bytes_out, PIECE), weight_bytes(layer, tile.channels))


def count_inputs(layer: AcceleratorLayer) -> int:
    return 2 if layer.kind is LayerKind.ADD else 1


def count_planes(layer: AcceleratorLayer, channels: int) -> int:
    """Return the number of input channels that are in L1 for a tile of result channels."""
    if not is_channel_sum(layer):
        return channels
    return align(layer.channels) if layer.kind is LayerKind.DENSE else layer.channels
