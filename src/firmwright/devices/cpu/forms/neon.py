"""Defines forms for 64-bit Arm cores with NEON: blocks of four channels, with 16 taps per channel.

The sum of two products of bytes fits 16 bits if no weight is -128. The C adds these sums in eight
lanes, and adds pairs of lanes to sums of 32 bits.
"""

from __future__ import annotations

import numpy as np

from firmwright.devices.cpu.forms import floats, matrices, wide
from firmwright.devices.cpu.forms.form import Condition, Form, Packing, Scratch
from firmwright.devices.cpu.forms.layer_numbers import (
    arrange_scales,
    choose_lanes,
    compute_signed_bias,
    describe_depthwise,
    describe_gather,
    describe_record,
    fill_lanes,
    make_border,
    pad_channels,
    pad_matrix,
    pad_scales,
    scale_arrays,
)
from firmwright.devices.cpu.forms.requantize import INTEGERS, ROUNDED
from firmwright.ir.layer import Layer, LayerRounding

BLOCK = 4
"""The output channels, and the pixels, per step. The sums need 16 of 32 registers."""

PIXELS = 4
STEP = 16
"""The number of taps of one product."""

WIDE = 8
"""The output channels, and the taps, per step of layers with 16-bit activations."""


def has_small_weights(layer: Layer) -> bool:
    """Return whether the sum of two products of a weight and a byte always fits 16 bits."""
    return int(layer.weights.min()) > -128


def pack_convolution(layer: Layer, multiple: int = 8) -> Packing:
    """Pack weights as (channel block, 16 taps, channel, tap).

    Zeros fill the taps to a ``multiple`` of 8 or 16. The last step may have 8 taps.
    """
    count, words = -(-layer.out_channels // BLOCK) * BLOCK, -(-layer.taps // multiple) * multiple
    padded = pad_matrix(layer, count, words)
    steps = [
        padded[start : start + BLOCK, tap : tap + STEP].reshape(-1)
        for start in range(0, count, BLOCK)
        for tap in range(0, words, STEP)
    ]
    pixels = min(PIXELS, layer.pixels)
    arrays = {
        "weights": np.concatenate(steps).astype("int8"),
        **pad_scales(layer, compute_signed_bias(layer), count),
        **make_border(layer),
    }
    direct = layer.is_pointwise and words == layer.taps and layer.input_dtype == "int8"
    return Packing(
        arrays,
        {**describe_record(layer), "words": words},
        {
            "float_scaled": layer.scaling.rounding is LayerRounding.FLOAT,
            **describe_gather(layer, pixels),
            "direct": direct,
            "eight": words % STEP == 8,
        },
        () if direct else (Scratch("patch", "int8", pixels * words),),
    )


def pack_depthwise(layer: Layer) -> Packing:
    """Pack weights as (channel block, tap, channel). The last block overlaps the previous one."""
    lanes = choose_lanes(layer.channels)
    indices = fill_lanes(layer.channels, lanes)
    weights = pad_channels(layer.matrix, max(layer.channels, lanes))[indices]
    blocks = weights.transpose(0, 2, 1)
    return Packing(
        {
            "weights": blocks.reshape(-1).astype("int8"),
            **arrange_scales(layer, compute_signed_bias(layer), indices),
            "border": np.full(lanes, layer.input_zero_point, layer.input_dtype),
        },
        describe_record(layer),
        describe_depthwise(layer, lanes),
    )


def pack_wide_convolution(layer: Layer) -> Packing:
    """Pack weights of layers with 16-bit activations as (block of eight channels, tap, channel).

    Zeros fill the channels and the taps to multiples of 8.
    """
    count, words = (-(-n // WIDE) * WIDE for n in (layer.out_channels, layer.taps))
    blocks = pad_matrix(layer, count, words).reshape(-1, WIDE, words).transpose(0, 2, 1)
    scales = scale_arrays(layer)
    pixels = min(PIXELS, layer.pixels)
    direct = layer.is_pointwise and words == layer.taps
    return Packing(
        {
            "weights": blocks.astype("int8").reshape(-1),
            **{name: pad_channels(array, count) for name, array in scales.items()},
            **make_border(layer),
        },
        {**describe_record(layer), "words": words},
        {
            **describe_gather(layer, pixels),
            "direct": direct,
        },
        () if direct else (Scratch("patch", "int16", pixels * words),),
    )


SMALL_WEIGHTS = Condition("weights of -127 or more", has_small_weights)

FORMS = (
    Form(
        name="neon_conv2d",
        conditions=(INTEGERS, ROUNDED, SMALL_WEIGHTS),
        pack=pack_convolution,
        cost=0.25,
        sentence="Eight bytes at once; two products share a sum of 16 bits.",
    ),
    Form(
        name="neon_depthwise_conv2d",
        conditions=(INTEGERS, ROUNDED, SMALL_WEIGHTS),
        pack=pack_depthwise,
        cost=0.6,
        sentence="Eight channels at once; two taps share a sum of 16 bits.",
    ),
    Form(
        name="neon_dense",
        conditions=(INTEGERS, ROUNDED, SMALL_WEIGHTS),
        pack=pack_convolution,
        cost=0.3,
        sentence="Eight bytes at once; two products share a sum of 16 bits.",
    ),
    Form(
        name="neon_matmul",
        conditions=(matrices.SCALED,),
        pack=matrices.pack_lanes,
        cost=0.5,
        sentence="Four rows by eight columns at once, of 16 bits.",
    ),
    Form(
        name="neon_wide_conv2d",
        conditions=(wide.SCALED, wide.NARROW_SUMS),
        pack=pack_wide_convolution,
        cost=0.35,
        sentence="SMLAL computes four products of 16 bits.",
    ),
    Form(
        name="neon_wide_dense",
        conditions=(wide.SCALED, wide.NARROW_SUMS),
        pack=pack_wide_convolution,
        cost=0.6,
        sentence="SMLAL computes four products of 16 bits.",
    ),
    Form(
        name="neon_float_conv2d",
        pack=lambda layer: floats.pack_convolution(layer, floats.NEON),
        cost=0.6,
        sentence="Floats in blocks of pixels by 16 channels.",
        in_place=("added",),
    ),
    Form(
        name="neon_float_depthwise_conv2d",
        conditions=(floats.CHANNELS_LAST,),
        pack=lambda layer: floats.pack_depthwise(layer, floats.NEON),
        cost=0.8,
        sentence="16 channels at once.",
    ),
)
