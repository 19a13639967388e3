"""Packs layers of signs. A word has 32 signs, and a bit is 1 for -1.

A product of two signs is -1 if their bits differ. A sum of n products is
n - 2 · popcount(x ^ w).
"""

from __future__ import annotations

import numpy as np

from firmwright.devices.cpu.forms.form import Form, Packing, Scratch
from firmwright.devices.cpu.forms.layer_numbers import describe_geometry
from firmwright.ir.layer import Array, BinaryLayer

WORD = 32


def pack_signs(signs: Array) -> Array:
    """Return words of signs (channel, tap). The first tap is the lowest bit."""
    padded = np.pad(signs < 0, ((0, 0), (0, -signs.shape[1] % WORD)))
    return np.packbits(padded.reshape(-1), bitorder="little").view("<u4")


def pack_layer(layer: BinaryLayer) -> Packing:
    words = -(-layer.taps // WORD)
    guarded = any(layer.padding)
    compares = layer.output_dtype == "int8"
    numbers = layer.bias.astype("int32") if compares else layer.scales.astype("float32")
    row = layer.kernel[1] * layer.channels
    return Packing(
        {
            "weights": pack_signs(layer.matrix),
            "thresholds" if compares else "scales": numbers,
            **({"border": np.zeros(row, "int8")} if guarded else {}),
        },
        {**describe_geometry(layer), "words": layer.taps, "packed": words},
        {"pointwise": layer.is_pointwise, "guarded": guarded, "compares": compares},
        (
            Scratch("patch", "int8", words * WORD),
            Scratch("bits", "uint32", words * (2 if guarded else 1)),
        ),
    )


FORMS = (
    Form(
        name="portable_binary",
        pack=pack_layer,
        cost=0.5,
        sentence="A word has 32 signs. XOR and a count of bits compute 32 products.",
    ),
)
