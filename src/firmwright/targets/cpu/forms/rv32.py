"""Weights for 32-bit RISC-V: two sums of 16 bits in a word, so that a product does two taps.

x0 + 2^16 x1 times w is x0 w + 2^16 x1 w. A group of taps adds up in one word, started at 2^15 so
that the lower half never borrows; then its upper half is added to one sum and the word to another,
from which the lower sum follows at the end.
"""

from __future__ import annotations

import numpy as np

from firmwright.ir.kernels import C_TYPES
from firmwright.ir.layer import Array, Layer
from firmwright.targets.cpu.forms.form import Packing, Scratch
from firmwright.targets.cpu.forms.layer_numbers import describe_geometry, scale_arrays
from firmwright.targets.cpu.forms.tap_order import find_tap_order

CHANNELS = 2
"""Output channels at once: with three pairs of pixels they fill the registers."""

SMALL_GROUP = 4
"""Taps up to which a group does not make up for a round of its loop."""

WIDEST_ROW = 5
"""Columns of a kernel for which a block's inputs stay in registers."""


def largest_group_weight(layer: Layer) -> int:
    """Return what the magnitudes of a group's weights may add up to."""
    limits = np.iinfo(layer.input_dtype)
    return 32767 // max(-int(limits.min), int(limits.max))


def pack_convolution(layer: Layer) -> Packing:
    """Pack (channel block, tap, channel); ``places`` says where a tap of the input goes.

    Blocks with groups of one size stand together; ``outputs`` says which channels they have.
    """
    pairs = 3 if layer.pixels >= 6 else 2
    found = find_tap_order(layer.matrix, largest_group_weight(layer), CHANNELS)
    longest = max(-(-layer.taps // g.size) * g.size for g in found.groupings)
    padded = np.zeros((layer.out_channels, longest), np.int64)
    padded[:, : layer.taps] = layer.matrix[:, found.order]
    channels, blocks, runs = [], [], {}
    for number, grouping in enumerate(found.groupings):
        groups = -(-layer.taps // grouping.size)
        own = fill_blocks(grouping.channels)
        channels += own
        for start in range(0, len(own), CHANNELS):
            rows = own[start : start + CHANNELS]
            blocks.append(padded[rows, : groups * grouping.size].T.reshape(-1))
        runs[f"end_{number}"] = len(channels)
        runs[f"words_{number}"] = groups * grouping.size * pairs
        runs[f"carries_{number}"] = 2**15 * groups
    arrays = {"weights": np.concatenate(blocks).astype("int8")}
    arrays |= {name: array[channels] for name, array in scale_arrays(layer).items()}
    straight = channels == [*range(layer.out_channels)]
    if not straight:
        arrays["outputs"] = np.array(channels, "uint16")
    places = np.argsort(found.order) * pairs * 4
    in_order = bool((np.diff(places) == pairs * 4).all())
    if not in_order:
        arrays["places"] = places.astype("uint16" if places.max() < 2**16 else "uint32")
    guarded = any(layer.padding)
    if guarded:
        arrays["border"] = np.full(layer.channels, layer.input_zero_point, layer.input_dtype)
    inner = find_inner_blocks(layer, 2 * pairs)
    words = share_columns(layer, pairs) if inner["inner_columns"] else []
    return Packing(
        arrays,
        {**describe_geometry(layer), **inner, **runs},
        {
            "pointwise": layer.is_pointwise,
            "sizes": [(g.size, repeat_group(layer.taps, g.size)) for g in found.groupings],
            "pairs": pairs,
            "channels": CHANNELS,
            "straight": straight,
            "in_order": in_order,
            "place_type": "" if in_order else C_TYPES[arrays["places"].dtype.name],
            "columns": sorted({column for word in words for column in word[:2]}),
            "kernel_width": layer.kernel[1],
            "pairs_of_columns": words,
            "guarded": guarded,
            "step": next(n for n in (4, 3, 2, 1) if layer.channels % n == 0),
        },
        (Scratch("patch", "int32", longest * pairs),),
    )


def repeat_group(taps: int, size: int) -> int:
    """Return how many groups of a size make a round of the loop over taps."""
    return 2 if size <= SMALL_GROUP and -(-taps // size) % 2 == 0 else 1


def fill_blocks(channels: Array) -> list[int]:
    """Return channels with one of them twice where they do not fill whole blocks."""
    count = -(-channels.size // CHANNELS) * CHANNELS
    return sorted(np.resize(channels, count).tolist())


def find_inner_blocks(layer: Layer, pixels: int) -> dict[str, int]:
    """Return where blocks of so many pixels may start that lie in a row and read no padding."""
    if layer.is_pointwise:
        return {"inner_top": 0, "inner_left": 0, "inner_rows": 1, "inner_columns": layer.pixels}
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

    With each are the columns of the kernel and the pairs of output pixels that it serves.
    """
    if layer.dilation[1] != 1 or layer.kernel[1] > WIDEST_ROW:
        return []
    words: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for column in range(layer.kernel[1]):
        for pair in range(pairs):
            low = 2 * pair * layer.strides[1] + column
            words.setdefault((low, low + layer.strides[1]), []).append((column, pair))
    return [(*columns, uses) for columns, uses in words.items()]
