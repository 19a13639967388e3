"""Packs depthwise weights for Arm's DSP extension. The C copies a channel and reads pairs of
elements.

SMLAD multiplies a word of two neighbors in a row of the copy by a word of two taps. If the window
of a result begins at an odd position, the C reads words from one position before the window. These
words need words of taps in which the first tap is an upper half.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from firmwright.devices.cpu.forms.dsp_bytes import scale_channels
from firmwright.devices.cpu.forms.form import Packing, Scratch
from firmwright.devices.cpu.forms.plane import LONGEST_COPY, Axis, crop_kernel, describe_plane
from firmwright.ir.layer import Layer

MOST_RESULTS = 4
"""The maximum results per block. Registers hold their sums and the words of taps."""

RESULT_CYCLES, BLOCK_CYCLES, WORD_CYCLES = 8, 8, 5
"""The approximate cycles to scale a result, to begin a block, and to write a word of taps."""

Word = tuple[int | None, int | None]
"""The taps of the lower and the upper half of a word. None is a zero."""

Products = list[tuple[int, list[tuple[int, int]]]]
"""Each word of the input, with its results and the numbers of their words of taps."""


@dataclass(frozen=True)
class ComputingOrder:
    """The order in which the C computes a layer.

    ``axes`` are the axis across the rows of the copy and the axis along the rows. A row of results
    has ``blocks`` blocks of ``results`` results, and ``rest`` more results. ``words`` are the words
    of a row of taps, in the order of their use.
    """

    axes: tuple[int, int]
    results: int
    blocks: int
    rest: int
    words: list[tuple[int, int]]
    products: Products
    rest_products: Products

    def count_cycles(self, layer: Layer) -> int:
        """Return the approximate cycles per channel, without the copy of the channel."""
        rows = Axis(layer, self.axes[0])
        block = count_block(self.products, self.results, rows.kernel)
        if self.results * Axis(layer, self.axes[1]).stride % 2:
            block += rows.kernel * len(self.products) // 2  # every second block is misaligned
        rest = count_block(self.rest_products, self.rest, rows.kernel) if self.rest else 0
        words = rows.kernel * len(self.words) * WORD_CYCLES
        return rows.out_size * (self.blocks * block + rest) + words


def count_block(products: Products, results: int, rows: int) -> int:
    used = [word for _, of_word in products for _, word in of_word]
    row = len(products) + len(set(used)) + len(used)
    return rows * row + results * RESULT_CYCLES + BLOCK_CYCLES


def list_axes(layer: Layer) -> list[tuple[int, int]]:
    """Return the possible orders of the axes. The last axis, along the rows, has no dilation."""
    return [axes for axes in ((0, 1), (1, 0)) if layer.dilation[axes[1]] == 1]


def list_words(taps: int, odd: int) -> list[Word]:
    """Return the words of a row of taps that begins in the lower half, or in the upper half if
    ``odd``."""
    slots: list[int | None] = [*[None] * odd, *range(taps)]
    slots += [None] * (len(slots) % 2)
    return list(zip(slots[::2], slots[1::2], strict=True))


def make_plan(layer: Layer, axes: tuple[int, int], results: int) -> ComputingOrder:
    length = Axis(layer, axes[1])
    words: list[tuple[int, int]] = []
    blocks, rest = divmod(length.out_size, results)
    products = list_products(length, results, words)
    rest_products = list_products(length, rest, words)
    return ComputingOrder(axes, results, blocks, rest, words, products, rest_products)


def list_products(length: Axis, results: int, words: list[tuple[int, int]]) -> Products:
    """Return the products of a block, and add its words of taps to ``words``.

    A word has a flag and a position. The flag is 1 if its row of taps begins in an upper half.
    """
    uses: dict[int, list[tuple[int, tuple[int, int]]]] = {}
    for k in range(results):
        begin, odd = divmod(k * length.stride, 2)
        for at in range(len(list_words(length.kernel, odd))):
            uses.setdefault(begin + at, []).append((k, (odd, at)))
    products = []
    for j, used in sorted(uses.items()):
        words += [word for _, word in used if word not in words]
        products.append((j, [(k, words.index(word)) for k, word in used]))
    return products


def choose_plan(layer: Layer) -> ComputingOrder:
    plans = (
        make_plan(layer, axes, results)
        for axes, results in product(list_axes(layer), range(MOST_RESULTS, 0, -1))
        if results <= Axis(layer, axes[1]).out_size
    )
    return min(plans, key=lambda plan: plan.count_cycles(layer))


def pack_depthwise(whole: Layer) -> Packing:
    """Pack weights as (channel, row, column). Each row extends along the plan's last axis."""
    layer = crop_kernel(whole)
    plan = choose_plan(layer)
    rows, length = (Axis(layer, axis) for axis in plan.axes)
    # A word may have one element after the last window. Words are aligned in all rows.
    length.padded_size += 2 - length.padded_size % 2
    plane = rows.padded_size * length.padded_size
    weights = layer.weights[..., 0].transpose(0, *(1 + axis for axis in plan.axes))
    return Packing(
        {
            "weights": weights.astype("int8").reshape(-1),
            "bias": (4 * layer.folded_bias).astype("int32"),
            **scale_channels(layer),
        },
        {
            **describe_plane(layer, rows, length, plane),
            "tap_row": rows.dilation * length.padded_size,
            "zero": layer.input_zero_point,
            "halves": 1 + 2 * layer.zero_point,
        },
        {
            "kernel_rows": rows.kernel,
            "kernel_length": length.kernel,
            "stride": length.stride,
            "results": plan.results,
            "blocks": plan.blocks,
            "rest": plan.rest,
            "words": [list_words(length.kernel, odd)[at] for odd, at in plan.words],
            "products": plan.products,
            "rest_products": plan.rest_products,
            "copied": max(n for n in range(1, LONGEST_COPY + 1) if length.size % n == 0),
        },
        (
            Scratch("channel", "int16", plane),
            Scratch("pairs", "int32", rows.kernel * len(plan.words)),
        ),
    )
