"""Packs weights of 2 or 4 bits in flash. The C splits them in registers.

The weights of an output channel exceed its lowest weight by at most 15. A digit is u = w - lowest,
from 0 to 15. The uppermost digit of a byte or halfword is v = u - 8. A sum is

    sum(w x) = sum(u x) + lowest · sum(x)

The C computes the sum of the stored inputs once for all channels of a pixel. A byte has the weights
of two channels, b = u0 + 16 v1. Let E = sum((b & 15) x) and B = sum(b x). The channels' sums are E
and (B - E) >> 4. Weights of bytes need as many multiplications. In plain C, a byte may also have
four weights of 2 bits: the masks 3, 15 and 63 replace 15.

On cores with Arm's DSP extension, a word has two taps of four channels. Each halfword is h = u0 +
16 u1 + 256 u2 + 4096 v3. SMLAD adds four sums of both taps:

    A = sum(h x), C = sum(u0 x), D = 256 sum(u2 x), U = sum((h >> 8) x)

The channels' sums are C, (A - C - 256 U) >> 4, D >> 8 and (U - (D >> 8)) >> 4. A may exceed 32
bits, because its upper bits cancel. A convolution has two channels per byte, so that the sums of
three pixels stay in registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from firmwright.devices.cpu.forms import (
    dsp,
    dsp_bytes,
    dsp_depthwise,
    plain,
    portable,
    rv32_depthwise,
)
from firmwright.devices.cpu.forms.conditions import INTEGERS
from firmwright.devices.cpu.forms.digits import pack_channels
from firmwright.devices.cpu.forms.form import Condition, Form, Packing, Tile, fits_bits
from firmwright.devices.cpu.forms.vectors import fill_lanes
from firmwright.ir.layer import Array, Layer, LayerKind

BITS = 4
LEVELS = 1 << BITS

LEAST_WEIGHTS = 512
"""The minimum number of weights of a layer.

The C for smaller layers is larger than the saved memory.
"""

LEAST_DEPTHWISE = 256
"""The minimum number of weights of a depthwise convolution, whose C unpacks a channel once."""

MOST_TAPS = 2**15
"""The maximum number of products in a sum, so that sums of bytes fit 32 bits."""


def is_packable(layer: Layer) -> bool:
    """Return whether the weights of a large layer fit 4 bits and its sums fit 32 bits."""
    is_large = layer.weights.size >= LEAST_WEIGHTS
    return is_large and layer.taps <= MOST_TAPS and fits_bits(layer, BITS)


def fits_upper_bytes(layer: Layer) -> bool:
    """Return whether 256 times the sum of a channel's digits fits 32 bits."""
    limits = np.iinfo(layer.input_dtype)
    return layer.taps * (LEVELS - 1) * max(-limits.min, limits.max) < 2**23


SMALL = f"{LEAST_WEIGHTS} or more weights of 4 bits, and at most {MOST_TAPS:,} products per sum"
FOUR_BITS = Condition(SMALL, is_packable)
FEW_WEIGHTS = Condition(
    f"{LEAST_DEPTHWISE} or more weights of 4 bits",
    lambda layer: layer.weights.size >= LEAST_DEPTHWISE,
)
PAIRS = Condition(
    "2 output channels, or 4 and more",
    lambda layer: layer.out_channels == 2 or layer.out_channels >= 4,
)


def split_weights(layer: Layer, bits: int = BITS) -> tuple[Array, dict[str, Array]]:
    """Return the digits u as (O, taps), and the ``bases`` of the channels unless all are 0.

    A base is the channel's lowest weight plus half of the digits' range. If all weights are signed
    integers of these bits, every lowest weight counts as the lowest of these integers.
    """
    half = 1 << bits - 1
    lows = np.minimum(layer.matrix.min(1), 127 - half)
    if layer.matrix.min() >= -half and layer.matrix.max() < half:
        lows = np.full_like(lows, -half)
    bases = lows + half
    return layer.matrix - lows[:, None], {"bases": bases.astype("int8")} if bases.any() else {}


def join_digits(digits: Array, bits: int = BITS) -> Array:
    """Return the integers whose digits are on the last axis. The last digit has a sign."""
    count = digits.shape[-1]
    half = 1 << bits - 1
    joined: Array = (digits << bits * np.arange(count)).sum(-1) - (half << bits * (count - 1))
    return joined


def pack_convolution(layer: Layer, tile: Tile) -> Packing:
    """Pack weights as (channel block, tap, group of channels).

    The last block overlaps the previous one. A group has two channels of 4 bits, or four of 2 bits.
    """
    plain_packing = plain.pack_convolution(layer, tile)
    channels = plain_packing.variant["channels"]
    bits = 2 if channels == 4 and fits_bits(layer, 2) else BITS
    digits, bases = split_weights(layer, bits)
    blocks = digits[fill_lanes(layer.out_channels, channels)].transpose(0, 2, 1)
    groups = join_digits(blocks.reshape(*blocks.shape[:2], -1, 8 // bits), bits)
    arrays = {**plain_packing.arrays, "weights": groups.astype("int8").reshape(-1), **bases}
    variant = {**plain_packing.variant, "based": bool(bases), "bits": bits}
    return replace(plain_packing, arrays=arrays, variant=variant)


def pack_dsp_dense(layer: Layer) -> Packing:
    """Pack weights as (four channels, pair of taps)."""
    digits, bases = split_weights(layer)
    channels = dsp_bytes.choose_channels(layer, 4)
    padded = np.pad(digits, ((0, 0), (0, -layer.taps % 4)))
    ordered = padded[:, dsp_bytes.order_taps(padded.shape[1])][channels]
    words = join_digits(ordered.transpose(0, 2, 1)).astype("<i2").view("<i4")
    arrays = {"weights": words.reshape(-1), **find_lows(bases, channels)}
    single = replace(layer, repeats=1)  # the loop adds its sums after the products
    packing = dsp_bytes.describe_product(single, channels, arrays, paired=False)
    return replace(packing, variant={**packing.variant, "based": bool(bases)})


def pack_dsp_convolution(layer: Layer, tile: Tile) -> Packing:
    """Pack weights as (pair of channels, row of the kernel, four taps, channel)."""
    digits, bases = split_weights(layer)
    channels = dsp_bytes.choose_channels(layer, 2)
    ordered = dsp_bytes.arrange_taps(layer, digits)[channels]
    pairs = join_digits(ordered.transpose(0, 2, 1)).astype("int8")
    # A word has two pairs of taps. SXTB16 widens the bytes 0 and 2, then the bytes 1 and 3.
    words = np.ascontiguousarray(pairs.reshape(-1, 4)[:, [0, 2, 1, 3]]).view("<i4")
    arrays = {"weights": words.reshape(-1), **find_lows(bases, channels)}
    packing = dsp_bytes.describe_convolution(layer, tile, channels, arrays, paired=False)
    return replace(packing, variant={**packing.variant, "based": bool(bases)})


def pack_depthwise(layer: Layer, tile: Tile) -> Packing:
    """Pack weights as (channel, tap), in 1, 2 or 4 bits."""
    return pack_channels(rv32_depthwise.pack_depthwise(layer, tile), layer.channels)


def pack_dsp_depthwise(layer: Layer) -> Packing:
    """Pack weights as (channel, tap), in 1, 2 or 4 bits."""
    return pack_channels(dsp_depthwise.pack_depthwise(layer), layer.channels)


def find_lows(bases: Mapping[str, Array], channels: Array) -> dict[str, Array]:
    """Return the ``lows`` of blocks of channels. The last channel of a block has signed digits."""
    if not bases:
        return {}
    lows = bases["bases"][channels].astype("int64")
    lows[:, :-1] -= 8
    return {"lows": lows.astype("int8").reshape(-1)}


DSP_FORMS = (
    Form(
        name="dsp_packed_dense",
        kind=LayerKind.DENSE,
        features=frozenset({"armv7e-m-dsp"}),
        conditions=(
            INTEGERS,
            Condition(
                f"{LEAST_WEIGHTS} or more weights of 4 bits, and fewer than 2,194 inputs, or 4,370 "
                "of int8",
                lambda layer: is_packable(layer) and fits_upper_bytes(layer),
            ),
            PAIRS,
        ),
        pack=pack_dsp_dense,
        cost=1.2,
        sentence="A halfword has four channels' weights of 4 bits, whose sums SMLAD adds.",
        bits=BITS,
    ),
    Form(
        name="dsp_packed_conv2d",
        kind=LayerKind.CONV2D,
        features=frozenset({"armv7e-m-dsp"}),
        conditions=(INTEGERS, FOUR_BITS, PAIRS),
        pack=pack_dsp_convolution,
        cost=1.2,
        sentence="A byte has two channels' weights of 4 bits, whose sums SMLAD adds.",
        tiles=dsp.TILES,
        bits=BITS,
    ),
    Form(
        name="dsp_packed_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset({"armv7e-m-dsp"}),
        conditions=(INTEGERS, dsp.PLAIN_AXIS, FEW_WEIGHTS),
        pack=pack_dsp_depthwise,
        cost=2.0,
        sentence="SMLAD computes two products of a row. A channel's weights are unpacked once.",
        bits=BITS,
    ),
)

FORMS = (
    Form(
        name="portable_packed_dense",
        kind=LayerKind.DENSE,
        conditions=(INTEGERS, FOUR_BITS, PAIRS),
        pack=pack_convolution,
        cost=3.0,
        sentence="Four channels at once; a byte has the weights of two or four channels.",
        headers=("multiply.h",),
        tiles=portable.TILES,
        bits=BITS,
    ),
    Form(
        name="portable_packed_conv2d",
        kind=LayerKind.CONV2D,
        conditions=(INTEGERS, FOUR_BITS, PAIRS),
        pack=pack_convolution,
        cost=2.7,
        sentence="Two pixels by four channels at once; a byte has two or four weights.",
        headers=("multiply.h",),
        tiles=portable.TILES,
        bits=BITS,
    ),
    Form(
        name="portable_packed_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        conditions=(INTEGERS, FEW_WEIGHTS),
        pack=pack_depthwise,
        cost=4.1,
        sentence="Sums roll along a channel. The channel's weights are unpacked once.",
        headers=("multiply.h",),
        tiles=rv32_depthwise.TILES,
        fit_tile=rv32_depthwise.fit_tile,
        bits=BITS,
    ),
)
