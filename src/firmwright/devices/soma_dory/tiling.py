"""Finds the tiles of a layer that need the fewest estimated cycles.

The cost model (``cost.py``) compares up to several thousand possible tiles. The model estimates
equal jobs of a tile once, because a large layer can have a hundred thousand jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from firmwright.devices.soma_dory import tiles
from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.cost import Accelerator, estimate_cycles
from firmwright.devices.soma_dory.device_layout import PIECE
from firmwright.errors import UserError
from firmwright.ir.kernels import Cycles
from firmwright.ir.layer import LayerKind


@dataclass(frozen=True)
class Tiling:
    """The tiles of a layer, their cycles, and the layer in the form for tiling.

    In this form, an addition is one row of bytes.
    """

    layer: AcceleratorLayer
    tile: tiles.Tile
    cycles: Cycles

    @property
    def jobs(self) -> int:
        return sum(times for _, times in tiles.count_jobs(self.layer, self.tile))


def find_best_tiling(layer: AcceleratorLayer, accelerator: Accelerator) -> Tiling:
    """Return the tiling with the fewest estimated cycles, the first one of equally fast tilings.

    Raises UserError if no tile fits.
    """
    reason = explain_no_tiling(layer, accelerator)
    if reason is not None:
        raise UserError(f"no tiling: {reason}")
    stored = tiles.flatten_addition(layer)

    def estimate(tile: tiles.Tile) -> Cycles:
        return estimate_cycles(stored, tile, accelerator)

    tile = min(list_tiles(stored, accelerator), key=lambda tile: estimate(tile).total)
    return Tiling(stored, tile, estimate(tile))


def explain_no_tiling(layer: AcceleratorLayer, accelerator: Accelerator) -> str | None:
    """Return the memory that the layer's smallest tiles exceed, or None if they fit."""
    stored = tiles.flatten_addition(layer)
    channels = min(tiles.channels_per_block(stored), stored.out_channels)
    columns = min(PIECE, stored.out_width) if layer.kind is LayerKind.ADD else stored.out_width
    rows = tiles.row_tile_sizes(stored)[-1]
    needed = tiles.footprint(stored, tiles.Tile(channels, rows, columns))
    if needed.weights > weight_room(stored, accelerator):
        memory, count, size = "the weight memory", needed.weights, accelerator.weights
    elif needed.l1 > l1_bytes(accelerator):
        memory, count, size = "L1", needed.l1, l1_bytes(accelerator)
    else:
        return None
    inputs = f" of {stored.channels} input channels" if tiles.is_channel_sum(stored) else ""
    return (
        f"its smallest tile ({channels} x {rows} x {columns} results{inputs}) needs {count:,} B "
        f"of {memory}, which has {size:,} B"
    )


def l1_bytes(accelerator: Accelerator) -> int:
    """Return the bytes of L1 that one job may use."""
    return accelerator.l1 // (2 if accelerator.double_buffering else 1)


def weight_room(layer: AcceleratorLayer, accelerator: Accelerator) -> int:
    """Return the bytes of weights and biases that a job may fetch.

    The array of the analog core has one output per column.
    """
    if layer.kind is LayerKind.ANALOG_CONV2D:
        return tiles.weight_bytes(layer, accelerator.analog_columns)
    return accelerator.weights


def list_tiles(layer: AcceleratorLayer, accelerator: Accelerator) -> Iterator[tiles.Tile]:
    """Yield the tiles of a layer for tiling that fit, largest first."""
    columns = [layer.out_width]
    if layer.kind is LayerKind.ADD:
        columns = even_sizes(layer.out_width, PIECE)
    outputs = even_sizes(layer.out_channels, tiles.channels_per_block(layer))
    for height, width, count in product(tiles.row_tile_sizes(layer), columns, outputs):
        tile = tiles.Tile(count, height, width)
        needed = tiles.footprint(layer, tile)
        fits = needed.weights <= weight_room(layer, accelerator)
        if fits and needed.l1 <= l1_bytes(accelerator):
            yield tile


def even_sizes(length: int, multiple: int) -> list[int]:
    """Return the smallest tile size for each number of tiles, largest first.

    A size is a multiple of ``multiple``, or the whole ``length``. The cycles depend only on the
    number of tiles, and the smallest tiles use the least memory.
    """
    counts = range(2, -(-length // multiple) + 1)
    smallest = {-(-length // (count * multiple)) * multiple for count in counts}
    return [length, *sorted((s for s in smallest if s < length), reverse=True)]
