"""Packs depthwise weights for 32-bit RISC-V. The C copies one channel at a time, with borders."""

from __future__ import annotations

from collections.abc import Mapping

from firmwright.devices.cpu.forms.form import Packing, Scratch, Tile
from firmwright.devices.cpu.forms.layer_numbers import scale_arrays
from firmwright.devices.cpu.forms.plane import Axis, crop_kernel, describe_plane, order_axes
from firmwright.ir.layer import Array, Layer

LONGEST_COPY = 8
"""The maximum number of elements that one step of the channel copy moves."""

TILES = (Tile(5, 1), Tile(12, 1))
"""The maximum results per iteration of the loop along a row. More results need more flash."""


def fit_tile(layer: Layer, tile: Tile) -> Tile:
    """Return a tile whose number of pixels divides the length of a row."""
    length = Axis(layer, order_axes(layer)[1]).out_size
    return Tile(max(n for n in range(1, tile.pixels + 1) if length % n == 0), 1)


def pack_depthwise(layer: Layer, tile: Tile) -> Packing:
    """Pack weights as (channel, row, column). Each row extends along the longer axis.

    The C updates sums while it moves along a row. A row begins with products of its first columns,
    because no sum continues from the previous row. The last products of the row are for results
    that do not exist.
    """
    layer = crop_kernel(layer)
    return pack_channels(layer, tile, scale_arrays(layer))


def pack_channels(layer: Layer, tile: Tile, scales: Mapping[str, Array]) -> Packing:
    """Pack a layer in the layout of ``pack_depthwise``, with the arrays ``scales`` by channel."""
    axes = order_axes(layer)
    rows, length = (Axis(layer, axis) for axis in axes)
    weights = layer.weights[..., 0].transpose(0, *(1 + axis for axis in axes))
    plane = rows.padded_size * length.padded_size
    return Packing(
        {"weights": weights.astype("int8").reshape(-1), **scales},
        {
            **describe_plane(layer, rows, length, plane),
            "tap_row": rows.dilation * length.padded_size,
            "tap_step": length.dilation,
            "zero": layer.input_zero_point,
            "halves": 1 + 2 * (layer.zero_point - layer.low),
        },
        {
            "kernel_rows": rows.kernel,
            "kernel_length": length.kernel,
            "stride": length.stride,
            "rolling": length.dilation == 1 and length.kernel > length.stride,
            "unrolled": tile.pixels,
            "copied": max(n for n in range(1, LONGEST_COPY + 1) if length.size % n == 0),
        },
        (Scratch("channel", layer.input_dtype, plane),),
    )
