"""Defines forms for Cortex-M cores with Helium (Armv8.1-M). A channel's taps are in one row.

One instruction adds 16 products of bytes to a sum in a general register. At the end of a row, the
instruction reads only the remaining bytes, so rows need no padding. The bytes are signed: 128 is
subtracted from unsigned inputs.

A byte of weights of 1, 2 or 4 bits has the weights of one tap for two, four or eight channels. A
channel's taps are in one row, too. The C multiplies digits that are in the upper bits of their
bytes, and shifts the sums right.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmwright.devices.cpu.forms import addition, matrices, softmax, wide
from firmwright.devices.cpu.forms.addition import FACTORS, MULTIPLIER
from firmwright.devices.cpu.forms.digits import Digits, join_rows, split_weights
from firmwright.devices.cpu.forms.form import Condition, Form, Packing, Scratch
from firmwright.devices.cpu.forms.layer_numbers import (
    compute_shifted_zero_point,
    compute_signed_bias,
    describe_gather,
    describe_record,
    make_border,
    pad_channels,
    scale_arrays,
    scale_vectors,
)
from firmwright.devices.cpu.forms.packed import BITS, FEW_WEIGHTS, FOUR_BITS
from firmwright.devices.cpu.forms.plane import Axis, describe_plane, order_axes
from firmwright.devices.cpu.forms.requantize import INTEGERS, ROUNDED, make_requantization
from firmwright.ir.layer import Array, Layer, LayerRounding, MatrixProduct

BLOCK = 4
"""The output channels whose sums the C scales in one step."""

PIXELS = 3
"""The pixels per step. The sums for two channels need six of the seven even registers."""

LANES = 16
"""The number of bytes in a vector."""

MOST_VECTORS = 4
"""The maximum number of vectors of taps in a depthwise convolution."""


def pack_scales(layer: Layer) -> dict[str, Array]:
    """Return the numbers of whole blocks of channels."""
    arrays = scale_arrays(layer) if layer.is_wide else scale_bytes(layer)
    count = -(-layer.out_channels // BLOCK) * BLOCK
    return {name: pad_channels(array, count) for name, array in arrays.items()}


def scale_bytes(layer: Layer) -> dict[str, Array]:
    """Return the numbers of channels of bytes. Right shifts are negative left shifts.

    The offsets include the lowest result, so that sums become results.
    """
    is_float = layer.scaling.rounding is LayerRounding.FLOAT
    numbers = scale_vectors(layer)
    shifts = numbers["shifts"].astype("int64")
    if is_float:
        offsets = np.full(layer.out_channels, layer.zero_point)
    else:
        offsets = make_requantization(layer).offsets + (layer.low << shifts)
    return {
        "bias": compute_signed_bias(layer).astype("int32"),
        "multipliers": numbers["multipliers"],
        "offsets": offsets.astype("int32"),
        "shifts": (-shifts).astype("int8"),
    }


def pack_convolution(layer: Layer) -> Packing:
    """Pack weights as (channel, tap), in whole blocks of channels."""
    count = -(-layer.out_channels // BLOCK) * BLOCK
    pixels = PIXELS if layer.pixels >= PIXELS else 1
    direct = layer.is_pointwise and layer.input_dtype != "uint8"
    dtype = "int16" if layer.is_wide else "int8"
    arrays = {
        "weights": pad_channels(layer.matrix, count).astype("int8").reshape(-1),
        **pack_scales(layer),
        **make_border(layer),
    }
    return Packing(
        arrays,
        {**describe_record(layer), "words": layer.taps},
        {
            "float_scaled": layer.scaling.rounding is LayerRounding.FLOAT,
            **describe_gather(layer, pixels),
            "direct": direct,
        },
        () if direct else (Scratch("patch", dtype, pixels * layer.taps),),
    )


def list_reaches(layer: Layer) -> Array:
    """Return the distances of a pixel's taps from its first tap, in a padded channel."""
    rows, length = (Axis(layer, axis) for axis in order_axes(layer))
    down = np.arange(rows.kernel) * rows.dilation * length.padded_size
    along = np.arange(length.kernel) * length.dilation
    reaches: Array = (down[:, None] + along).reshape(-1)
    return reaches


def split_reaches(layer: Layer) -> tuple[Array, Array]:
    """Return the distance of each vector's first tap, and the distances within vectors.

    The shapes are (vectors,) and (vectors, 16). The last vector repeats its last tap.
    """
    reaches = list_reaches(layer)
    vectors = np.pad(reaches, (0, -len(reaches) % LANES), mode="edge").reshape(-1, LANES)
    return vectors[:, 0], vectors - vectors[:, :1]


def reaches_bytes(layer: Layer) -> bool:
    """Return whether a pixel's taps fit four vectors, distances bytes, and 7 steps 16 bits."""
    step = Axis(layer, order_axes(layer)[1]).step
    fits = layer.taps <= MOST_VECTORS * LANES and (LANES // 2 - 1) * step < 2**16
    return fits and int(split_reaches(layer)[1].max()) < 256


def order_taps(layer: Layer) -> Array:
    """Return the weights (channel, tap) in the order of the taps in a padded channel."""
    axes = (1 + axis for axis in order_axes(layer))
    return layer.weights[..., 0].transpose(0, *axes).reshape(layer.channels, -1)


def pad_taps(rows: Array) -> Array:
    """Return rows of taps in whole vectors, with zeros after the last tap."""
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % LANES))).astype(np.int8)


def pack_depthwise(layer: Layer) -> Packing:
    """Pack weights as (channel, vector, 16 taps), with zeros after the last tap."""
    rows, length = (Axis(layer, axis) for axis in order_axes(layer))
    starts, reaches = split_reaches(layer)
    # The last step of a row computes four results, even if the row has fewer.
    plane = rows.padded_size * length.padded_size + BLOCK * length.stride
    return Packing(
        {
            "weights": pad_taps(order_taps(layer)).reshape(-1),
            **pack_scales(layer),
            "reaches": reaches.astype(np.uint8).reshape(-1),
        },
        {
            **describe_plane(layer, rows, length, plane),
            "stride": length.stride,
            "zero": compute_shifted_zero_point(layer),
            **{f"start{i}": int(start) for i, start in enumerate(starts) if i},
        },
        {
            "float_scaled": layer.scaling.rounding is LayerRounding.FLOAT,
            "vectors": len(starts),
        },
        (Scratch("channel", "int8", plane),),
    )


def pack_matrices(product: MatrixProduct) -> Packing:
    """Pack only numbers, because the C copies a block of columns when the layer runs.

    The offset includes the lowest result.
    """
    sums, lowered = product.sums, matrices.lower_by(product)
    scales = pack_scales(sums)
    record = {
        **matrices.describe_product(product),
        "right_zero": product.right.zero_point - lowered,
        "multiplier": int(scales["multipliers"][0]),
        "offset": int(scales["offsets"][0]),
        "shift": -int(scales["shifts"][0]),
    }
    return Packing(
        {},
        record,
        {
            "float_scaled": sums.scaling.rounding is LayerRounding.FLOAT,
            "pixels": PIXELS if product.rows >= PIXELS else 1,
        },
        (
            Scratch("starts", "int32", product.rows),
            Scratch("packed", "int8", BLOCK * product.inner),
        ),
    )


def pack_packed_convolution(layer: Layer) -> Packing:
    """Pack weights as (row of channels, tap).

    With 4 bits, a row of bytes has the channels n and n + 2, whose sums a convolution adds
    together.
    """
    digits = split_weights(layer.matrix)
    rows = pad_channels(digits.values, -(-layer.out_channels // 8) * 8)
    if digits.bits == 4:
        rows = rows.reshape(-1, 4, layer.taps)[:, [0, 2, 1, 3]].reshape(rows.shape)
    packing = pack_convolution(layer)
    blocks = packing.arrays["bias"].size // BLOCK
    return add_digits(packing, digits, rows[: BLOCK * blocks] if digits.bits > 1 else rows)


def pack_packed_depthwise(layer: Layer) -> Packing:
    """Pack weights as (row of channels, 16 taps)."""
    digits = split_weights(order_taps(layer))
    rows = pad_taps(digits.values)
    packing = add_digits(pack_depthwise(layer), digits, rows)
    return replace(packing, variant={**packing.variant, "taps": layer.taps})


def add_digits(packing: Packing, digits: Digits, rows: Array) -> Packing:
    """Return a packing with rows of digits (channel, number). A byte has digits of channels."""
    count = packing.arrays["bias"].size
    padded = pad_channels(rows, -(-len(rows) // digits.per_byte) * digits.per_byte)
    joined = padded.reshape(-1, digits.per_byte, rows.shape[1]).transpose(0, 2, 1)
    arrays = {
        **packing.arrays,
        "weights": join_rows(joined, digits.bits).reshape(-1),
        **{name: pad_channels(array, count) for name, array in digits.arrays.items()},
    }
    return replace(packing, arrays=arrays, variant={**packing.variant, **digits.variant})


NEAR_TAPS = Condition(
    "at most 64 taps, each 16 within 256 bytes of a padded channel, and 64 KiB for seven steps",
    reaches_bytes,
)
FEW_TAPS = Condition("at most 16 taps", lambda layer: layer.taps <= LANES)

SIGNED_ROWS = Condition("a left operand of int8", lambda product: product.left.dtype == "int8")

EIGHT = "VMLADAVA adds eight products of 16-bit inputs at once."
PACKED = "VMLADAVA adds 16 products at once. A byte has the weights of 2 to 8 channels."

FORMS = (
    *(
        Form(
            name=f"mve_packed_{kind}",
            conditions=(INTEGERS, ROUNDED, FOUR_BITS),
            pack=pack_packed_convolution,
            cost=0.22,
            sentence=PACKED,
            bits=BITS,
        )
        for kind in ("conv2d", "dense")
    ),
    Form(
        name="mve_packed_depthwise_conv2d",
        conditions=(INTEGERS, ROUNDED, NEAR_TAPS, FEW_TAPS, FEW_WEIGHTS),
        pack=pack_packed_depthwise,
        cost=0.85,
        sentence="One load gathers all taps of a pixel. A byte has the weights of 2 to 8 channels.",
        bits=BITS,
    ),
    Form(
        name="mve_conv2d",
        conditions=(INTEGERS, ROUNDED),
        pack=pack_convolution,
        cost=0.2,
        sentence="VMLADAVA adds 16 products at once, for three pixels by two channels.",
    ),
    Form(
        name="mve_depthwise_conv2d",
        conditions=(INTEGERS, ROUNDED, NEAR_TAPS),
        pack=pack_depthwise,
        cost=0.8,
        sentence="One channel at a time; one load gathers up to 16 taps of a pixel.",
    ),
    Form(
        name="mve_dense",
        conditions=(INTEGERS, ROUNDED),
        pack=pack_convolution,
        cost=0.2,
        sentence="VMLADAVA adds 16 products at once, for four channels.",
    ),
    Form(
        name="mve_add",
        conditions=(FACTORS,),
        pack=addition.pack_addition,
        sentence="Two multiplications and a shift for four elements at once.",
        in_place=("input_0", "input_1"),
    ),
    Form(
        name="mve_multiply",
        conditions=(MULTIPLIER,),
        pack=addition.pack_vector_product,
        sentence="Two multiplications and one or two shifts for four elements at once.",
        in_place=("input_0", "input_1"),
    ),
    Form(
        name="mve_matmul",
        conditions=(matrices.SCALED, SIGNED_ROWS),
        pack=pack_matrices,
        cost=0.3,
        sentence="Four columns are copied; VMLADAVA adds 16 products at once.",
    ),
    Form(
        name="mve_wide_conv2d",
        conditions=(wide.SCALED, wide.NARROW_SUMS),
        pack=pack_convolution,
        cost=0.3,
        sentence=EIGHT,
    ),
    Form(
        name="mve_wide_dense",
        conditions=(wide.SCALED, wide.NARROW_SUMS),
        pack=pack_convolution,
        cost=0.5,
        sentence=EIGHT,
    ),
    Form(
        name="mve_fixed_softmax",
        pack=softmax.pack_fixed_softmax,
        sentence="A table of exponentials, which a gathered load reads, and a reciprocal per row.",
    ),
    Form(
        name="mve_wrapped_sum",
        pack=addition.pack_wrapped_sum,
        sentence="VADD or VSUB computes 16 bytes.",
        in_place=("input_0", "input_1"),
    ),
)
