"""Defines forms for x86-64: blocks of 16 output channels, with four successive taps per channel.

The C checks at run time whether the machine has AVX-512 or AVX2. The instruction vpdpbusd of
AVX-512 multiplies unsigned bytes by signed bytes. Therefore the C reads an input as its distance
from the lowest integer of its type, which is an unsigned byte. The bias corrects this distance.
AVX2 widens both operands to 16 bits and adds neighbors, so four channels by four taps fill a
vector.
"""

from __future__ import annotations

import numpy as np

from firmwright.devices.cpu.forms import addition, floats, matrices, resize
from firmwright.devices.cpu.forms.addition import FACTORS, MULTIPLIER
from firmwright.devices.cpu.forms.form import Condition, Form, Packing, Scratch
from firmwright.devices.cpu.forms.layer_numbers import (
    arrange_scales,
    choose_lanes,
    count_row_elements,
    describe_depthwise,
    describe_gather,
    describe_record,
    fill_lanes,
    make_border,
    pad_matrix,
    pad_scales,
)
from firmwright.devices.cpu.forms.requantize import INTEGERS, ROUNDED
from firmwright.ir.layer import Layer, LayerRounding

BLOCK = 16
"""The output channels in a block. Their 32-bit sums fill a vector of 512 bits."""

PIXELS = 4
"""The pixels per step with AVX2. The sums of eight channels need half of the 16 registers."""

WIDE_PIXELS = {1: 12, 2: 8, 3: 8, 4: 6}
"""The pixels per step with AVX-512, by the number of blocks.

The sums need 12 to 24 of 32 registers.
"""

ROW_PIXELS = {1: 16, 2: 12, 3: 8, 4: 6}
"""The maximum number of pixels of a row per step with AVX-512, by the number of blocks."""


COPIED = 16
"""The bytes that AVX-512 copies at once if the taps of a row are not groups of four."""


def pack_convolution(layer: Layer, most_pixels: int = PIXELS) -> Packing:
    """Pack weights as (channel block, four taps, channel, tap)."""
    blocks, words = -(-layer.out_channels // BLOCK), -(-layer.taps // 4) * 4
    padded = pad_matrix(layer, blocks * BLOCK, words)
    weights = padded.reshape(blocks, BLOCK, words // 4, 4).transpose(0, 2, 1, 3)
    lowest = int(np.iinfo(layer.input_dtype).min)
    bias = layer.folded_bias + lowest * layer.matrix.sum(1)
    arrays = {
        "weights": weights.reshape(-1).astype("int8"),
        **pad_scales(layer, bias, blocks * BLOCK),
        **make_border(layer),
    }
    groups = next(n for n in (4, 3, 2, 1) if blocks % n == 0)
    pixels, wide_pixels = min(most_pixels, layer.pixels), min(WIDE_PIXELS[groups], layer.pixels)
    # The C widens the bytes of a single pixel at each read, and the bytes of several pixels once.
    narrow = pixels == 1
    wide_bytes = wide_pixels * words
    in_rows = fits_rows(layer)
    if in_rows:
        wide_pixels = choose_row_pixels(ROW_PIXELS[groups], layer.out_width)
        wide_bytes = count_row_elements(layer)
        if find_run(layer) % 4:
            wide_bytes += wide_pixels * words + 2 * COPIED
    integers = max(words, wide_bytes) if narrow else max(pixels * words, -(-wide_bytes // 2))
    return Packing(
        arrays,
        {**describe_record(layer), "words": words},
        {
            "float_scaled": layer.scaling.rounding is LayerRounding.FLOAT,
            **describe_gather(layer, pixels),
            "narrow": narrow,
            "halves": 1 if pixels > 2 else 2,
            "groups": groups,
            "wide_pixels": wide_pixels,
            "in_rows": in_rows,
            "in_fours": find_run(layer) % 4 == 0,
        },
        (Scratch("patch", "uint8" if narrow else "int16", integers),),
    )


def find_run(layer: Layer) -> int:
    """Return the number of adjacent taps in a row of the input."""
    return layer.channels * (layer.kernel[1] if layer.dilation[1] == 1 else 1)


def fits_rows(layer: Layer) -> bool:
    """Return whether AVX-512 copies rows of the input, instead of the taps of each pixel.

    If the runs of adjacent taps do not consist of groups of four, the C copies the taps of each
    pixel from these rows, 16 bytes at once.
    """
    if layer.is_pointwise or layer.out_width < PIXELS:
        return False
    return find_run(layer) % 4 == 0 or layer.dilation[1] == 1


def choose_row_pixels(most: int, width: int) -> int:
    """Return the number of pixels per step, so that the C computes the fewest pixels twice."""
    most = min(most, width)
    return min(range(most, most // 2, -1), key=lambda n: -(-width // n) * n)


def pack_depthwise(layer: Layer) -> Packing:
    """Pack 16-bit weights as (channel block, two taps, channel, tap). No variant widens the
    weights.

    The last block overlaps the previous one. Fewer than eight channels form a block of eight.
    """
    lanes = choose_lanes(layer.channels)
    indices = fill_lanes(layer.channels, lanes)
    pairs = -(-layer.taps // 2)
    padded = pad_matrix(layer, max(layer.channels, lanes), 2 * pairs)
    weights = padded[indices].reshape(len(indices), lanes, pairs, 2).transpose(0, 2, 1, 3)
    return Packing(
        {
            "weights": weights.reshape(-1).astype("int16"),
            **arrange_scales(layer, layer.folded_bias, indices),
            "border": np.full(BLOCK, layer.input_zero_point, layer.input_dtype),
        },
        describe_record(layer),
        describe_depthwise(layer, lanes),
    )


EIGHT = Condition(
    "eight or more channels, which are not repeated for neighbors",
    lambda layer: layer.channels >= 8 and layer.neighbors == 1,
)

FORMS = (
    Form(
        name="x64_add",
        conditions=(FACTORS,),
        pack=addition.pack_addition,
        sentence="Two multiplications and a shift, of eight elements at once with AVX2.",
        in_place=("input_0", "input_1"),
        shared=True,
    ),
    Form(
        name="x64_multiply",
        conditions=(MULTIPLIER, EIGHT),
        pack=addition.pack_product,
        sentence="Products of eight elements at once with AVX2, proven for every pair of bytes.",
        in_place=("input_0", "input_1"),
        shared=True,
    ),
    Form(
        name="x64_conv2d",
        conditions=(INTEGERS, ROUNDED),
        pack=pack_convolution,
        cost=0.1,
        sentence="Products of four bytes by AVX-512, or of two words by AVX2.",
    ),
    Form(
        name="x64_depthwise_conv2d",
        conditions=(INTEGERS, ROUNDED),
        pack=pack_depthwise,
        cost=0.5,
        sentence="Two taps of 16 channels at once, by AVX-512 or AVX2.",
    ),
    Form(
        name="x64_dense",
        conditions=(INTEGERS, ROUNDED),
        pack=pack_convolution,
        cost=0.1,
        sentence="Products of four bytes by AVX-512, or of two words by AVX2.",
    ),
    Form(
        name="x64_matmul",
        conditions=(matrices.SCALED,),
        pack=matrices.pack_pairs,
        cost=0.4,
        sentence="AVX2's products of two words for four rows by 16 columns, if there is AVX2.",
    ),
    Form(
        name="x64_resize",
        pack=resize.pack_resize,
        sentence="With AVX2, the C adds two weighted rows, then two weighted columns of the sums.",
    ),
    Form(
        name="x64_float_conv2d",
        pack=lambda layer: floats.pack_convolution(layer, floats.X86_64),
        cost=0.15,
        sentence="Floats in blocks of pixels by channels, in the machine's widest vectors.",
        in_place=("added",),
    ),
    Form(
        name="x64_float_depthwise_conv2d",
        conditions=(floats.CHANNELS_LAST,),
        pack=lambda layer: floats.pack_depthwise(layer, floats.X86_64),
        cost=0.2,
        sentence="16 channels at once, in the machine's widest vectors.",
    ),
)
