"""Finds the tiles of a layer that need the fewest estimated cycles.

The cost model (``cost.py``) compares several hundred possible tiles. The model has two kinds of
terms. Some terms depend only on the tile of rows and columns. The other terms depend only on the
tile of channels. Therefore a few products are the cycles of a pair of tiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from firmwright.devices.soma_dory import tiles
from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.cost import (
    Accelerator,
    SampleCycles,
    count_total,
    estimate_cycles,
    estimate_sample,
)
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
        return sum(1 for _ in tiles.walk_jobs(self.layer, self.tile))


@dataclass(frozen=True)
class PlaneTile:
    """A tile of rows and columns, with its costs for one sample.

    The costs are grouped by their dependence on the number of channels.

    ``load`` and ``store`` are the cycles of all channels, if each piece is in one channel.
    ``load_calls`` and ``store_calls`` count the tiles whose channels form one piece together. Each
    of these pieces costs ``transfer_overhead`` per tile of channels. ``bytes_in`` and ``bytes_out``
    are the bytes of one channel.
    """

    rows: int
    columns: int
    jobs: int
    load: int
    load_calls: int
    store: int
    store_calls: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True)
class ChannelTile:
    """A tile of channels, with its costs for whole rows and columns.

    The input is loaded ``fetches`` times, in ``loads`` transfers. ``jobs`` is the number of jobs,
    which fetch weights in ``weights`` cycles. ``planes_in`` and ``planes_out`` are the numbers of
    channels in L1.
    """

    channels: int
    in_channels: int
    compute: int
    weights: int
    fetches: int
    loads: int
    stores: int
    jobs: int
    planes_in: int
    planes_out: int


def find_best_tiling(layer: AcceleratorLayer, accelerator: Accelerator) -> Tiling:
    """Return the tiling with the fewest estimated cycles. Raises UserError if no tile fits."""
    reason = explain_no_tiling(layer, accelerator)
    if reason is not None:
        raise UserError(f"no tiling: {reason}")
    stored = tiles.flatten_addition(layer)
    channels = channel_options(stored, accelerator)
    planes = plane_options(stored, accelerator, channels)
    plane, channel = choose(stored, accelerator, planes, channels)
    tile = tiles.Tile(channel.channels, plane.rows, plane.columns, channel.in_channels)
    return Tiling(stored, tile, estimate_cycles(stored, tile, accelerator))


def explain_no_tiling(layer: AcceleratorLayer, accelerator: Accelerator) -> str | None:
    """Return the memory that the layer's smallest tiles exceed, or None if they fit."""
    stored = tiles.flatten_addition(layer)
    depths = {stored.channels}
    if tiles_inputs(stored, accelerator):
        depths.add(min(tiles.LANES, stored.channels))
    channels = min(tiles.channels_per_block(stored), stored.out_channels)
    columns = min(PIECE, stored.out_width) if layer.kind is LayerKind.ADD else stored.out_width
    rows = tiles.row_tile_sizes(stored)[-1]
    for depth in sorted(depths, reverse=True):
        needed = tiles.footprint(stored, tiles.Tile(channels, rows, columns, depth))
        if needed.weights > weight_room(stored, accelerator):
            memory, found, size = "the weight memory", needed.weights, accelerator.weights
        elif needed.l1 > l1_bytes(accelerator):
            memory, found, size = "L1", needed.l1, l1_bytes(accelerator)
        else:
            return None
    inputs = f" of {depth} input channels" if tiles.is_channel_sum(stored) else ""
    return (
        f"its smallest tile ({channels} x {rows} x {columns} results{inputs}) needs {found:,} B "
        f"of {memory}, which has {size:,} B"
    )


def l1_bytes(accelerator: Accelerator) -> int:
    """Return the bytes of L1 that one job may use."""
    return accelerator.l1 // (2 if accelerator.double_buffering else 1)


def tiles_inputs(layer: AcceleratorLayer, accelerator: Accelerator) -> bool:
    """Return whether a later job may continue sums. The analog core converts sums immediately."""
    return accelerator.input_channel_tiling and layer.kind in (LayerKind.CONV2D, LayerKind.DENSE)


def weight_room(layer: AcceleratorLayer, accelerator: Accelerator) -> int:
    """Return the bytes of weights and biases that a job may fetch.

    The array of the analog core has one output per column.
    """
    if layer.kind is LayerKind.ANALOG_CONV2D:
        return tiles.weight_bytes(layer, accelerator.analog_columns, layer.channels)
    return accelerator.weights


def plane_options(
    layer: AcceleratorLayer, accelerator: Accelerator, channels: Sequence[ChannelTile]
) -> list[PlaneTile]:
    """Return the tiles of rows and columns that fit with some tile of channels, largest first."""
    rows, columns = tiles.row_tile_sizes(layer), [layer.out_width]
    if layer.kind is LayerKind.ADD:
        columns = even_sizes(layer.out_width, PIECE)
    needs = {(c.planes_in, c.planes_out) for c in channels}
    options = []
    for height, width in product(rows, columns):
        bytes_in, bytes_out = tiles.plane_bytes(layer, height, width)
        if min(i * bytes_in + o * bytes_out for i, o in needs) <= l1_bytes(accelerator):
            options.append(plane_option(layer, accelerator, height, width))
    return options


def plane_option(
    layer: AcceleratorLayer, accelerator: Accelerator, rows: int, columns: int
) -> PlaneTile:
    row_spans = tiles.row_axis(layer).make_spans(rows)
    spans = list(product(row_spans, tiles.tile_sizes(layer.out_width, columns)))
    copies_in = Counter(tiles.input_transfer(layer, r, c, layer.channels) for r, c in spans)
    copies_out = Counter(tiles.output_transfer(layer, r, c, layer.out_channels) for r, c in spans)
    inputs = tiles.count_inputs(layer)
    load, load_calls = split_transfers(copies_in, accelerator)
    store, store_calls = split_transfers(copies_out, accelerator)
    return PlaneTile(rows, columns, len(spans), inputs * load, inputs * load_calls, store,
                 store_calls, *tiles.plane_bytes(layer, rows, columns))  # fmt: skip


def split_transfers(
    copies: Mapping[tiles.TileTransfer, int], accelerator: Accelerator
) -> tuple[int, int]:
    """Return the cycles of these transfers of all channels, and the number of one-piece transfers.

    The cycles exclude the overhead of one-piece transfers, because this overhead occurs for each
    tile of channels.
    """
    cycles_apart = single = 0
    for copy, times in copies.items():
        count, piece = copy.pieces()
        cycles_apart += times * count * (piece // accelerator.bytes_per_cycle)
        if count == 1:
            single += times
        else:
            cycles_apart += times * count * accelerator.transfer_overhead
    return cycles_apart, single


def channel_options(layer: AcceleratorLayer, accelerator: Accelerator) -> list[ChannelTile]:
    """Return the tiles of channels whose weights fit, largest first."""
    outputs = even_sizes(layer.out_channels, tiles.channels_per_block(layer))
    inputs = [layer.channels]
    if tiles_inputs(layer, accelerator):
        inputs = even_sizes(layer.channels, tiles.LANES)
    return [
        channel_option(layer, accelerator, count, depth)
        for count, depth in product(outputs, inputs)
        if tiles.weight_bytes(layer, count, depth) <= weight_room(layer, accelerator)
    ]


def channel_option(
    layer: AcceleratorLayer, accelerator: Accelerator, count: int, depth: int
) -> ChannelTile:
    tile = tiles.Tile(count, layer.out_height, layer.out_width, depth)
    parts = estimate_sample(layer, tile, accelerator)
    steps = -(-layer.out_channels // count)
    tiled_input = depth < layer.channels
    loads = parts.jobs if tiled_input or not tiles.is_channel_sum(layer) else 1
    planes_in, planes_out = tiles.plane_counts(layer, count, depth)
    return ChannelTile(count, depth, parts.compute, parts.weights, steps if tiled_input else 1,
                    loads, steps, parts.jobs, planes_in, planes_out)  # fmt: skip


def even_sizes(length: int, multiple: int) -> list[int]:
    """Return the smallest tile size for each number of tiles, largest first.

    A size is a multiple of ``multiple``, or the whole ``length``. The cycles depend only on the
    number of tiles, and the smallest tiles use the least memory.
    """
    counts = range(2, -(-length // multiple) + 1)
    smallest = {-(-length // (count * multiple)) * multiple for count in counts}
    return [length, *sorted((s for s in smallest if s < length), reverse=True)]


def choose(
    layer: AcceleratorLayer,
    accelerator: Accelerator,
    planes: list[PlaneTile],
    channels: list[ChannelTile],
) -> tuple[PlaneTile, ChannelTile]:
    """Return the pair of tiles with the fewest cycles, the first one of equally fast pairs."""
    fitting = (
        (plane, channel)
        for plane, channel in product(planes, channels)
        if count_l1(layer, plane, channel) <= l1_bytes(accelerator)
    )
    return min(fitting, key=lambda pair: count_cycles(layer, accelerator, *pair))


def count_l1(layer: AcceleratorLayer, plane: PlaneTile, channel: ChannelTile) -> int:
    read = tiles.align(plane.bytes_in * channel.planes_in, PIECE)
    return tiles.count_inputs(layer) * read + tiles.align(
        plane.bytes_out * channel.planes_out, PIECE
    )


def count_cycles(
    layer: AcceleratorLayer, accelerator: Accelerator, plane: PlaneTile, channel: ChannelTile
) -> int:
    """Return the cycles of a sample, which equal the sum over jobs in
    :func:`cost.estimate_cycles`."""
    jobs = plane.jobs * channel.jobs
    compute = channel.compute
    if layer.kind is LayerKind.ADD:
        compute += accelerator.block_overhead * (plane.jobs - 1)
    calls = plane.load_calls * channel.loads + plane.store_calls * channel.stores
    moves = plane.load * channel.fetches + plane.store + accelerator.transfer_overhead * calls
    parts = SampleCycles(compute, plane.jobs * channel.weights, moves, jobs)
    return count_total(parts, accelerator)
