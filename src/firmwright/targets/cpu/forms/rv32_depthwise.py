"""Weights of depthwise convolutions for 32-bit RISC-V: a channel at a time, between its borders."""

from __future__ import annotations

from collections.abc import Mapping

from firmwright.ir.layer import Array, Layer
from firmwright.targets.cpu.forms.form import Packing, Scratch
from firmwright.targets.cpu.forms.layer_numbers import scale_arrays
from firmwright.targets.cpu.forms.plane import Axis, describe_plane, order_axes

LONGEST_COPY = 8
"""Elements that a channel's copy moves in one step."""

LONGEST_STEP = 5
"""Results that a round of the loop along a row stores."""


def pack_depthwise(layer: Layer) -> Packing:
    """Pack (channel, row, column); rows lie along the longer axis, where sums roll.

    A row begins with products that no sum gets back from the row before, and ends with some for
    results that are not there.
    """
    return pack_channels(layer, scale_arrays(layer))


def pack_channels(layer: Layer, scales: Mapping[str, Array]) -> Packing:
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
            "unrolled": max(n for n in range(1, LONGEST_STEP + 1) if length.out_size % n == 0),
            "copied": max(n for n in range(1, LONGEST_COPY + 1) if length.size % n == 0),
        },
        (Scratch("channel", layer.input_dtype, plane),),
    )
