"""Splits a convolution for the C7x into strips of rows and blocks of channels.

A strip contains some rows of the output, and the input rows that they read. The input rows have a
border at each end. While the core computes a strip, the DMA loads the next input and stores the
previous output. Before the first strip, the DMA loads the weights of as many blocks of 16 channels
as possible. If local memory cannot hold all blocks, the DMA moves the input again for each part of
the channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, gcd

from firmwright.ir.layer import Layer, LayerKind

CHANNELS = 16
"""The number of output channels whose sums fill a vector of 512 bits."""

GROUP_BYTES = 64
"""The bytes of the weights of 16 channels with four taps each."""

STRIP_BYTES = 16 * 1024
"""The limit of a strip's input and of its output, in bytes. A single row may exceed the limit."""

LONGEST_ROW = 256
"""The maximum width, in pixels, of a layer whose output pixels each read one input pixel.

The rows of such a layer may have other lengths than the rows of the tensor.
"""

TILES = (4, 3, 2, 1)
"""The candidates for the number of pixels per tile, whose sums are in registers."""

TILE_CYCLES = 16
"""The assumed cycles per tile for the end of its loop and for the biases of the sums."""

STORE_CYCLES = 10
"""The assumed cycles per vector of sums, for about twenty instructions at two per cycle."""

OPEN_CYCLES = 60
"""The assumed cycles per block of channels in a strip, to open two streaming engines."""

START_CYCLES = 200
"""The assumed cycles per strip, to wait for one transfer and start two."""

LARGEST_ROW = 2**16 - 1
"""The maximum bytes of a row that the DMA moves."""

PIECE_BYTES = 2**15
"""The maximum bytes per row of a transfer of weights, a power of two."""


@dataclass(frozen=True)
class Geometry:
    """The heights and widths of a layer's input and output, after a change of row lengths."""

    height: int
    width: int
    out_height: int
    out_width: int


@dataclass(frozen=True, eq=False)
class Strips:
    """A layer that is split into strips, for a core with ``local_memory`` bytes.

    ``vector`` is the size of the core's registers in bytes.
    """

    layer: Layer
    vector: int
    local_memory: int

    @property
    def each(self) -> bool:
        """Return whether an output channel reads only one input channel."""
        return self.layer.kind is LayerKind.DEPTHWISE_CONV2D

    @cached_property
    def geometry(self) -> Geometry:
        layer = self.layer
        if not layer.is_pointwise:
            return Geometry(layer.height, layer.width, layer.out_height, layer.out_width)
        widths = [n for n in range(1, LONGEST_ROW + 1) if layer.pixels % n == 0]
        width = min(widths, key=lambda n: (layer.pixels // n * ceil(n / TILES[0]), -n))
        return Geometry(layer.pixels // width, width, layer.pixels // width, width)

    @cached_property
    def kernel_columns(self) -> int:
        """Return the elements in a row of the kernel: words of four bytes, or pixels."""
        columns = self.layer.kernel[1]
        return columns if self.each else ceil(columns * self.layer.channels / 4)

    @property
    def loads(self) -> int:
        return self.layer.kernel[0] * self.kernel_columns

    @property
    def block_bytes(self) -> int:
        return self.loads * (CHANNELS if self.each else GROUP_BYTES)

    @property
    def piece(self) -> int:
        """Return the bytes of a row in a transfer of weights."""
        return gcd(self.block_bytes, PIECE_BYTES)

    @property
    def blocks(self) -> int:
        return ceil(self.layer.out_channels / CHANNELS)

    @property
    def vectors(self) -> int:
        """Return the number of registers for the sums of one block and one pixel."""
        return CHANNELS * 4 // self.vector

    @cached_property
    def tile(self) -> int:
        return min(TILES, key=lambda n: ceil(self.geometry.out_width / n) * self.tile_cycles(n))

    @property
    def tiles(self) -> int:
        """Return the number of tiles in a row of the output. The last tile may exceed the row."""
        return ceil(self.geometry.out_width / self.tile)

    def tile_cycles(self, tile: int) -> int:
        return tile * self.vectors * (self.loads + STORE_CYCLES) + TILE_CYCLES

    @property
    def pixel_step(self) -> int:
        return self.layer.strides[1] * self.layer.channels

    @property
    def row_bytes(self) -> int:
        """Return the bytes of a row of a strip's input, with both borders."""
        reach = (self.layer.kernel[1] - 1) * self.layer.dilation[1]
        columns = (self.geometry.out_width - 1) * self.layer.strides[1] + reach + 1
        return columns * self.layer.channels

    @property
    def before(self) -> int:
        """Return the border bytes before a row."""
        return min(self.layer.padding[1] * self.layer.channels, self.row_bytes)

    @property
    def inside(self) -> int:
        return min(self.geometry.width * self.layer.channels, self.row_bytes - self.before)

    def input_rows(self, rows: int) -> int:
        reach = (self.layer.kernel[0] - 1) * self.layer.dilation[0]
        return (rows - 1) * self.layer.strides[0] + reach + 1

    def input_bytes(self, rows: int) -> int:
        """Return the bytes of a strip's input, and of the last tile's reads after this input."""
        read = self.kernel_columns * 4
        if self.each:
            reach = (self.layer.kernel[1] - 1) * self.layer.dilation[1]
            read = reach * self.layer.channels + self.blocks * CHANNELS
        last = (self.input_rows(rows) - 1) * self.row_bytes
        last += (self.tiles * self.tile - 1) * self.pixel_step + read
        return align(max(last, self.input_rows(rows) * self.row_bytes))

    def output_bytes(self, rows: int) -> int:
        """Return the bytes of a strip's output, and of the last tile's writes after this output."""
        pixels = rows * self.geometry.out_width + self.tile
        return align(pixels * self.layer.out_channels + CHANNELS)

    @cached_property
    def rows(self) -> int:
        """Return the rows of a strip's output. The last strip may overlap the previous strip."""
        height = self.geometry.out_height
        fitting = [
            n
            for n in range(1, height + 1)
            if max(self.input_bytes(n), self.output_bytes(n)) <= STRIP_BYTES
        ]
        return ceil(height / ceil(height / max(fitting, default=1)))

    @property
    def strips(self) -> int:
        return ceil(self.geometry.out_height / self.rows)

    @property
    def weights_at(self) -> int:
        """Return the byte offset of the weights in local memory, after two input and two output
        strips."""
        return 2 * (self.input_bytes(self.rows) + self.output_bytes(self.rows))

    @cached_property
    def chunk(self) -> int:
        """Return the number of channel blocks whose weights fit into local memory, possibly 0."""
        return min(max(self.local_memory - self.weights_at, 0) // self.block_bytes, self.blocks)

    @property
    def fits(self) -> bool:
        return self.chunk > 0 and self.inside <= LARGEST_ROW

    @property
    def compute_cycles(self) -> int:
        rows = self.strips * self.rows * self.tiles * self.tile_cycles(self.tile)
        strips = self.blocks * (rows + self.strips * OPEN_CYCLES)
        return self.layer.batch * (strips + self.strips * START_CYCLES)

    @property
    def moved_bytes(self) -> int:
        """Return the bytes that the DMA moves. A row that two strips read counts twice."""
        rows = self.strips * self.input_rows(self.rows)
        inputs = ceil(self.blocks / self.chunk) * rows * self.inside
        outputs = self.strips * self.rows * self.geometry.out_width * self.layer.out_channels
        return self.layer.batch * (inputs + outputs + self.blocks * self.block_bytes)


def align(size: int) -> int:
    """Return a size rounded up to whole vectors of 64 bytes."""
    return -(-size // 64) * 64
