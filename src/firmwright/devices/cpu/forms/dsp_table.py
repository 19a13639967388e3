"""Reads the weights of a product from a table of 16 values in the inner loop.

A byte of flash has the numbers of two weights of a channel. When the layer runs, the C first writes
a table in RAM: the word of two weights for each of the 256 bytes. Then two loads replace the load
and the unpacking of two weights. The weights of layers with several pixels are cheaper if the C
decodes them once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmwright.devices.cpu.forms import dsp_bytes
from firmwright.devices.cpu.forms.conditions import INTEGERS
from firmwright.devices.cpu.forms.form import Condition, Form, Packing, Scratch
from firmwright.devices.cpu.forms.packed import BITS, LEAST_WEIGHTS
from firmwright.ir.layer import Layer, LayerKind

LEVELS = 1 << BITS

MOST_FOURS = 5
"""The maximum number of groups of four taps between two branches. C99 limits the length of the
string literal that contains the assembly.
"""


def pack_dense(layer: Layer) -> Packing:
    """Pack numbers of weights as (four channels, pair of taps, channel), and the ``values``."""
    values = np.unique(layer.matrix)
    numbers = np.searchsorted(values, layer.matrix)
    channels = dsp_bytes.choose_channels(layer, 4)
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
            "unrolled": dsp_bytes.largest_divisor(-(-layer.taps // 4), MOST_FOURS),
        },
    )


FORMS = (
    Form(
        name="dsp_table_dense",
        kind=LayerKind.DENSE,
        features=frozenset({"armv7e-m-dsp"}),
        conditions=(
            INTEGERS,
            Condition(
                f"{LEAST_WEIGHTS} or more weights",
                lambda layer: layer.weights.size >= LEAST_WEIGHTS,
            ),
        ),
        pack=pack_dense,
        cost=1.6,
        sentence="SMLAD adds two products. A byte selects two weights in a table in RAM.",
        bits=BITS,
        looked_up=True,
    ),
)
