"""Packs weights of 1, 2 or 4 bits for Arm's DSP extension.

A digit is u = w - lowest, from 0 to 15. The uppermost digit of a byte or halfword is v = u - 8.
A word has two taps of four channels. Each halfword is h = u0 + 16 u1 + 256 u2 + 4096 v3. SMLAD adds
four sums of both taps:

    A = sum(h x), C = sum(u0 x), D = 256 sum(u2 x), U = sum((h >> 8) x)

The channels' sums are C, (A - C - 256 U) >> 4, D >> 8 and (U - (D >> 8)) >> 4. A may exceed 32
bits, because its upper bits cancel. A convolution has two channels per byte, so that the sums of
three pixels stay in registers.

A halfword of digits u of 1 or 2 bits has the channels of a tap, then the channels of the next taps.
The weights are step u + lowest. The C masks one digit per half of a word, so the sum of channel c
is multiplied by 2^(bits c). A shift moves the next taps to the lowest bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from firmwright.devices.cpu.forms import digits, dsp, dsp_bytes, dsp_depthwise, packed
from firmwright.devices.cpu.forms.form import Condition, Form, Packing, Tile
from firmwright.devices.cpu.forms.packed import (
    BITS,
    FEW_WEIGHTS,
    FOUR_BITS,
    LEAST_WEIGHTS,
    LEVELS,
    PAIRS,
)
from firmwright.devices.cpu.forms.requantize import INTEGERS
from firmwright.ir.layer import Array, Layer


@dataclass(frozen=True)
class Unsigned:
    """The digits u of weights, (channel, tap), from 0. ``lows`` is None for common lowest weights.

    The lows of digits of 4 bits are the weights whose digits are 8.
    """

    values: Array
    bits: int
    step: int
    lows: Array | None

    @property
    def variant(self) -> dict[str, int]:
        """Return the variables of templates."""
        return {"bits": self.bits, "factor": self.step, "based": self.lows is not None}


def split_weights(layer: Layer, least: int = 1) -> Unsigned:
    """Return the digits of weights (channel, …) in the fewest bits, but at least ``least``."""
    signed = digits.split_weights(layer.matrix, least)
    if signed.bits == BITS:
        values, bases = packed.split_weights(layer)
        return Unsigned(values, BITS, 1, bases.get("bases"))
    half = 1 << signed.bits - 1
    lows = signed.bases - signed.step * half if signed.bases.any() else None
    return Unsigned(signed.values + half, signed.bits, signed.step, lows)


def join_taps(values: Array, bits: int) -> Array:
    """Return words of digits (blocks, channels, taps) of 1 or 2 bits, (blocks, words).

    A halfword has the digits of every second tap.
    """
    blocks, channels, _ = values.shape
    taps = 16 // (bits * channels)
    ordered = values.reshape(blocks, channels, -1, taps, 2).transpose(0, 2, 4, 3, 1)
    halves = ordered.reshape(*ordered.shape[:3], -1) << bits * np.arange(taps * channels)
    words: Array = halves.sum(-1).astype("<u2").view("<i4")
    return words.reshape(blocks, -1)


def pack_dense(layer: Layer) -> Packing:
    """Pack weights as (four channels, pair of taps), or as (four channels, word of taps).

    A word has eight taps of 1 bit, so other numbers of taps have 2 bits.
    """
    fours = -(-layer.taps // 4)
    unsigned = split_weights(layer, 1 if fours % 2 == 0 else 2)
    channels = dsp_bytes.choose_channels(layer, 4)
    padded = np.pad(unsigned.values, ((0, 0), (0, 4 * fours - layer.taps)))
    ordered = padded[:, dsp_bytes.order_taps(4 * fours)][channels]
    if unsigned.bits < BITS:
        words = join_taps(ordered, unsigned.bits)
    else:
        words = packed.join_digits(ordered.transpose(0, 2, 1)).astype("<i2").view("<i4")
    arrays = {"weights": words.reshape(-1), **find_lows(unsigned, channels)}
    single = replace(layer, repeats=1)  # the loop adds its sums after the products
    packing = dsp_bytes.describe_product(single, channels, arrays, paired=False)
    of_word = 2 if unsigned.bits == 1 else 1
    unrolled = of_word * dsp_bytes.largest_divisor(fours // of_word, 8 // of_word)
    return replace(packing, variant={**packing.variant, **unsigned.variant, "unrolled": unrolled})


def pack_convolution(layer: Layer, tile: Tile) -> Packing:
    """Pack weights as (pair of channels, row of the kernel, taps, channel)."""
    unsigned = split_weights(layer)
    channels = dsp_bytes.choose_channels(layer, 2)
    least = BITS * 2 // unsigned.bits
    ordered = dsp_bytes.arrange_taps(layer, unsigned.values, least)[channels]
    if unsigned.bits < BITS:
        words = join_taps(ordered, unsigned.bits)
    else:
        pairs = packed.join_digits(ordered.transpose(0, 2, 1)).astype("int8")
        # A word has two pairs of taps. SXTB16 widens the bytes 0 and 2, then the bytes 1 and 3.
        words = np.ascontiguousarray(pairs.reshape(-1, 4)[:, [0, 2, 1, 3]]).view("<i4")
    arrays = {"weights": words.reshape(-1), **find_lows(unsigned, channels)}
    packing = dsp_bytes.describe_convolution(
        layer, tile, channels, arrays, paired=False, least=least
    )
    return replace(packing, variant={**packing.variant, **unsigned.variant})


def pack_depthwise(layer: Layer) -> Packing:
    """Pack weights as (channel, tap), in 1, 2 or 4 bits."""
    return digits.pack_channels(dsp_depthwise.pack_depthwise(layer), layer.channels)


def find_lows(unsigned: Unsigned, channels: Array) -> dict[str, Array]:
    """Return the ``lows`` of blocks of channels. The last digit of 4 bits has a sign."""
    if unsigned.lows is None:
        return {}
    lows = unsigned.lows[channels].astype("int64")
    if unsigned.bits == BITS:
        lows[:, :-1] -= LEVELS // 2
    return {"lows": lows.astype("int8").reshape(-1)}


def fits_upper_bytes(layer: Layer) -> bool:
    """Return whether 256 times the sum of a channel's digits fits 32 bits."""
    limits = np.iinfo(layer.input_dtype)
    return layer.taps * (LEVELS - 1) * max(-limits.min, limits.max) < 2**23


FORMS = (
    Form(
        name="dsp_packed_dense",
        conditions=(
            INTEGERS,
            Condition(
                f"{LEAST_WEIGHTS} or more weights of 4 bits, and fewer than 2,194 inputs, or 4,370 "
                "of int8",
                lambda layer: packed.is_packable(layer) and fits_upper_bytes(layer),
            ),
            PAIRS,
        ),
        pack=pack_dense,
        cost=1.2,
        sentence="SMLAD adds two products. A halfword has weights of 4 channels, in 1 to 4 bits.",
        bits=BITS,
    ),
    Form(
        name="dsp_packed_conv2d",
        conditions=(INTEGERS, FOUR_BITS, PAIRS),
        pack=pack_convolution,
        cost=1.2,
        sentence="SMLAD adds two products. A byte has weights of two channels, in 1, 2 or 4 bits.",
        tiles=dsp.TILES,
        bits=BITS,
    ),
    Form(
        name="dsp_packed_depthwise_conv2d",
        conditions=(INTEGERS, dsp.PLAIN_AXIS, FEW_WEIGHTS),
        pack=pack_depthwise,
        cost=2.0,
        sentence="SMLAD computes two products of a row. A channel's weights are unpacked once.",
        bits=BITS,
    ),
)
