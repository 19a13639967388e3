"""Defines forms for 64-bit Arm cores with dot products and with products of matrices (i8mm).

Weights are in blocks of output channels. A block has four successive taps of each channel, or eight
for SMMLA. Most convolutions copy rows of the input, with borders, to a ring buffer. If a layer has
no padding and reads whole steps of signed bytes, the C reads the rows in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from firmwright.devices.cpu.forms.form import Condition, Form, Packing, Scratch
from firmwright.devices.cpu.forms.layer_numbers import (
    arrange_scales,
    choose_lanes,
    compute_shifted_zero_point,
    compute_signed_bias,
    describe_depthwise,
    describe_record,
    fill_lanes,
    pad_channels,
)
from firmwright.devices.cpu.forms.requantize import INTEGERS, ROUNDED
from firmwright.ir.layer import Array, Layer, LayerRounding

STEP = 16
"""The bytes of a vector. A load may read as many bytes after the last pixel of a row."""

MOST_PIXELS = 5
"""The maximum pixels per step.

With 16 channels, the sums of five pixels need 20 of 32 registers.
"""

PLANE = 16 * 1024
"""The maximum input bytes that fit the first cache together with weights.

A smaller input becomes one row.
"""


def pack_convolution(layer: Layer) -> Packing:
    """Pack weights for SDOT, with four successive taps per channel."""
    return pack_units(layer, 4)


def pack_matrices(layer: Layer) -> Packing:
    """Pack weights for SMMLA, with eight successive taps per channel."""
    return pack_units(layer, 8)


@dataclass(frozen=True)
class Runs:
    """The contiguous runs of a layer's input, with ``spans`` runs per row of the kernel.

    A run has ``bytes`` bytes. ``unit`` is the number of successive taps per channel. ``words`` is
    the number of taps of a run in whole units.
    """

    layer: Layer
    unit: int

    @cached_property
    def spans(self) -> int:
        return self.layer.kernel[1] if self.layer.dilation[1] > 1 else 1

    @cached_property
    def bytes(self) -> int:
        return self.layer.kernel[1] // self.spans * self.layer.channels

    @cached_property
    def words(self) -> int:
        return -(-self.bytes // self.unit) * self.unit

    @cached_property
    def in_place(self) -> bool:
        layer = self.layer
        return layer.input_dtype == "int8" and not any(layer.padding) and self.words == self.bytes

    def pack(self, indices: Array) -> Array:
        """Return the weights of the channels ``indices``, (blocks, lanes).

        The result is flat int8 (blocks, runs, units, lanes, taps of a unit).
        """
        height = self.layer.kernel[0]
        count = max(self.layer.out_channels, indices.shape[1])
        runs = pad_channels(self.layer.matrix, count).reshape(count, height * self.spans, -1)
        padded = np.pad(runs, ((0, 0), (0, 0), (0, self.words - self.bytes)))
        units = padded.reshape(count, height * self.spans, -1, self.unit)[indices]
        packed: Array = units.transpose(0, 2, 3, 1, 4).reshape(-1).astype("int8")
        return packed


def pack_units(layer: Layer, unit: int) -> Packing:
    """Pack weights as (channel block, run, unit, channel, tap).

    The last block overlaps the previous one.
    """
    runs = Runs(layer, unit)
    lanes = choose_lanes(layer.out_channels)
    indices = fill_lanes(layer.out_channels, lanes)
    flat = layer.is_pointwise and runs.in_place and layer.input_elements <= PLANE
    width = layer.pixels if flat else layer.out_width
    geometry = describe_record(layer)
    if flat:
        geometry |= {"height": 1, "width": width, "out_width": width}
    record, scratch = describe_rows(layer)

    def count_products(pixels: int) -> int:
        return pixels * (lanes + 1) + lanes // 4 + 2

    return Packing(
        {
            "weights": runs.pack(indices),
            **arrange_scales(layer, compute_signed_bias(layer), indices),
        },
        {
            **geometry,
            **record,
            "out_height": layer.pixels // width,
            "spans": runs.spans,
            "words": runs.words,
        },
        {
            "float_scaled": layer.scaling.rounding is LayerRounding.FLOAT,
            "kernel_height": layer.kernel[0],
            "direct": runs.in_place,
            "pixels": choose_pixels(width, count_products, unit // 4),
            "lanes": lanes,
            "whole": layer.out_channels >= lanes,
            "unit": unit,
            "tail": runs.words % STEP // unit,
        },
        () if runs.in_place else (scratch,),
    )


def pack_depthwise(layer: Layer) -> Packing:
    """Pack weights as (channel block, column, channel, row). A lane has one column of a channel."""
    lanes = choose_lanes(layer.channels)
    indices = fill_lanes(layer.channels, lanes)
    height, width = layer.kernel
    taps = pad_channels(layer.weights[..., 0], max(layer.channels, lanes))[indices]
    columns = np.pad(taps.transpose(0, 3, 1, 2), ((0, 0), (0, 0), (0, 0), (0, 4 - height)))
    direct = layer.channels >= lanes and layer.input_dtype == "int8" and not any(layer.padding)
    record, scratch = describe_rows(layer)
    reach = (width - 1) * layer.dilation[1]

    def count_columns(pixels: int) -> int:
        return 11 * ((pixels - 1) * layer.strides[1] + reach + 1) + (4 * width + 25) * pixels

    return Packing(
        {
            "weights": columns.reshape(-1).astype("int8"),
            **arrange_scales(layer, compute_signed_bias(layer), indices),
        },
        {**describe_record(layer), **record, "out_height": layer.out_height},
        {
            **describe_depthwise(layer, lanes),
            "stride_x": layer.strides[1],
            "dilation_x": layer.dilation[1],
            "direct": direct,
            "pixels": choose_pixels(layer.out_width, count_columns),
        },
        () if direct else (scratch,),
    )


def choose_pixels(width: int, count: Callable[[int], int], multiple: int = 1) -> int:
    """Return the pixels per block for which a row of ``width`` needs the fewest instructions.

    ``count`` returns the instructions of a block of a given number of pixels.
    """
    choices = range(multiple, min(MOST_PIXELS, width) + 1, multiple)
    return min(choices, key=lambda pixels: (-(-width // pixels) * count(pixels), -pixels))


def describe_rows(layer: Layer) -> tuple[dict[str, int], Scratch]:
    """Return the ring buffer's size in bytes and in rows, and the buffer's memory."""
    reach = [(k - 1) * d for k, d in zip(layer.kernel, layer.dilation, strict=True)]
    columns = (layer.out_width - 1) * layer.strides[1] + reach[1] + 1
    before = min(layer.padding[1], columns)
    inside = min(layer.width, columns - before)
    row = columns * layer.channels + STEP
    record = {
        "row": row,
        "ring": reach[0] + 1,
        "before": before * layer.channels,
        "inside": inside * layer.channels,
        "border": compute_shifted_zero_point(layer),
    }
    return record, Scratch("ring", "int8", row * (reach[0] + 1))


TWO_PIXELS = Condition("two output pixels in a row", lambda layer: layer.out_width >= 2)

FORMS = (
    Form(
        name="mmla_conv2d",
        conditions=(
            INTEGERS,
            ROUNDED,
            TWO_PIXELS,
        ),
        pack=pack_matrices,
        cost=0.06,
        sentence="SMMLA computes 32 products of two pixels and two channels.",
    ),
    Form(
        name="dot_conv2d",
        conditions=(INTEGERS, ROUNDED),
        pack=pack_convolution,
        cost=0.1,
        sentence="SDOT computes 16 products, four of each of four channels.",
    ),
    Form(
        name="dot_depthwise_conv2d",
        conditions=(
            INTEGERS,
            ROUNDED,
            Condition("a kernel of at most four rows", lambda layer: layer.kernel[0] <= 4),
        ),
        pack=pack_depthwise,
        cost=0.4,
        sentence="Column by column: SDOT computes the products of four channels with their rows.",
    ),
    Form(
        name="dot_dense",
        conditions=(INTEGERS, ROUNDED),
        pack=pack_convolution,
        cost=0.11,
        sentence="SDOT computes 16 products, four of each of four channels.",
    ),
)
