"""Weights of depthwise convolutions for 32-bit RISC-V: a channel at a time, between its borders."""

from __future__ import annotations

from collections.abc import Mapping

from firmwright.devices.cpu.forms.form import Packing, Scratch, Tile
from firmwright.devices.cpu.forms.layer_numbers import scale_arrays
from firmwright.devices.cpu.forms.plane import Axis, describe_plane, order_axes
from firmwright.ir.layer import Array, Layer

LONGEST_COPY = 8
"""Elements that a channel's copy moves in one step."""

TILES = (Tile(5, 1), Tile(12, 1))
"""Results that a round of the loop along a row stores, at most: more take more flash."""


def fit_tile(layer: Layer, tile: Tile) -> Tile:
    """Return a tile of which a row has a whole number."""
    length = Axis(layer, order_axes(layer)[1]).out_size
    return Tile(max(n for n in range(1, tile.pixels + 1) if length % n == 0), 1)


def pack_depthwise(layer: Layer, tile: Tile) -> Packing:
    """Pack (channel, row, column); rows lie along the longer axis, where sums roll.

    A row begins with products that no sum gets back from the row before, and ends with some for
    results that are not there.
    """
    return pack_channels(layer, tile, scale_arrays(layer))


def pack_channels(layer: Layer, tile: Tile, scales: Mapping[str, Array]) -> Packing:
    """Pack the same with such arrays by channel."""
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
