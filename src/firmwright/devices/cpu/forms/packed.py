"""Packs weights of 2 or 4 bits in flash. The C splits them in registers.

The weights of an output channel exceed its lowest weight by at most 15. A digit is u = w - lowest,
from 0 to 15. The uppermost digit of a byte or halfword is v = u - 8. A sum is

    sum(w x) = sum(u x) + lowest · sum(x)

The C computes the sum of the stored inputs once for all channels of a pixel. A byte has the weights
of two channels, b = u0 + 16 v1. Let E = sum((b & 15) x) and B = sum(b x). The channels' sums are E
and (B - E) >> 4. Weights of bytes need as many multiplications. In plain C, a byte may also have
four weights of 2 bits: the masks 3, 15 and 63 replace 15.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmwright.devices.cpu.forms import plain, plane, portable
from firmwright.devices.cpu.forms.digits import pack_channels
from firmwright.devices.cpu.forms.form import Condition, Form, Packing, Tile, fits_bits
from firmwright.devices.cpu.forms.layer_numbers import fill_lanes
from firmwright.devices.cpu.forms.requantize import INTEGERS
from firmwright.ir.layer import Array, Layer

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


def pack_depthwise(layer: Layer, tile: Tile) -> Packing:
    """Pack weights as (channel, tap), in 1, 2 or 4 bits."""
    return pack_channels(plane.pack_depthwise(layer, tile), layer.channels)


FORMS = (
    Form(
        name="portable_packed_dense",
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
        conditions=(INTEGERS, FEW_WEIGHTS),
        pack=pack_depthwise,
        cost=4.1,
        sentence="Sums roll along a channel. The channel's weights are unpacked once.",
        headers=("multiply.h",),
        tiles=plane.TILES,
        fit_tile=plane.fit_tile,
        bits=BITS,
    ),
)
