"""Forms for 64-bit Arm cores with NEON: blocks of four channels, with 16 taps of each channel.

Two products of bytes fit 16 bits, where no weight is -128: they are added up in eight lanes, and
those two by two to 32 bits.
"""

from __future__ import annotations

import numpy as np

from firmwright.devices.cpu.forms import floats, matrices
from firmwright.devices.cpu.forms.blocks import fill_lanes
from firmwright.devices.cpu.forms.conditions import INTEGERS, ROUNDED
from firmwright.devices.cpu.forms.form import Condition, Form, Packing, Scratch
from firmwright.devices.cpu.forms.layer_numbers import describe_record, scale_vectors
from firmwright.devices.cpu.forms.x64 import pad_channels
from firmwright.ir.layer import Array, Layer, LayerKind, LayerRounding

BLOCK = 4
"""Output channels at once: with as many pixels their sums take 16 of 32 registers."""

PIXELS = 4
STEP = 16
"""Taps of one product."""


def has_small_weights(layer: Layer) -> bool:
    """Tell whether two products with bytes always fit 16 bits."""
    return int(layer.weights.min()) > -128


def signed_bias(layer: Layer) -> Array:
    """Return the bias for inputs read as signed bytes: unsigned ones are moved by 128."""
    moved = 128 if layer.input_dtype == "uint8" else 0
    bias: Array = layer.folded_bias + moved * layer.matrix.sum(1)
    return bias


def pack_scales(layer: Layer, indices: Array, count: int) -> dict[str, Array]:
    """Return bias, multipliers and shifts of these channels, of ``count`` with those to fill."""
    scales = {**scale_vectors(layer), "bias": signed_bias(layer).astype("int32")}
    padded = {n: pad_channels(a, count, int(n == "shifts")) for n, a in scales.items()}
    return {name: array[indices] for name, array in padded.items()}


def pack_convolution(layer: Layer) -> Packing:
    """Pack (channel block, 16 taps, channel, tap); eight taps more where no more are left."""
    count, words = -(-layer.out_channels // BLOCK) * BLOCK, -(-layer.taps // 8) * 8
    padded = np.zeros((count, words), np.int64)
    padded[: layer.out_channels, : layer.taps] = layer.matrix
    steps = [
        padded[start : start + BLOCK, tap : tap + STEP].reshape(-1)
        for start in range(0, count, BLOCK)
        for tap in range(0, words, STEP)
    ]
    pixels = min(PIXELS, layer.pixels)
    arrays = {
        "weights": np.concatenate(steps).astype("int8"),
        **pack_scales(layer, np.arange(count), count),
    }
    guarded = any(layer.padding)
    if guarded:
        row = layer.kernel[1] * layer.channels
        arrays["border"] = np.full(row, layer.input_zero_point, layer.input_dtype)
    direct = layer.is_pointwise and words == layer.taps and layer.input_dtype == "int8"
    return Packing(
        arrays,
        {**describe_record(layer), "words": words},
        {
            "float_scaled": layer.scaling.rounding is LayerRounding.FLOAT,
            "pointwise": layer.is_pointwise,
            "direct": direct,
            "guarded": guarded,
            "pixels": pixels,
            "eight": words % STEP == 8,
        },
        () if direct else (Scratch("patch", "int8", pixels * words),),
    )


def pack_depthwise(layer: Layer) -> Packing:
    """Pack (channel block, tap, channel); the last block overlaps the one before it."""
    lanes = 16 if layer.channels >= 16 else 8
    whole = layer.channels >= lanes
    indices = fill_lanes(layer.channels, lanes)
    count = max(layer.channels, lanes)
    weights = pad_channels(layer.matrix, count)[indices]
    blocks = weights.transpose(0, 2, 1)
    return Packing(
        {
            "weights": blocks.reshape(-1).astype("int8"),
            **pack_scales(layer, indices.reshape(-1), count),
            "border": np.full(lanes, layer.input_zero_point, layer.input_dtype),
        },
        describe_record(layer),
        {
            "float_scaled": layer.scaling.rounding is LayerRounding.FLOAT,
            "kernel_height": layer.kernel[0],
            "kernel_width": layer.kernel[1],
            "lanes": lanes,
            "whole": whole,
        },
    )


SMALL_WEIGHTS = Condition("weights of -127 or more", has_small_weights)

FORMS = (
    Form(
        name="neon_conv2d",
        kind=LayerKind.CONV2D,
        features=frozenset({"neon"}),
        conditions=(INTEGERS, ROUNDED, SMALL_WEIGHTS),
        pack=pack_convolution,
        cost=0.25,
        sentence="Eight bytes at once, of two products a sum of 16 bits.",
    ),
    Form(
        name="neon_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset({"neon"}),
        conditions=(INTEGERS, ROUNDED, SMALL_WEIGHTS),
        pack=pack_depthwise,
        cost=0.6,
        sentence="Eight channels at once, of two taps a sum of 16 bits.",
    ),
    Form(
        name="neon_dense",
        kind=LayerKind.DENSE,
        features=frozenset({"neon"}),
        conditions=(INTEGERS, ROUNDED, SMALL_WEIGHTS),
        pack=pack_convolution,
        cost=0.3,
        sentence="Eight bytes at once, of two products a sum of 16 bits.",
    ),
    Form(
        name="neon_matmul",
        kind=LayerKind.MATMUL,
        features=frozenset({"neon"}),
        conditions=(matrices.SCALED,),
        pack=matrices.pack_lanes,
        cost=0.5,
        sentence="Four rows by eight columns at once, of 16 bits.",
    ),
    Form(
        name="neon_float_conv2d",
        kind=LayerKind.FLOAT_CONV2D,
        features=frozenset({"neon"}),
        conditions=(),
        pack=lambda layer: floats.pack_convolution(layer, floats.NEON),
        cost=0.6,
        sentence="Floats in blocks of pixels by 16 channels.",
        in_place=("added",),
    ),
    Form(
        name="neon_float_depthwise_conv2d",
        kind=LayerKind.FLOAT_DEPTHWISE_CONV2D,
        features=frozenset({"neon"}),
        conditions=(floats.CHANNELS_LAST,),
        pack=lambda layer: floats.pack_depthwise(layer, floats.NEON),
        cost=0.8,
        sentence="16 channels at once.",
    ),
)
