"""Stores weights as numbers of a table with 2, 4 or 16 values, for cores with vectors of bytes.

One instruction reads the weights of a vector from the table, so a form multiplies the same bytes
as the form for weights of 8 bits. Weights that fill a layer's last vectors are 0.

A block has a fixed number of weights and P bytes. Digit d of byte n is the number of weight
d · P + n. Therefore a vector needs one shift and one mask before it reads the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from firmwright.devices.cpu.forms import dot, neon, x64
from firmwright.devices.cpu.forms.digits import WIDTHS, join_rows
from firmwright.devices.cpu.forms.form import Condition, Form, Packing
from firmwright.devices.cpu.forms.packed import BITS, FEW_WEIGHTS, FOUR_BITS
from firmwright.devices.cpu.forms.requantize import INTEGERS, ROUNDED
from firmwright.ir.layer import Array, Layer

BLOCK = 64
"""The weights that a convolution or product unpacks at once."""


def has_few_values(layer: Layer) -> bool:
    """Return whether a table of 16 values contains all weights of a layer, and 0."""
    return len({0, *np.unique(layer.weights).tolist()}) <= 1 << BITS


def list_values(weights: Array) -> tuple[int, list[int]]:
    """Return the bits of a number, and the values of a table, in ascending order.

    Layers whose weights fit signed integers of these bits have equal tables, and share functions.
    """
    values = np.unique(weights).tolist()
    for bits in WIDTHS:
        half = 1 << bits - 1
        if -half <= values[0] and values[-1] < half:
            return bits, [*range(-half, half)]
        if len(values) <= 1 << bits:
            return bits, values
    raise AssertionError("the weights have more than 16 values")


def pack_table(packing: Packing, block: int = BLOCK) -> Packing:
    """Return a packing with a table and numbers of its values, in blocks of weights."""
    weights = packing.arrays["weights"]
    bits, values = list_values(weights)
    numbers = np.searchsorted(values, weights).reshape(-1, 8 // bits, block * bits // 8)
    arrays = {**packing.arrays, "weights": join_rows(numbers.transpose(0, 2, 1), bits).reshape(-1)}
    table = [*values, *[0] * (16 - len(values))]
    variant = {**packing.variant, "bits": bits, "table": table, "block": block}
    return replace(packing, arrays=arrays, variant=variant)


def pack_neon(layer: Layer) -> Packing:
    return pack_table(neon.pack_convolution(layer, neon.STEP))


def pack_dot(layer: Layer) -> Packing:
    return pack_table(dot.pack_convolution(layer))


def pack_matrices(layer: Layer) -> Packing:
    return pack_table(dot.pack_matrices(layer))


def pack_x64(layer: Layer) -> Packing:
    """Pack a convolution for blocks of two pixels by 16 channels with AVX2."""
    return pack_table(x64.pack_convolution(layer, 2))


def pack_neon_depthwise(layer: Layer) -> Packing:
    return pack_channels(neon.pack_depthwise(layer))


def pack_x64_depthwise(layer: Layer) -> Packing:
    return pack_channels(x64.pack_depthwise(layer))


def pack_channels(packing: Packing) -> Packing:
    """Return a packing of a depthwise convolution. The C unpacks a block of channels once."""
    blocks = len(packing.arrays["bias"]) // packing.variant["lanes"]
    return pack_table(packing, packing.arrays["weights"].size // blocks)


FEW_VALUES = Condition("at most 16 different weights, with 0", has_few_values)
WIDE = Condition("16 or more output channels", lambda layer: layer.out_channels >= 16)


def make_form(
    name: str, pack: Callable[[Layer], Packing], cost: float, sentence: str, *conditions: Condition
) -> Form:
    size = FEW_WEIGHTS if "depthwise" in name else FOUR_BITS
    return Form(
        name=name,
        conditions=(INTEGERS, ROUNDED, size, FEW_VALUES, *conditions),
        pack=pack,
        cost=cost,
        sentence=f"{sentence} A number of 1, 2 or 4 bits selects a weight in a table.",
        bits=BITS,
    )


BYTES = "Products of four bytes by AVX-512, or of two words by AVX2."
SDOT = "SDOT computes 16 products."

FORMS = (
    make_form("x64_packed_conv2d", pack_x64, 0.12, BYTES),
    make_form("x64_packed_dense", pack_x64, 0.12, BYTES),
    make_form("x64_packed_depthwise_conv2d", pack_x64_depthwise, 0.6,
              "Two taps of 16 channels at once."),
    make_form("mmla_packed_conv2d", pack_matrices, 0.08,
              "SMMLA computes 32 products.", dot.TWO_PIXELS, WIDE),
    make_form("dot_packed_conv2d", pack_dot, 0.15, SDOT, WIDE),
    make_form("dot_packed_dense", pack_dot, 0.15, SDOT, WIDE),
    make_form("neon_packed_conv2d", pack_neon, 0.3,
              "Eight bytes at once.", neon.SMALL_WEIGHTS),
    make_form("neon_packed_dense", pack_neon, 0.35,
              "Eight bytes at once.", neon.SMALL_WEIGHTS),
    make_form("neon_packed_depthwise_conv2d", pack_neon_depthwise, 0.7,
              "Eight channels at once.", neon.SMALL_WEIGHTS),
)  # fmt: skip
