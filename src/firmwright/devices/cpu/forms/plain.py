"""Packs weights for any core in blocks of output channels whose sums stay in registers."""

from __future__ import annotations

from firmwright.devices.cpu.forms.form import Packing, Scratch, Tile
from firmwright.devices.cpu.forms.layer_numbers import (
    describe_gather,
    describe_record,
    fill_lanes,
    make_border,
    scale_arrays,
)
from firmwright.devices.cpu.forms.wide import find_run
from firmwright.ir.layer import Layer

PIXELS, CHANNELS = 2, 4
"""The pixels and channels per step.

Sums, two inputs, a weight and three pointers fill 14 registers.
"""

LARGE_BLOCK = 4
"""The pixels, and the channels, of a large block.

The sums, a row of weights and the pointers fill 25 of 32 registers.
"""

UNROLLED = (4, 3, 2, 1)
"""The possible numbers of taps between two branches."""


def pack_convolution(layer: Layer, tile: Tile, kept: bool = False) -> Packing:
    """Pack weights as (group, channel block, tap, channel), in blocks of the size of ``tile``.

    The last block of a group overlaps the previous block. The taps of a group form runs, one for
    each position in the kernel. A layer without groups has one run, or runs whose sums the C joins
    in 64 bits. If ``kept`` is true, the C prevents compilers from reordering products.
    """
    groups = layer.groups
    outputs = layer.out_channels // groups
    pixels, channels = min(tile.pixels, layer.pixels), min(tile.channels, outputs)
    matrices = layer.matrix.reshape(groups, outputs, layer.taps)
    blocks = matrices[:, fill_lanes(outputs, channels)]
    weights = blocks.transpose(0, 1, 3, 2).astype("int8").reshape(-1)
    words = layer.taps * groups
    joined = find_run(layer) if layer.is_wide else 0
    run = joined or (layer.channels // groups if groups > 1 else words)
    return Packing(
        {"weights": weights, **scale_arrays(layer), **make_border(layer)},
        {**describe_record(layer), "words": words, "run": run, "group_outputs": outputs},
        {
            **describe_gather(layer, pixels),
            "grouped": groups > 1,
            "joined": joined > 0,
            "channels": channels,
            "kept": kept,
            "unrolled": next(n for n in UNROLLED if run % n == 0),
        },
        () if layer.is_pointwise else (Scratch("patch", layer.input_dtype, pixels * words),),
    )


def pack_large_convolution(layer: Layer) -> Packing:
    """Pack weights in larger blocks, for cores with 32 registers."""
    return pack_convolution(layer, Tile(LARGE_BLOCK, LARGE_BLOCK), kept=True)
