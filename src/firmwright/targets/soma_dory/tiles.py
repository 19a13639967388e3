"""Tiles: the parts of a layer that the accelerator computes one at a time, and their bytes.

A tile is chosen for the results; what it reads follows from the kernel. Tiles are walked in the
order rows, columns, output channels, input channels, the last one fastest. No other order is
offered: the accelerator fetches the weights of every job anew, so that with the output channels
inside of rows and columns an input tile is loaded once and used for all of them, and nothing
that another order saves is worth more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from firmwright.targets.soma_dory.device_layout import ROW
from firmwright.targets.soma_dory.layer import Layer, LayerKind

LANES = 16
"""Output channels in a block of weights, and of results in L1."""

SPACING = 4
"""A depthwise channel has the first of four lanes; the others are zeros, as in DORY."""

BIAS_BYTES = {LayerKind.CONV2D: 4, LayerKind.DEPTHWISE_CONV2D: 4, LayerKind.DENSE: 16}
"""Bytes of bias a lane."""


def align(count: int) -> int:
    """Round up to whole rows of 16 bytes, or to whole blocks of 16 channels."""
    return -(-count // ROW) * ROW


@dataclass(frozen=True)
class Tile:
    """Sizes of all tiles of a layer but the last along each axis, which has the rest.

    ``channels``, ``rows`` and ``columns`` are of the results; ``in_channels`` of the input,
    where a sum runs over them.
    """

    channels: int
    rows: int
    columns: int
    in_channels: int


@dataclass(frozen=True)
class Span:
    """One tile along one axis: results ``start`` …, and the input elements that they read.

    ``before`` and ``after`` are the elements of padding that the kernel also covers.
    """

    start: int
    size: int
    first: int
    read: int
    before: int
    after: int

    @property
    def skip(self) -> int:
        """Columns that are loaded in front of the first that is read: transfers are aligned."""
        return self.first % ROW

    @property
    def pitch(self) -> int:
        """Bytes of an input row of this tile."""
        return align(self.skip + self.read)


@dataclass(frozen=True)
class Axis:
    """Rows or columns of a layer: elements in, results out, and the kernel between them."""

    elements: int
    results: int
    kernel: int
    stride: int
    padding: int

    def make_spans(self, size: int) -> tuple[Span, ...]:
        """Cut the results into tiles of ``size``; one tile reads the axis whole."""
        starts = range(0, self.results, size)
        return tuple(
            self.make_span(s, min(size, self.results - s), len(starts) == 1) for s in starts
        )

    def make_span(self, start: int, size: int, whole: bool) -> Span:
        begin = start * self.stride - self.padding
        end = begin + (size - 1) * self.stride + self.kernel
        first, stop = (0, self.elements) if whole else (max(begin, 0), min(end, self.elements))
        return Span(start, size, first, stop - first, max(-begin, 0), max(end - self.elements, 0))

    def kernel_elements(self, result: int) -> int:
        """Count the kernel's elements that are not padding for one result."""
        begin = result * self.stride - self.padding
        return max(0, min(begin + self.kernel, self.elements) - max(begin, 0))


@dataclass(frozen=True)
class TileTransfer:
    """A box of bytes in L2, which is compact in L1; strides in bytes."""

    planes: int
    rows: int
    row_bytes: int
    plane_stride: int
    row_stride: int

    def pieces(self) -> tuple[int, int]:
        """Return the number of contiguous pieces in L2, and the bytes of each."""
        count, piece = 1, self.row_bytes
        for length, stride in ((self.rows, self.row_stride), (self.planes, self.plane_stride)):
            if length == 1:
                continue
            if count == 1 and stride == piece:
                piece *= length
            else:
                count *= length
        return count, piece


@dataclass(frozen=True)
class TileJob:
    """One run of the accelerator; ``loads`` where its input tile is not in L1 yet."""

    rows: Span
    columns: Span
    channels: int
    in_channels: int
    loads: bool
    stores: bool


def row_axis(layer: Layer) -> Axis:
    return Axis(
        layer.in_height, layer.out_height, layer.kernel[0], layer.strides[0], layer.padding[0]
    )


def column_axis(layer: Layer) -> Axis:
    return Axis(layer.in_width, layer.out_width, layer.kernel[1], layer.strides[1],
                layer.padding[1])  # fmt: skip


def is_channel_sum(layer: Layer) -> bool:
    """Tell whether each result is a sum over the input channels."""
    return layer.kind in (LayerKind.CONV2D, LayerKind.DENSE)


def flatten_addition(layer: Layer) -> Layer:
    """Return the layer as tiles see it: an addition is one row of all bytes of the batch."""
    if layer.kind is not LayerKind.ADD:
        return layer
    width = layer.batch * layer.in_channels * layer.in_height * align(layer.in_width)
    return replace(layer, batch=1, in_channels=1, in_height=1, in_width=width, out_channels=1,
                   out_height=1, out_width=width)  # fmt: skip


def channels_per_block(layer: Layer) -> int:
    """Return how many channels of results have their weights in one block of 16 lanes."""
    return LANES // SPACING if layer.kind is LayerKind.DEPTHWISE_CONV2D else LANES


def tile_sizes(length: int, size: int) -> list[int]:
    return [min(size, length - start) for start in range(0, length, size)]


def walk_jobs(layer: Layer, tile: Tile) -> Iterator[TileJob]:
    """Walk the tiles of one sample, in the order in which they are computed."""
    columns = column_axis(layer).make_spans(tile.columns)
    channels = tile_sizes(layer.out_channels, tile.channels)
    inputs = tile_sizes(layer.in_channels, tile.in_channels)
    for row_span in row_axis(layer).make_spans(tile.rows):
        for column_span in columns:
            for i, count in enumerate(channels):
                if not is_channel_sum(layer):
                    yield TileJob(row_span, column_span, count, count, True, True)
                    continue
                for j, depth in enumerate(inputs):
                    loads = i == 0 or len(inputs) > 1
                    yield TileJob(row_span, column_span, count, depth, loads, j == len(inputs) - 1)


def input_transfer(layer: Layer, rows: Span, columns: Span, planes: int) -> TileTransfer:
    """Return the transfer of an input tile; of a dense layer ``planes`` is its channels."""
    if layer.kind is LayerKind.DENSE:
        return TileTransfer(1, 1, align(planes), 0, 0)
    pitch = align(layer.in_width)
    return TileTransfer(planes, rows.read, columns.pitch, layer.in_height * pitch, pitch)


def output_transfer(layer: Layer, rows: Span, columns: Span, planes: int) -> TileTransfer:
    """Return the transfer of a tile of results; of a dense layer ``planes`` is its channels."""
    if layer.kind is LayerKind.DENSE:
        return TileTransfer(1, 1, align(planes), 0, 0)
    pitch = align(layer.out_width)
    return TileTransfer(planes, rows.size, align(columns.size), layer.out_height * pitch, pitch)


def weight_bytes(layer: Layer, channels: int, in_channels: int) -> int:
    if layer.kind is LayerKind.ADD:
        return 0
    area = layer.kernel[0] * layer.kernel[1]
    if layer.kind is LayerKind.DEPTHWISE_CONV2D:
        return align(channels * SPACING) * (area + BIAS_BYTES[layer.kind])
    depth = align(in_channels) if layer.kind is LayerKind.DENSE else in_channels
    return align(channels) * (depth * area + BIAS_BYTES[layer.kind])


@dataclass(frozen=True)
class Footprint:
    """Bytes that the largest tiles of a layer take in L1 and in the weight memory."""

    inputs: int
    outputs: int
    weights: int

    @property
    def l1(self) -> int:
        return self.inputs + self.outputs


def footprint(layer: Layer, tile: Tile) -> Footprint:
    """Return what the tiles take, without second ones for double buffering."""
    bytes_in, bytes_out = plane_bytes(layer, tile.rows, tile.columns)
    planes_in, planes_out = plane_counts(layer, tile.channels, tile.in_channels)
    weights = weight_bytes(layer, tile.channels, tile.in_channels)
    return Footprint(planes_in * bytes_in, planes_out * bytes_out, weights)


def plane_bytes(layer: Layer, rows: int, columns: int) -> tuple[int, int]:
    """Return the bytes of one channel of the largest input tile and of the largest result."""
    if layer.kind is LayerKind.DENSE:
        return 1, 1
    row_spans = row_axis(layer).make_spans(rows)
    column_spans = column_axis(layer).make_spans(columns)
    bytes_in = max(s.read for s in row_spans) * max(s.pitch for s in column_spans)
    bytes_out = max(s.size for s in row_spans) * max(align(s.size) for s in column_spans)
    return bytes_in, bytes_out


def plane_counts(layer: Layer, channels: int, in_channels: int) -> tuple[int, int]:
    """Return how many channels of input and of results there are in L1 at a time.

    Results of sums over channels come in blocks of 16, and take 32 bits each where the sums of
    several input tiles are added there.
    """
    if not is_channel_sum(layer):
        return (2 if layer.kind is LayerKind.ADD else 1) * channels, channels
    inputs = align(in_channels) if layer.kind is LayerKind.DENSE else in_channels
    bytes_of_sum = 1 if in_channels == layer.in_channels else 4
    return inputs, align(channels) * bytes_of_sum
