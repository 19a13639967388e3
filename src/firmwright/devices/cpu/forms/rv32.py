"""Defines forms for 32-bit RISC-V cores with multiplication: two sums of 16 bits share a word.

The product of x0 + 2^16 x1 and w is x0 w + 2^16 x1 w. A word holds the sums of the products of a
group of taps. The word starts at 2^15, so that the lower half never borrows. Then the C adds the
upper half of the word to one sum, and the whole word to another sum. At the end, the C computes the
lower sum from these two sums.

Separate functions pack a block's inputs and add its products. Layers that share these functions
differ only in numbers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmwright.devices.cpu.forms import addition, matrices, plain, plane, rv32_dense, wide
from firmwright.devices.cpu.forms.form import (
    Condition,
    Form,
    Packing,
    Scratch,
    TemplateVariables,
    Tile,
)
from firmwright.devices.cpu.forms.layer_numbers import describe_record, scale_arrays
from firmwright.devices.cpu.forms.requantize import INTEGERS
from firmwright.devices.cpu.forms.tap_order import (
    LARGEST_GROUP,
    SMALL_GROUP,
    TapOrder,
    count_groups,
    find_tap_order,
    largest_group_weight,
)
from firmwright.ir.kernels import C_TYPES
from firmwright.ir.layer import Array, Layer, LayerRounding

SHARED_SIZES = range(3, LARGEST_GROUP + 1)
"""Group sizes with loops in a function that layers share."""

SHARED_ROW = ((3, 3), (1, 1))
"""The most frequent kernel and strides.

Layers with this kernel and these strides share a function that packs rows.
"""

CENTER = 128
"""The number that the C subtracts from inputs of uint8."""

WIDEST_ROW = 5
"""The maximum columns of a kernel for which a block's inputs stay in registers."""

REACH = 127
"""The maximum positions by which a tap may move, so that the distance fits a byte."""

NARROW = 2**10
"""The maximum output channels for which a word holds the positions and shifts of two channels."""

SHIFT_BITS = 6
"""The bits of a shift. A product with a float's mantissa has a shift of up to 45."""


PART = (
    "const void *restrict from, const int8_t *restrict moves, int32_t *restrict patch, "
    "int32_t y, int32_t x"
)
"""Parameters of the functions that pack the pixels of a block, starting at output pixel (x, y)."""


def fit_tile(layer: Layer, tile: Tile) -> Tile:
    """Return a tile of whole pairs of pixels that does not exceed a layer's output."""
    return Tile(min(tile.pixels, layer.pixels // 2 * 2), min(tile.channels, layer.out_channels))


def pack_convolution(layer: Layer, tile: Tile) -> Packing:
    """Pack weights as (channel block, tap, channel), and list the numbers of its blocks.

    ``blocks`` has runs of blocks whose groups have equal sizes. ``moves`` has the number of
    positions by which each tap of the input moves.
    """
    pairs = tile.pixels // 2
    if layer.is_pointwise:
        layer = join_rows(layer)
    limit = largest_group_weight("int8")  # the C subtracts 128 from inputs of uint8
    tap_order = find_tap_order(layer.matrix, limit, tile.channels, REACH)
    sizes = {grouping.size for grouping in tap_order.groupings}
    longest = max(count_groups(layer.taps, size) * size for size in sizes)
    border = layer.channels if any(layer.padding) else 0
    twice = layer.scaling.rounding is LayerRounding.TWICE
    one_shift = layer.low >= layer.zero_point
    weights, numbers = pack_blocks(layer, tap_order, tile, longest)
    separate, shared = describe_texts(layer, sizes, tile)
    return Packing(
        {
            "weights": weights,
            "blocks": numbers,
            "moves": (np.argsort(tap_order.order) - np.arange(layer.taps)).astype("int8"),
        },
        {
            **describe_record(layer),
            **find_inner_blocks(layer, tile.pixels),
            "runs": len(tap_order.groupings),
            "odd": int(twice and one_shift),
            "halved": int(twice and not one_shift),
            "zero": layer.input_zero_point,
            "border": border,
            "border_at": longest * pairs,
        },
        separate.variant,
        (Scratch("patch", "int32", longest * pairs + -(-border // 4)),),
        separate.parts,
        PART,
        shared,
    )


def subtract_center(layer: Layer) -> Layer:
    """Return a layer of uint8 with the biases for inputs from which 128 is subtracted.

    Without the subtraction, groups of taps have half as many products.
    """
    if layer.input_dtype != "uint8":
        return layer
    return replace(layer, bias=layer.bias + CENTER * layer.matrix.sum(1, dtype=np.int64))


def join_rows(layer: Layer) -> Layer:
    pixels = layer.pixels
    return replace(layer, height=1, width=pixels, out_height=1, out_width=pixels, dilation=(1, 1))


def describe_texts(
    layer: Layer, sizes: set[int], tile: Tile
) -> tuple[TemplateVariables, TemplateVariables]:
    pairs = tile.pixels // 2
    words = share_columns(layer, pairs)
    reads_rows = bool(words) and find_inner_blocks(layer, tile.pixels)["inner_columns"] > 0
    common = {"pairs": pairs, "input_type": C_TYPES[layer.input_dtype]}
    main = {
        "pairs": pairs,
        "channels": tile.channels,
        "small_group": SMALL_GROUP,
        "wide": layer.out_channels > NARROW,
    }
    row = {
        **common,
        "columns": sorted({column for word in words for column in word[:2]}),
        "kernel_width": layer.kernel[1],
        "pairs_of_columns": words,
        "steps": [next(n for n in (4, 3, 2, 1) if layer.channels % n == 0)],
    }
    gather = {**common, "guarded": any(layer.padding), "steps": row["steps"]}
    separate = TemplateVariables(
        {**main, "sizes": sorted(sizes), "rows": "inner" if reads_rows else "none"},
        {"gather": gather, "gather_row": row if reads_rows else None},
    )
    if layer.is_pointwise:
        separate = replace(
            separate, variant={**separate.variant, "rows": "all"}, parts={"gather_row": row}
        )
    common_row = (layer.kernel, layer.strides) == SHARED_ROW and reads_rows
    all_sizes = sizes <= set(SHARED_SIZES)
    mixed = layer.scaling.rounding is LayerRounding.TWICE
    shared = TemplateVariables(
        {
            **main,
            "sizes": [*SHARED_SIZES] if all_sizes else sorted(sizes),
            "rows": "some",
            **({"one_shift": None, "twice_in_one_shift": None} if mixed else {}),
        },
        {
            "gather": {**common, "guarded": True, "steps": [4, 1]},
            "gather_row": {**row, "steps": [4, 1]} if common_row else None,
        },
    )
    return separate, shared


def pack_blocks(layer: Layer, tap_order: TapOrder, tile: Tile, longest: int) -> tuple[Array, Array]:
    """Return the weights and the numbers of all runs of blocks.

    A run begins with the size of its groups and the number of words that a block reads. The carries
    of its groups and the words of its blocks follow. A block has the biases and multipliers of its
    channels, and offsets if shifts do not determine them. The positions and shifts of the channels
    follow.
    """
    padded = np.zeros((layer.out_channels, longest), np.int64)
    padded[:, : layer.taps] = layer.matrix[:, tap_order.order]
    scales = scale_arrays(layer)
    # The other layer's sums are equal, but its multipliers may differ from those of the C.
    scales["bias"] = subtract_center(layer).folded_bias.astype("int32")
    shifts = scales.pop("shifts").astype("int64")
    packed = np.arange(layer.out_channels) << SHIFT_BITS | shifts
    columns = [array.astype("int64") for array in scales.values()]
    weights: list[Array] = []
    numbers: list[Array] = []
    for grouping in tap_order.groupings:
        groups = count_groups(layer.taps, grouping.size)
        taps = groups * grouping.size
        of_blocks = fill_blocks(grouping.channels, tile.channels)
        weights += [padded[rows, :taps].T.reshape(-1) for rows in of_blocks]
        blocks = [column[of_blocks] for column in columns]
        at = np.pad(packed[of_blocks], ((0, 0), (0, tile.channels % 2)))
        narrow = layer.out_channels <= NARROW
        blocks.append(at[:, ::2] | at[:, 1::2] << 16 if narrow else at[:, : tile.channels])
        block = np.concatenate(blocks, axis=1).reshape(-1)
        words = taps * tile.pixels // 2
        numbers += [np.array([grouping.size, words, groups << 15, block.size]), block]
    bits = np.concatenate(numbers) & 0xFFFFFFFF
    return np.concatenate(weights).astype("int8"), bits.astype("uint32").view("int32")


def fill_blocks(channels: Array, size: int) -> Array:
    """Return channels as (blocks, size). Some channels occur twice to fill the blocks."""
    count = -(-channels.size // size) * size
    return np.sort(np.resize(channels, count)).reshape(-1, size)


def find_inner_blocks(layer: Layer, pixels: int) -> dict[str, int]:
    """Return the first positions of blocks of ``pixels`` in one row that read no padding."""
    starts, counts = [], []
    sizes = zip((layer.height, layer.width), (layer.out_height, layer.out_width), strict=True)
    for axis, (size, out_size) in enumerate(sizes):
        reach = (layer.kernel[axis] - 1) * layer.dilation[axis]
        before, stride = layer.padding[axis], layer.strides[axis]
        starts.append(-(-before // stride))
        last = min(out_size - 1, (size - 1 - reach + before) // stride)
        counts.append(max(last + 1 - starts[axis], 0))
    inner = min(counts[0], 1) * max(counts[1] - pixels + 1, 0)
    return {
        "inner_top": starts[0],
        "inner_left": starts[1],
        "inner_rows": counts[0],
        "inner_columns": inner,
    }


def share_columns(layer: Layer, pairs: int) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """Return the pairs of input columns that a block in a row reads.

    Each pair has the columns of the kernel and the pairs of output pixels that use the pair.
    """
    if layer.dilation[1] != 1 or layer.kernel[1] > WIDEST_ROW:
        return []
    words: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for column in range(layer.kernel[1]):
        for pair in range(pairs):
            low = 2 * pair * layer.strides[1] + column
            words.setdefault((low, low + layer.strides[1]), []).append((column, pair))
    return [(*columns, uses) for columns, uses in words.items()]


TILES = (Tile(6, 2), Tile(4, 2), Tile(4, 3))
"""The tiles that fill the registers.

A tile has three pairs of pixels by two channels, or two pairs by two or three channels.
"""

FORMS = (
    Form(
        name="rv32m_conv2d",
        conditions=(
            INTEGERS,
            Condition("two output channels or more", lambda layer: layer.out_channels >= 2),
            Condition("four output pixels or more", lambda layer: layer.pixels >= 4),
        ),
        pack=pack_convolution,
        cost=2.2,
        sentence="A word has two pixels, so one multiplication computes two multiply-accumulates.",
        shared=True,
        tiles=TILES,
        fit_tile=fit_tile,
    ),
    Form(
        name="rv32m_depthwise_conv2d",
        conditions=(INTEGERS,),
        pack=plane.pack_depthwise,
        cost=3.8,
        sentence="Sums roll along a channel that is copied between its borders.",
        tiles=plane.TILES,
        fit_tile=plane.fit_tile,
    ),
    Form(
        name="rv32m_dense",
        conditions=(INTEGERS,),
        pack=rv32_dense.pack_dense,
        cost=2.3,
        sentence="A word has four channels; one multiplication computes two multiply-accumulates.",
        shared=True,
        cycles={"rv32m": rv32_dense.count_cycles},
    ),
    Form(
        name="rv32m_wide_conv2d",
        conditions=(wide.SCALED, wide.SUMS),
        pack=plain.pack_large_convolution,
        cost=2.6,
        sentence="Four pixels by four channels at once, of 16 bits.",
        headers=("multiply.h",),
    ),
    Form(
        name="rv32m_wide_dense",
        conditions=(wide.SCALED, wide.SUMS),
        pack=plain.pack_large_convolution,
        cost=3.3,
        sentence="Four channels at once, of 16 bits.",
        headers=("multiply.h",),
    ),
    Form(
        name="rv32m_matmul",
        conditions=(matrices.SCALED,),
        pack=matrices.pack_large_blocks,
        cost=2.7,
        sentence="Four rows by four columns at once, which are copied one after the other.",
        headers=("multiply.h",),
    ),
    Form(
        name="rv32m_wrapped_sum",
        pack=addition.pack_wrapped_sum,
        sentence="Four bytes share a word; masks stop carries between them.",
        in_place=("input_0", "input_1"),
    ),
)
