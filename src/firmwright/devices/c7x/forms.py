"""Defines the C7x forms: layers with vector code, and their conditions."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from firmwright.devices.c7x.cost import Core
from firmwright.devices.c7x.strips import CHANNELS, Strips
from firmwright.devices.cpu.forms.addition import FACTORS, pack_addition
from firmwright.devices.cpu.forms.form import Condition, Form, Packing
from firmwright.devices.cpu.forms.layer_numbers import describe_geometry, fill_lanes
from firmwright.devices.cpu.forms.requantize import INTEGERS, make_requantization
from firmwright.ir.layer import Addition, Array, Layer

UNDILATED = Condition("a kernel without gaps in its rows", lambda layer: layer.dilation[1] == 1)

LAYERS = "c7x/layers"

SUMS = (
    "The DMA moves strips of rows during the computation. The streaming engines deliver weights "
    "and inputs; the loop over products has no branch and computes no address."
)


FLOAT_SHIFT = 24
"""The smallest shift after a product with a float's mantissa.

The channels that fill a block use this shift.
"""


@cache
def make_forms(core: Core) -> tuple[Form, ...]:
    """Return the forms of a core. Within a kind of layer, they are in the order of preference."""
    conditions = (
        INTEGERS,
        Condition(
            f"rows and weights of {CHANNELS} channels that fit {core.local_memory:,} bytes",
            lambda layer: cut(core, layer).fits,
        ),
    )
    pack = partial(pack_sums, core)
    return (
        Form(
            name="c7x_conv2d",
            conditions=(*conditions, UNDILATED),
            pack=pack,
            folder=LAYERS,
            sentence=f"{SUMS} A vector has the products of four taps with each channel.",
        ),
        Form(
            name="c7x_depthwise_conv2d",
            conditions=conditions,
            pack=pack,
            folder=LAYERS,
            sentence=f"{SUMS} A vector has one tap of each channel.",
        ),
        Form(
            name="c7x_dense",
            conditions=conditions,
            pack=pack,
            folder=LAYERS,
            sentence=f"{SUMS} A vector has the products of four inputs with each channel.",
        ),
        Form(
            name="c7x_add",
            conditions=(FACTORS,),
            pack=pack_pair,
            folder=LAYERS,
            sentence="Two multiplications and a shift in vectors; the streaming engines deliver "
            "both inputs.",
        ),
    )


def cut(core: Core, layer: Layer) -> Strips:
    return Strips(layer, core.vector, core.local_memory)


def pack_sums(core: Core, layer: Layer) -> Packing:
    """Return the packed weights of blocks of 16 channels.

    The last block overlaps the previous block.
    """
    strips = cut(core, layer)
    picture = strips.geometry
    indices = fill_lanes(layer.out_channels, CHANNELS)
    record = {
        **describe_geometry(layer),
        "height": picture.height,
        "width": picture.width,
        "out_height": picture.out_height,
        "out_width": picture.out_width,
        "rows": strips.rows,
        "strips": strips.strips,
        "tile": strips.tile,
        "tiles": strips.tiles,
        "kernel_columns": strips.kernel_columns,
        "input_rows": strips.input_rows(strips.rows),
        "row": strips.row_bytes,
        "before": strips.before,
        "inside": strips.inside,
        "border": layer.input_zero_point,
        "strip": strips.input_bytes(strips.rows),
        "result": strips.output_bytes(strips.rows),
        "blocks": strips.blocks,
        "chunk": strips.chunk,
        "block": strips.block_bytes,
        "piece": strips.piece,
    }
    weights = order_each(layer, indices) if strips.each else order_groups(layer, indices)
    return Packing(
        {"weights": weights, "scales": pack_scales(layer, indices, strips.each)},
        record,
        {
            "each": strips.each,
            "guarded": any(layer.padding),
            "chunked": strips.chunk < strips.blocks,
        },
    )


def order_groups(layer: Layer, indices: Array) -> Array:
    """Return weights as flat int8 (block, row of the kernel, word, channel, byte of the word)."""
    rows = fill_channels(layer.matrix, indices).reshape(indices.size, layer.kernel[0], -1)
    padded = np.pad(rows, ((0, 0), (0, 0), (0, -rows.shape[2] % 4)))
    words = padded.reshape(*indices.shape, layer.kernel[0], -1, 4)
    ordered: Array = words.transpose(0, 2, 3, 1, 4).reshape(-1).astype("int8")
    return ordered


def order_each(layer: Layer, indices: Array) -> Array:
    """Return weights as flat int8 (block, tap, channel)."""
    taps = fill_channels(layer.matrix, indices).reshape(*indices.shape, -1)
    ordered: Array = taps.transpose(0, 2, 1).reshape(-1).astype("int8")
    return ordered


def fill_channels(array: Array, indices: Array, value: int = 0) -> Array:
    """Return the rows (O, …) of the channels of all blocks.

    If a single block is not full, the rows are padded.
    """
    missing = max(int(indices.max()) + 1 - len(array), 0)
    filled = np.pad(array, ((0, missing), *[(0, 0)] * (array.ndim - 1)), constant_values=value)
    picked: Array = filled[indices.reshape(-1)]
    return picked


def pack_scales(layer: Layer, indices: Array, each: bool) -> Array:
    """Return biases, multipliers, offsets and shifts as flat int32 (block, number, channel).

    Products of words read an input byte as a distance from the lowest integer of its type. The
    biases correct this distance.
    """
    numbers = make_requantization(layer)
    lowest = 0 if each else int(np.iinfo(layer.input_dtype).min)
    biases = layer.folded_bias + lowest * layer.matrix.sum(1)
    parts = (
        fill_channels(biases, indices),
        fill_channels(numbers.multipliers, indices),
        fill_channels(numbers.offsets, indices),
        fill_channels(numbers.shifts, indices, FLOAT_SHIFT),
    )
    stacked = np.stack([part.reshape(indices.shape) for part in parts], 1)
    packed: Array = stacked.reshape(-1).astype("int32")
    return packed


def pack_pair(layer: Addition) -> Packing:
    signed = {
        f"{name}_is_signed": int(dtype == "int8")
        for name, dtype in zip("ab", layer.input_dtypes, strict=True)
    }
    return Packing({}, {**pack_addition(layer).record, **signed}, {})
