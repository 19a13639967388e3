"""Weights of depthwise convolutions for 32-bit RISC-V: a channel at a time, between its borders."""

from __future__ import annotations

from firmwright.ir.layer import Layer
from firmwright.targets.cpu.forms.form import Packing, Scratch
from firmwright.targets.cpu.forms.layer_numbers import scale_arrays

LONGEST_COPY = 8
"""Elements that a channel's copy moves in one step."""

LONGEST_STEP = 5
"""Results that a round of the loop along a row stores."""


def pack_depthwise(layer: Layer) -> Packing:
    """Pack (channel, row, column); rows lie along the longer axis, where sums roll.

    A row begins with products that no sum gets back from the row before, and ends with some for
    results that are not there.
    """
    axes = (0, 1) if layer.out_width >= layer.out_height else (1, 0)
    rows, length = (Axis(layer, axis) for axis in axes)
    weights = layer.weights[..., 0].transpose(0, *(1 + axis for axis in axes))
    plane = rows.padded_size * length.padded_size
    return Packing(
        {"weights": weights.astype("int8").reshape(-1), **scale_arrays(layer)},
        {
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


class Axis:
    """Height (0) or width (1) of a layer."""

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
        """Elements with those of the padding that are read."""
