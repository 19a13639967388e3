"""Packs weights of 1, 2 or 4 bits for cores with Helium, which splits bytes in vector registers.

A byte has the weights of one tap for two, four or eight channels, so a channel's taps are in one
row, as for bytes. The C multiplies digits that are in the upper bits of their bytes, and shifts the
sums right.
"""

from __future__ import annotations

from dataclasses import replace

from firmwright.devices.cpu.forms import mve
from firmwright.devices.cpu.forms.conditions import INTEGERS, ROUNDED
from firmwright.devices.cpu.forms.digits import Digits, join_rows, split_weights
from firmwright.devices.cpu.forms.form import Form, Packing
from firmwright.devices.cpu.forms.packed import BITS, FEW_WEIGHTS, FOUR_BITS
from firmwright.devices.cpu.forms.vectors import pad_channels
from firmwright.ir.layer import Array, Layer, LayerKind


def pack_convolution(layer: Layer) -> Packing:
    """Pack weights as (row of channels, tap).

    With 4 bits, a row of bytes has the channels n and n + 2, whose sums a convolution adds
    together.
    """
    digits = split_weights(layer.matrix)
    rows = pad_channels(digits.values, -(-layer.out_channels // 8) * 8)
    if digits.bits == 4:
        rows = rows.reshape(-1, 4, layer.taps)[:, [0, 2, 1, 3]].reshape(rows.shape)
    packing = mve.pack_convolution(layer)
    blocks = packing.arrays["bias"].size // mve.BLOCK
    return add_digits(packing, digits, rows[: mve.BLOCK * blocks] if digits.bits > 1 else rows)


def pack_depthwise(layer: Layer) -> Packing:
    """Pack weights as (row of channels, 16 taps)."""
    digits = split_weights(mve.order_taps(layer))
    rows = mve.pad_taps(digits.values)
    packing = add_digits(mve.pack_depthwise(layer), digits, rows)
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


FORMS = (
    Form(
        name="mve_packed_conv2d",
        kind=LayerKind.CONV2D,
        features=frozenset({"armv8.1-m-mve"}),
        conditions=(INTEGERS, ROUNDED, FOUR_BITS),
        pack=pack_convolution,
        cost=0.22,
        sentence="VMLADAVA adds 16 products at once. A byte has the weights of 2 to 8 channels.",
        bits=BITS,
    ),
    Form(
        name="mve_packed_dense",
        kind=LayerKind.DENSE,
        features=frozenset({"armv8.1-m-mve"}),
        conditions=(INTEGERS, ROUNDED, FOUR_BITS),
        pack=pack_convolution,
        cost=0.22,
        sentence="VMLADAVA adds 16 products at once. A byte has the weights of 2 to 8 channels.",
        bits=BITS,
    ),
    Form(
        name="mve_packed_depthwise_conv2d",
        kind=LayerKind.DEPTHWISE_CONV2D,
        features=frozenset({"armv8.1-m-mve"}),
        conditions=(INTEGERS, ROUNDED, mve.NEAR_TAPS, mve.FEW_TAPS, FEW_WEIGHTS),
        pack=pack_depthwise,
        cost=0.85,
        sentence="One load gathers all taps of a pixel. A byte has the weights of 2 to 8 channels.",
        bits=BITS,
    ),
)
