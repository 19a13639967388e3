"""Packs depthwise layers. The C copies one channel of the input, with its borders, to a plane."""

from __future__ import annotations

from dataclasses import replace

from firmwright.devices.cpu.forms.form import Packing, Scratch, Tile
from firmwright.devices.cpu.forms.layer_numbers import scale_arrays
from firmwright.ir.layer import Layer


class Axis:
    """The axis of a layer: height (0) or width (1)."""

    def __init__(self, layer: Layer, axis: int) -> None:
        self.size = (layer.height, layer.width)[axis]
        self.out_size = (layer.out_height, layer.out_width)[axis]
        self.step = (layer.width * layer.channels, layer.channels)[axis]
        self.out_step = (layer.out_width * layer.channels, layer.channels)[axis]
        self.before = layer.padding[axis]
        self.kernel = layer.kernel[axis]
        self.stride = layer.strides[axis]
        self.dilation = layer.dilation[axis]
        reach = (self.out_size - 1) * self.stride + (self.kernel - 1) * self.dilation + 1
        self.padded_size = max(reach, self.before + self.size)
        """The number of elements, including the padding that the kernel reads."""


def crop_kernel(layer: Layer) -> Layer:
    """Return the layer without the rows and columns of taps that read only padding."""
    seen = [list_seen_taps(layer, axis) for axis in (0, 1)]
    if [len(taps) for taps in seen] == [*layer.kernel]:
        return layer
    top, left, bottom, right = layer.padding
    return replace(
        layer,
        kernel=(len(seen[0]), len(seen[1])),
        weights=layer.weights[:, seen[0].start : seen[0].stop, seen[1].start : seen[1].stop],
        padding=(
            top - seen[0].start,
            left - seen[1].start,
            bottom - layer.kernel[0] + seen[0].stop,
            right - layer.kernel[1] + seen[1].stop,
        ),
    )


def list_seen_taps(layer: Layer, axis: int) -> range:
    """Return the taps along an axis that read the input, or all taps if the axis is dilated."""
    size, out_size = (layer.height, layer.width)[axis], (layer.out_height, layer.out_width)[axis]
    before, taps = layer.padding[axis], layer.kernel[axis]
    if layer.dilation[axis] > 1:
        return range(taps)
    last = (out_size - 1) * layer.strides[axis]
    return range(max(before - last, 0), min(before + size, taps)) or range(taps)


def order_axes(layer: Layer) -> tuple[int, int]:
    """Return the axes across and along the rows of a channel's copy.

    Rows extend along the longer axis.
    """
    return (0, 1) if layer.out_width >= layer.out_height else (1, 0)


def describe_plane(layer: Layer, rows: Axis, length: Axis, plane: int) -> dict[str, int]:
    return {
        "channels": layer.channels,
        "rows": rows.size,
        "row_step": rows.step,
        "length": length.size,
        "step": length.step,
        "out_rows": rows.out_size,
        "out_row_step": rows.out_step,
        "out_length": length.out_size,
        "out_step": length.out_step,
        "plane": plane,
        "plane_row": length.padded_size,
        "begin": rows.before * length.padded_size + length.before,
        "down": rows.stride * length.padded_size,
    }


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
    axes = order_axes(layer)
    rows, length = (Axis(layer, axis) for axis in axes)
    weights = layer.weights[..., 0].transpose(0, *(1 + axis for axis in axes))
    plane = rows.padded_size * length.padded_size
    return Packing(
        {"weights": weights.astype("int8").reshape(-1), **scale_arrays(layer)},
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
