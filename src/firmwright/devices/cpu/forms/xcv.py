"""Defines forms for 32-bit RISC-V cores with CORE-V's instructions, such as CV32E40P.

A word has four successive taps of a channel, and one instruction adds four products of bytes. Load
instructions also advance their pointers. A hardware loop needs no branch instructions.
"""

from __future__ import annotations

import numpy as np

from firmwright.devices.cpu.forms import addition, matrices, plane
from firmwright.devices.cpu.forms.form import Condition, Form, Packing, Scratch, Tile
from firmwright.devices.cpu.forms.layer_numbers import (
    describe_gather,
    describe_record,
    fill_lanes,
    make_border,
    pad_matrix,
)
from firmwright.devices.cpu.forms.plane import Axis, order_axes
from firmwright.devices.cpu.forms.requantize import INTEGERS, make_requantization
from firmwright.devices.cpu.forms.split_factors import find_split_factors
from firmwright.ir.layer import Array, Layer, MatrixProduct

RESULTS = frozenset({"xcvalu", "xcvmac", "xcvsimd"})
"""The extensions for dot products and for the scaling of sums, without hardware loops."""

TAPS = 4
"""The number of bytes in a word."""

CHANNELS = 4
"""The output channels per step. The sums for four pixels need 16 of 28 registers."""

PIXELS = 4
"""The number of rows of a product per step."""


def arrange_numbers(layer: Layer, channels: Array) -> Array:
    """Return the numbers of blocks of channels as flat int32 (blocks, lanes).

    A block has its biases, offsets, shifts and factors. The factors are split factors, or
    multipliers for high products. The offsets include the lowest result, so that sums become
    results. For a channel without a multiplier, the mantissa replaces the offset.
    """
    split, scales = find_split_factors(layer), make_requantization(layer)
    if split:
        columns = (split.offsets, split.shifts, split.uppers, split.lowers)
    else:
        offsets = scales.offsets + (scales.multipliers != 0) * (layer.low << scales.shifts)
        columns = (offsets, scales.shifts, scales.multipliers, 0 * offsets)
    numbers = [column[channels] for column in (layer.folded_bias, *columns)]
    return np.stack(numbers, axis=1).reshape(-1).astype("int32")


def describe_factors(layer: Layer) -> tuple[dict[str, int], dict[str, bool]]:
    split = find_split_factors(layer)
    return {"fraction": split.fraction if split else 0}, {"split": split is not None}


def pack_convolution(layer: Layer, tile: Tile) -> Packing:
    """Pack weights as (channel block, word, channel, tap).

    The last block may overlap the previous one.
    """
    words = -(-layer.taps // TAPS) * TAPS
    channels = fill_lanes(layer.out_channels, CHANNELS)
    padded = pad_matrix(layer, layer.out_channels, words)
    blocks = padded.reshape(layer.out_channels, -1, TAPS)[channels].transpose(0, 2, 1, 3)
    direct = layer.is_pointwise and words == layer.taps
    record, variables = describe_factors(layer)
    return Packing(
        {
            "weights": blocks.astype("int8").reshape(-1),
            "numbers": arrange_numbers(layer, channels),
            **make_border(layer),
        },
        {**describe_record(layer), **record, "words": words},
        {
            **describe_gather(layer, tile.pixels),
            **variables,
            "direct": direct,
        },
        () if direct else (Scratch("patch", layer.input_dtype, tile.pixels * words + TAPS),),
    )


def pack_dense(layer: Layer) -> Packing:
    """Pack a layer of one pixel as a convolution."""
    return pack_convolution(layer, Tile(1, CHANNELS))


def repeat_byte(value: int) -> int:
    """Return the signed word that repeats the lowest byte of a value four times."""
    return int.from_bytes(bytes([value & 255] * TAPS), "little", signed=True)


def pack_depthwise(layer: Layer, tile: Tile) -> Packing:
    """Pack weights as (channel, column, row). Each row extends along the longer axis.

    A word has one column of a channel's kernel, with zeros after the last row. The C collects the
    columns of four channels for one row of the output.
    """
    axes = order_axes(layer)
    rows, length = (Axis(layer, axis) for axis in axes)
    taps = layer.weights[..., 0].transpose(0, *(1 + axis for axis in reversed(axes)))
    words = np.pad(taps, ((0, 0), (0, 0), (0, TAPS - rows.kernel)))
    line = length.padded_size
    record, variables = describe_factors(layer)
    return Packing(
        {
            "weights": words.astype("int8").reshape(-1),
            "numbers": arrange_numbers(layer, np.arange(layer.channels)[:, None]),
        },
        {
            **record,
            "channels": layer.channels,
            "rows": rows.size,
            "row_step": rows.step,
            "row_before": rows.before,
            "row_stride": rows.stride,
            "row_dilation": rows.dilation,
            "length": length.size,
            "step": length.step,
            "before": length.before,
            "line": line,
            "out_rows": rows.out_size,
            "out_row_step": rows.out_step,
            "out_length": length.out_size,
            "out_step": length.out_step,
            "zero": repeat_byte(layer.input_zero_point),
        },
        {
            "pixels": tile.pixels,
            "columns": sorted(
                {
                    pixel * length.stride + column * length.dilation
                    for pixel in range(tile.pixels)
                    for column in range(length.kernel)
                }
            ),
            **variables,
            "kernel_rows": rows.kernel,
            "kernel_length": length.kernel,
            "stride": length.stride,
            "dilation": length.dilation,
        },
        (Scratch("columns", "int32", CHANNELS * line),),
    )


def pack_product(product: MatrixProduct) -> Packing:
    """Pack the numbers of a product. The C copies four columns of the right operand per step."""
    split = find_split_factors(product.sums)
    scale = arrange_numbers(product.sums, np.zeros((1, 1), np.int64))[1:].tolist()
    names = ("offset", "shift", "upper" if split else "multiplier", "lower")
    lowered = matrices.lower_by(product)
    record, variables = describe_factors(product.sums)
    return Packing(
        {},
        {
            **matrices.describe_product(product),
            **record,
            **dict(zip(names, scale, strict=True)),
            "right_zero": product.right.zero_point - lowered,
        },
        {
            **variables,
            "pixels": min(PIXELS, product.rows),
            "lowered": lowered,
            "transposed": product.right.steps[1] != 1,
        },
        (Scratch("starts", "int32", product.rows), Scratch("packed", "int32", product.inner)),
    )


FOUR_CHANNELS = Condition("four output channels or more", lambda layer: layer.out_channels >= 4)

FORMS = (
    Form(
        name="xcv_conv2d",
        conditions=(INTEGERS, FOUR_CHANNELS),
        pack=pack_convolution,
        cost=0.5,
        sentence="cv.sdotsp.b computes four products, for four pixels by four channels.",
        headers=("xcv.h",),
        tiles=(Tile(4, CHANNELS), Tile(2, CHANNELS)),
    ),
    Form(
        name="xcv_depthwise_conv2d",
        extensions=RESULTS,
        conditions=(
            INTEGERS,
            FOUR_CHANNELS,
            Condition(
                "a kernel of at most four rows",
                lambda layer: layer.kernel[order_axes(layer)[0]] <= 4,
            ),
        ),
        pack=pack_depthwise,
        cost=2.3,
        sentence="A word has a column of the kernel; cv.sdotsp.b computes its products.",
        headers=("xcv.h",),
        tiles=(Tile(8, 1), Tile(4, 1)),
        fit_tile=plane.fit_tile,
    ),
    Form(
        name="xcv_dense",
        conditions=(INTEGERS, FOUR_CHANNELS),
        pack=pack_dense,
        cost=0.7,
        sentence="cv.sdotsp.b computes four products, for four channels at once.",
        headers=("xcv.h",),
    ),
    Form(
        name="xcv_matmul",
        conditions=(
            matrices.SCALED,
            Condition("four columns or more", lambda product: product.columns >= 4),
            Condition(
                "words of four products, and a right operand with contiguous rows or columns",
                lambda product: product.inner % TAPS == 0 and 1 in product.right.steps[1:],
            ),
        ),
        pack=pack_product,
        cost=0.7,
        sentence="cv.sdotsp.b computes four products, for four rows by four columns.",
        headers=("xcv.h",),
    ),
    Form(
        name="xcv_wrapped_sum",
        extensions=frozenset({"xcvsimd"}),
        pack=addition.pack_wrapped_sum,
        sentence="cv.add.b or cv.sub.b computes four bytes.",
        in_place=("input_0", "input_1"),
    ),
)
