"""Defines forms for Cortex-M cores with the DSP instructions of Armv7E-M.

:mod:`firmwright.devices.cpu.forms.dsp_bytes` packs the 8-bit weights of layers. Two 16-bit
activations share a word. A product of two activations subtracts the zero point from the columns of
the right operand and stores the differences as halfwords. Both kinds of layers use SXTB16, which
widens bytes 0 and 2 of a word, then bytes 1 and 3. Therefore the middle two of four weights, or of
four rows, are swapped.

A product with few different weights reads them from a table of 16 values in the inner loop. A byte
of flash has the numbers of two weights of a channel. When the layer runs, the C first writes a
table in RAM: the word of two weights for each of the 256 bytes. Then two loads replace the load and
the unpacking of two weights. The weights of layers with several pixels are cheaper if the C decodes
them once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmwright.devices.cpu.forms import addition, dsp_bytes, dsp_depthwise, matrices, wide
from firmwright.devices.cpu.forms.dsp_bytes import (
    MOST_STEPS,
    choose_channels,
    largest_divisor,
    scale_channels,
)
from firmwright.devices.cpu.forms.form import BlockCosts, Condition, Form, Packing, Scratch, Tile
from firmwright.devices.cpu.forms.layer_numbers import (
    describe_gather,
    describe_record,
    make_border,
    scale_arrays,
)
from firmwright.devices.cpu.forms.packed import BITS, LEAST_WEIGHTS, LEVELS
from firmwright.devices.cpu.forms.requantize import INTEGERS
from firmwright.ir.layer import Layer, MatrixProduct

PLAIN_AXIS = Condition("an axis without dilation", lambda layer: 1 in layer.dilation)

PIXELS, CHANNELS = 2, 2
"""The pixels and channels per step.

The sums, four inputs, weights and pointers fill the registers.
"""

STEP = 4
"""The number of taps in a word of weights."""

TILES = (Tile(3, 2), Tile(2, 2))
"""The pixels and channels per step of convolutions of bytes. More pixels share the weights."""

COSTS = BlockCosts(gather=2.75, read=0, load=1.03, product=0.69, result=12.2, block=22.9)
"""The cycles of ``dsp_conv2d`` according to the table of Cortex-M4, fitted to 30 layers and both
tiles."""

COLUMNS = 4
"""The columns per step. The other registers hold the left operand and pointers."""

MOST_FOURS = 5
"""The maximum number of groups of four taps between two branches. C99 limits the length of the
string literal that contains the assembly.
"""


def pack_wide_convolution(layer: Layer) -> Packing:
    """Pack weights as (pair of channels, four taps, channel, tap), padded with zero taps."""
    words = -(-layer.taps // STEP) * STEP
    padded = np.zeros((layer.out_channels, words), np.int64)
    padded[:, : layer.taps] = layer.matrix
    taps = padded.reshape(layer.out_channels, -1, STEP)[:, :, [0, 2, 1, 3]]
    pairs = taps[choose_channels(layer, CHANNELS)].transpose(0, 2, 1, 3)
    arrays = {
        "weights": np.ascontiguousarray(pairs, "int8").view("<i4").reshape(-1),
        **scale_arrays(layer),
        **make_border(layer),
    }
    pixels = min(PIXELS, layer.pixels)
    return Packing(
        arrays,
        {**describe_record(layer), "words": words},
        {
            **describe_gather(layer, pixels),
            "unrolled": largest_divisor(words // STEP, MOST_STEPS),
        },
        (Scratch("patch", "int32", pixels * words // 2),),
    )


def pack_product(product: MatrixProduct) -> Packing:
    """Return only numbers, because the C packs a block of columns when the layer runs."""
    inner, last = product.inner, product.columns - 1
    scales = {name: int(array[0]) for name, array in scale_channels(product.sums).items()}
    whole = inner // 4
    return Packing(
        {},
        {
            **matrices.describe_product(product),
            "multiplier": scales["multipliers"],
            "shift": scales["shifts"],
            **({"offset": scales["offsets"]} if "offsets" in scales else {}),
            "halves": 1 + 2 * product.sums.zero_point,
            **{f"place{i}": min(i, last) for i in range(1, COLUMNS)},
        },
        {
            "unrolled": largest_divisor(whole, MOST_STEPS) if whole else 0,
            "rest": inner % 4,
        },
        (Scratch("packed", "int32", -(-inner // 4) * 2 * COLUMNS),),
    )


def pack_table_dense(layer: Layer) -> Packing:
    """Pack numbers of weights as (four channels, pair of taps, channel), and the ``values``."""
    values = np.unique(layer.matrix)
    numbers = np.searchsorted(values, layer.matrix)
    channels = choose_channels(layer, 4)
    padded = np.pad(numbers, ((0, 0), (0, -layer.taps % 4)))  # their inputs are 0
    ordered = padded[:, dsp_bytes.order_taps(padded.shape[1])][channels]
    pairs = ordered.reshape(*ordered.shape[:2], -1, 2).transpose(0, 2, 1, 3)
    arrays = {
        "weights": (pairs[..., 0] + LEVELS * pairs[..., 1]).astype("uint8").reshape(-1),
        "values": np.pad(values, (0, LEVELS - values.size)).astype("int8"),
    }
    packing = dsp_bytes.describe_product(replace(layer, repeats=1), channels, arrays, paired=False)
    return replace(
        packing,
        scratch=(*packing.scratch, Scratch("table", "int32", LEVELS**2)),
        variant={
            **packing.variant,
            "unrolled": largest_divisor(-(-layer.taps // 4), MOST_FOURS),
        },
    )


WORTH_PAIRS = Condition(
    "two output channels or more, or a window of several pixels",
    lambda layer: layer.out_channels >= 2 or layer.kernel != (1, 1),
)
"""The condition under which pairs of channels are faster than plain C."""

FORMS = (
    Form(
        name="dsp_depthwise_conv2d",
        conditions=(INTEGERS, PLAIN_AXIS),
        pack=dsp_depthwise.pack_depthwise,
        cost=1.9,
        sentence="A channel is copied between its borders; SMLAD computes two products of a row.",
    ),
    Form(
        name="dsp_dense",
        conditions=(INTEGERS,),
        pack=dsp_bytes.pack_dense,
        cost=1.0,
        sentence="A halfword has two channels' weights, so one SMLAD computes four products.",
    ),
    Form(
        name="dsp_sums",
        conditions=(Condition("sums below 2^31", lambda layer: layer.largest_sum < 2**31),),
        pack=dsp_bytes.pack_sums,
        cost=1.0,
        sentence="A halfword has two channels' weights, so one SMLAD computes four products.",
    ),
    Form(
        name="dsp_conv2d",
        conditions=(INTEGERS, WORTH_PAIRS),
        pack=dsp_bytes.pack_convolution,
        cost=1.0,
        sentence="A halfword has two channels' weights, so one SMLAD computes four products.",
        tiles=TILES,
        cycles={"armv7e-m-dsp": COSTS.count_cycles},
    ),
    Form(
        name="dsp_wide_dense",
        conditions=(wide.SCALED, wide.NARROW_SUMS),
        pack=pack_wide_convolution,
        cost=1.5,
        sentence="SMLAD computes two products of 16-bit inputs.",
    ),
    Form(
        name="dsp_wide_conv2d",
        conditions=(wide.SCALED, wide.NARROW_SUMS),
        pack=pack_wide_convolution,
        cost=1.1,
        sentence="SMLAD computes two products of 16-bit inputs.",
    ),
    Form(
        name="dsp_matmul",
        conditions=(matrices.SCALED,),
        pack=pack_product,
        cost=1.1,
        sentence="Four columns are widened without their zero point; SMLAD computes two products.",
    ),
    Form(
        name="dsp_wrapped_sum",
        pack=addition.pack_wrapped_sum,
        sentence="UADD8 or USUB8 computes four bytes.",
        in_place=("input_0", "input_1"),
    ),
    Form(
        name="dsp_table_dense",
        conditions=(
            INTEGERS,
            Condition(
                f"{LEAST_WEIGHTS} or more weights",
                lambda layer: layer.weights.size >= LEAST_WEIGHTS,
            ),
        ),
        pack=pack_table_dense,
        cost=1.6,
        sentence="SMLAD adds two products. A byte selects two weights in a table in RAM.",
        bits=BITS,
        looked_up=True,
    ),
)
