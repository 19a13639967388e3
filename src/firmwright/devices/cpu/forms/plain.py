"""Packs weights for any core in blocks of output channels whose sums stay in registers."""

from __future__ import annotations

from collections.abc import Mapping

from firmwright.devices.cpu.forms.form import Packing, Scratch, Tile
from firmwright.devices.cpu.forms.layer_numbers import describe_record, make_border, scale_arrays
from firmwright.devices.cpu.forms.vectors import fill_lanes
from firmwright.ir.layer import Array, Layer

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


def pack_convolution(layer: Layer, tile: Tile) -> Packing:
    """Pack weights as (group, channel block, tap, channel).

    The last block of a group overlaps the previous block. The taps of a group form runs, one for
    each position in the kernel. A layer without groups has one run.
    """
    return pack_blocks(layer, *tile, scale_arrays(layer))


def pack_blocks(
    layer: Layer,
    pixels: int,
    channels: int,
    scales: Mapping[str, Array],
    run: int = 0,
    kept: bool = False,
) -> Packing:
    """Pack blocks of ``pixels`` by ``channels``, with the arrays ``scales`` by channel.

    The weights have the layout of ``pack_convolution``. A layer without groups may have runs of
    length ``run``, whose sums the C joins in 64 bits. If ``kept`` is true, the C prevents compilers
    from reordering products.
    """
    groups = layer.groups
    outputs = layer.out_channels // groups
    pixels, channels = min(pixels, layer.pixels), min(channels, outputs)
    matrices = layer.matrix.reshape(groups, outputs, layer.taps)
    blocks = matrices[:, fill_lanes(outputs, channels)]
    arrays = {"weights": blocks.transpose(0, 1, 3, 2).astype("int8").reshape(-1), **scales}
    arrays |= make_border(layer)
    words = layer.taps * groups
    joined = bool(run)
    run = run or (layer.channels // groups if groups > 1 else words)
    return Packing(
        arrays,
        {**describe_record(layer), "words": words, "run": run, "group_outputs": outputs},
        {
            "pointwise": layer.is_pointwise,
            "guarded": any(layer.padding),
            "grouped": groups > 1,
            "joined": joined,
            "pixels": pixels,
            "channels": channels,
            "kept": kept,
            "unrolled": next(n for n in UNROLLED if run % n == 0),
        },
        () if layer.is_pointwise else (Scratch("patch", layer.input_dtype, pixels * words),),
    )
