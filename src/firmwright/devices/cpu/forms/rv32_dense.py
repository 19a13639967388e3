"""Packs weights of products for 32-bit RISC-V: four channels per word, two per multiplication.

A word V has the bytes w + 128 of four channels. O = V >> 8 & 0x00ff00ff has the odd channels in
halves of 16 bits, and V - 256 O has the even channels. Therefore V x and O x are two
multiplications for four products. Once per group of inputs, the C subtracts 256 times the sum of O
x from the sum of V x. The contribution of the 128 depends only on the inputs, so the C subtracts it
at the start of a group.

Within a group, each channel's sum fits 16 bits. Small weights allow large groups. Therefore the
packing sorts channels by the size of their groups, in runs of one size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from firmwright.devices.cpu.forms.form import Packing, Scratch, Tile
from firmwright.devices.cpu.forms.layer_numbers import scale_arrays
from firmwright.devices.cpu.forms.tap_order import Grouping, Taps, largest_group_weight
from firmwright.ir.layer import Array, Layer

LARGEST_RUNS = 3
"""The maximum number of different group sizes in a layer."""

GROUP_SIZES = (4, 8, 16, 32)
"""The group sizes for which the packing searches an order of inputs."""

MARGIN = 1.2
"""The factor by which a channel's weights must be below the limit of such groups."""

ORDERING = 6
"""The number of instructions that move an input to its position."""

PRODUCT_CYCLES, GROUP_CYCLES, RESULT_CYCLES, INPUT_CYCLES, CALL_CYCLES = 1.65, 1.42, 28, 8.3, 130
"""The cycles per product, instruction for groups, result, input and call.

The cycles are according to the table of CV32E40P, fitted to 40 layers.
"""


def pack_dense(layer: Layer) -> Packing:
    """Pack weights as (block of channels, input, channel).

    ``runs`` has the channels of each group size. ``order`` has the input that the C reads for each
    position. ``places`` has the position of each result.
    """
    words, arrangement = count_words(layer), find_arrangement(layer)
    channels, sizes = arrangement.channels, arrangement.sizes
    by_block = (layer.matrix[channels][:, arrangement.inputs] + 128).astype("uint8")
    by_block = by_block.reshape(len(sizes), -1, layer.taps)
    groups, blocks = np.unique(sizes, return_counts=True)
    scales = {name: array[channels] for name, array in scale_arrays(layer).items()}
    arrays = {
        "weights": np.ascontiguousarray(by_block.transpose(0, 2, 1)).view("<u4").reshape(-1),
        "runs": np.stack([groups, blocks * 4 * words], 1).reshape(-1).astype("uint16"),
        "bias": scales.pop("bias"),
    }
    factor = {}
    if all((array == array[0]).all() for array in scales.values()):
        factor = {name[:-1]: int(array[0]) for name, array in scales.items()}
    else:
        arrays |= scales
    scratch = [Scratch("starts", "uint32", layer.taps // int(groups[0]))]
    in_order = arrangement.inputs.tolist() == [*range(layer.taps)]
    if not in_order:
        arrays["order"] = arrangement.inputs.astype(np.min_scalar_type(layer.taps - 1))
        scratch.append(Scratch("ordered", layer.input_dtype, layer.taps))
    straight = channels.tolist() == [*range(layer.out_channels)]
    if not straight:
        arrays["places"] = channels.astype("uint16")
    units = {next(n for n in (8, 4, 2, 1) if group % n == 0) for group in groups}
    return Packing(
        arrays,
        {
            "inputs": layer.taps,
            "run_items": 2 * len(groups),
            "halves": 1 + 2 * (layer.zero_point - layer.low),
            **factor,
        },
        {
            "words": words,
            "units": sorted(units, reverse=True),
            "one_factor": bool(factor),
            "in_order": in_order,
            "straight": straight,
        },
        tuple(scratch),
    )


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Inputs and channels in the order of their products.

    ``sizes`` has the number of inputs per group for each block, in ascending order. ``cost`` is the
    approximate number of instructions for groups, without the products.
    """

    inputs: Array
    channels: Array
    sizes: Array
    cost: float


def count_words(layer: Layer) -> int:
    """Return the words of weights per input for a block of channels."""
    return 1 if layer.out_channels % 8 in (1, 2, 3, 4) else 2


@lru_cache(maxsize=4)
def find_arrangement(layer: Layer) -> Arrangement:
    orders = find_orders(layer)
    arrangements = (arrange_channels(layer, inputs, 4 * count_words(layer)) for inputs in orders)
    return min(arrangements, key=lambda arrangement: arrangement.cost)


def count_cycles(layer: Layer, _tile: Tile) -> float:
    arrangement = find_arrangement(layer)
    return (
        arrangement.channels.size * (layer.taps * PRODUCT_CYCLES + RESULT_CYCLES)
        + arrangement.cost * GROUP_CYCLES
        + layer.taps * INPUT_CYCLES
        + CALL_CYCLES
    )


def find_orders(layer: Layer) -> list[Array]:
    magnitudes = np.abs(layer.matrix).T.astype("int16")
    limit = largest_group_weight(layer.input_dtype)
    possible = layer.taps * limit / np.maximum(magnitudes.sum(0, dtype="int64"), 1)
    orders, taps = [np.arange(layer.taps)], Taps(magnitudes, limit, layer.taps)
    for size in GROUP_SIZES:
        channels = np.flatnonzero(possible >= MARGIN * size)
        if layer.taps % size == 0 and channels.size:
            order = taps.fill_groups([Grouping(size, channels)])
            orders += [] if order is None else [order]
    return orders


def arrange_channels(layer: Layer, inputs: Array, block: int) -> Arrangement:
    """Return the best blocks of channels for an order of inputs.

    If channels do not fill the last block, some channels occur twice. Each group size is a multiple
    of the smaller sizes.
    """
    largest = find_group_sizes(layer, inputs)
    order = np.argsort(largest, kind="stable")
    blocks = -(-order.size // block)
    channels = np.sort(np.resize(order, blocks * block))
    channels = channels[np.argsort(largest[channels], kind="stable")]
    fitting = largest[channels].reshape(blocks, block)[:, 0]
    candidates = []
    first, *others = sorted({*largest.tolist()})  # np.unique imports masked arrays
    for number in range(min(LARGEST_RUNS, 1 + len(others))):
        for chosen in combinations(others, number):
            kept = np.array([first, *chosen])
            groups = kept[np.searchsorted(kept, fitting, side="right") - 1]
            # About 3.5 instructions per channel and group, and three to join groups.
            cost = layer.taps * float((3.5 * block / groups).sum() + (3 / kept[:-1]).sum())
            if not (kept[1:] % kept[:-1]).any():
                candidates.append((cost, groups))
    cost, groups = min(candidates, key=lambda pair: pair[0])
    if groups[0] == groups[-1] and channels.size == layer.out_channels:
        channels = np.sort(channels)
    if (np.diff(inputs) != 1).any():
        cost += ORDERING * layer.taps
    return Arrangement(inputs, channels, groups, cost)


def find_group_sizes(layer: Layer, inputs: Array) -> Array:
    """Return each channel's largest group of consecutive inputs whose sums fit 16 bits."""
    magnitudes, limit = np.abs(layer.matrix[:, inputs]), largest_group_weight(layer.input_dtype)
    sizes = np.ones(layer.out_channels, np.int64)
    for size in range(2, layer.taps + 1):
        if layer.taps % size == 0:
            sums = magnitudes.reshape(layer.out_channels, -1, size).sum(2).max(1)
            sizes = np.where(sums <= limit, size, sizes)
    return sizes
