"""Packs 8-bit weights for Arm's DSP extension: two channels per halfword, two taps per word.

A halfword is h = w0 + 2^8 w1. SMLAD multiplies the halves of two words and adds the products of two
taps. With h, the sum is t = s0 + 2^8 s1. SXTB16 sign-extends the lower bytes, whose sum is s0.
Therefore t - s0 is 2^8 s1, and the scaling uses 2^8 s1 without a shift. The result is exact if t
fits 32 bits. Layers with larger sums store adjacent bytes and sign-extend both.

SXTB16 widens bytes 0 and 2 of a word, then bytes 1 and 3. The order of each four taps follows from
this instruction.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from firmwright.devices.cpu.forms.form import Packing, Scratch, Tile
from firmwright.devices.cpu.forms.layer_numbers import describe_record
from firmwright.devices.cpu.forms.requantize import Requantization, make_requantization
from firmwright.devices.cpu.forms.shared_scales import SharedScales, find_shared_scales
from firmwright.ir.layer import Array, IntegerLayer, Layer, Sums

PAIRED_LIMIT = 2**31 // 257
"""The limit of sums. s0 + 2^8 s1 fits 32 bits if both sums are below the limit."""

LARGEST_OFFSET = 2**24
"""The limit of offsets. A smaller offset times 2^6 can be added to a high product."""

STEPS = (2, 4, 8)
"""The candidates for the weight words between two branches.

A short list lets layers share functions.
"""

MOST_STEPS = 4
"""The maximum groups of four taps between two branches if the C widens weights or columns."""

LARGEST_PATCH = 512
"""The maximum inputs of a product with a widened copy.

The copy needs twice as many bytes as the inputs.
"""

FEW_CHANNELS = 12
"""The maximum output channels for which the loop widens the inputs again for every four
channels."""


def is_paired(layer: Layer) -> bool:
    """Return whether the sums of two channels can share a word, and the offsets are in range."""
    if not fits_pairs(layer):
        return False
    offsets = find_offsets(layer, make_requantization(layer))
    return int(np.abs(offsets).max()) < LARGEST_OFFSET


def fits_pairs(layer: IntegerLayer) -> bool:
    """Return whether the sums of two channels fit 32 bits, and their weights fit a halfword."""
    return layer.largest_sum < PAIRED_LIMIT and int(layer.weights.min()) > -128


def find_offsets(layer: Layer, numbers: Requantization) -> Array:
    """Return the offsets that the C adds to the high halves of the products of sums.

    The offsets include ``low``, because SSAT clamps to signed bytes. For a channel without a
    multiplier, the mantissa replaces the offset.
    """
    offsets = numbers.offsets + (layer.low << numbers.shifts)
    return np.where(numbers.multipliers == 0, numbers.offsets, offsets)


def is_given(layer: Layer) -> bool:
    """Return whether the record contains the offsets, because shifts do not determine them."""
    return layer.scaling.has_offsets


def order_taps(run: int) -> Array:
    """Return the tap of each position in widened words. The number ``run`` means a zero."""
    fours = run // 4 * 4
    rest = np.arange(fours, run + (run & 1))
    order: Array = np.concatenate(
        [np.arange(fours).reshape(-1, 4)[:, [0, 2, 1, 3]].reshape(-1), rest]
    )
    return order


def largest_divisor(count: int, limit: int) -> int:
    return next(n for n in range(min(count, limit), 0, -1) if count % n == 0)


def choose_step(words: int, least: int = STEPS[0]) -> int:
    """Return the number of weight words between two branches, at least ``least``.

    A word needs 8.5 instructions, and a branch needs two. Zeros fill the last step.
    """
    steps = (step for step in STEPS if step >= least)
    return min(steps, key=lambda step: -(-words // step) * (8.5 * step + 2))


def pair_channels(taps: Array, paired: bool) -> Array:
    """Return words of two taps and two channels, (blocks, pairs of channels, pairs of taps).

    ``taps`` is (blocks, channels, taps). The numbers of channels and taps are even.
    """
    low, high = taps[:, ::2], taps[:, 1::2]
    halves = (low if paired else low & 255) + 256 * high
    words: Array = halves.astype("<i2").view("<i4")
    return words


def choose_channels(layer: IntegerLayer, size: int) -> Array:
    """Return the channels of blocks, (blocks, size).

    The last block overlaps the previous block. A single block repeats its last channel.
    """
    count = layer.out_channels
    starts = np.array([*range(0, count - size, size), max(count - size, 0)])
    return np.minimum(starts[:, None] + np.arange(size), count - 1)


def start_sums(layer: IntegerLayer, channels: Array, paired: bool) -> Array:
    bias = layer.folded_bias[channels]
    if paired:
        bias[:, 1::2] = bias[:, ::2] + 256 * bias[:, 1::2]
    return bias


def scale_blocks(layer: Layer, channels: Array, paired: bool) -> Array:
    """Return multipliers, one word of shifts, and offsets if necessary, for blocks of channels.

    Sums times 2^8 have a divisor that is 2^6 times the divisor of sums times four.
    """
    numbers = make_requantization(layer)
    multipliers, offsets = (
        n[channels] for n in (numbers.multipliers, find_offsets(layer, numbers))
    )
    moves = move_sums(multipliers, paired and numbers.one_shift)
    shifts = numbers.shifts[channels] - 1 + moves
    offsets <<= moves
    word = (shifts << (8 * np.arange(channels.shape[1]))).sum(1, keepdims=True)
    return np.concatenate([multipliers, word, *([offsets] if is_given(layer) else [])], 1)


def move_sums(multipliers: Array, moved: bool) -> Array:
    """Return the shifts of the sums of blocks that are multiplied by 2^8 instead of four."""
    odd = np.arange(multipliers.shape[1]) % 2
    moves: Array = 6 * moved * odd * (multipliers != 0)
    return moves


def share_scales(layer: Layer, channels: Array, paired: bool) -> SharedScales | None:
    """Return the scales of blocks that all steps of a recurrent layer share, or None."""
    numbers = make_requantization(layer)
    multipliers = numbers.multipliers[channels]
    moves = move_sums(multipliers, paired and numbers.one_shift)
    shifts = numbers.shifts[channels] - 1 + moves
    return find_shared_scales(layer, channels, multipliers, shifts, moves)


def scale_channels(layer: Layer) -> dict[str, Array]:
    """Return multipliers, shifts, and offsets that do not follow from shifts, by channel."""
    numbers = make_requantization(layer)
    arrays = {
        "multipliers": numbers.multipliers.astype("int32"),
        "shifts": (numbers.shifts - 1).astype("int8"),
    }
    if is_given(layer):
        arrays["offsets"] = find_offsets(layer, numbers).astype("int32")
    return arrays


def pack_convolution(layer: Layer, tile: Tile) -> Packing:
    """Pack weights as (pair of channels, row of the kernel, pair of taps)."""
    paired = is_paired(layer)
    channels = choose_channels(layer, 2)
    weights = pair_channels(arrange_taps(layer, layer.weights)[channels], paired).reshape(-1)
    return describe_convolution(layer, tile, channels, {"weights": weights}, paired)


def arrange_taps(layer: Layer, weights: Array, least: int = STEPS[0]) -> Array:
    """Return weights (O, height, width, I) as (O, taps) in the order of widened words.

    Zeros fill the last word of each row of the kernel, and the last step between two branches.
    """
    run = layer.kernel[1] * layer.channels
    rows = np.zeros((layer.out_channels, layer.kernel[0], run + 1), np.int64)
    rows[:, :, :run] = weights.reshape(layer.out_channels, layer.kernel[0], run)
    taps: Array = rows[:, :, order_taps(run)].reshape(layer.out_channels, -1)
    step = choose_step(taps.shape[1] // 2, least)
    return np.pad(taps, ((0, 0), (0, -taps.shape[1] % (2 * step))))


def describe_convolution(
    layer: Layer,
    tile: Tile,
    channels: Array,
    arrays: dict[str, Array],
    paired: bool,
    least: int = STEPS[0],
) -> Packing:
    """Return the numbers of a convolution with these packed weights, for pairs of channels.

    ``least`` is the minimum number of pairs of taps between two branches.
    """
    run = layer.kernel[1] * layer.channels
    gathered = layer.kernel[0] * ((run + 1) // 2)
    step = choose_step(gathered, least)
    pixels = tile.pixels
    words = -(-gathered // step) * step * pixels
    factors = [start_sums(layer, channels, paired), scale_blocks(layer, channels, paired)]
    arrays["factors"] = np.concatenate(factors, 1).astype("int32").reshape(-1)
    scratch = [Scratch("patch", "int32", words)]
    guarded = any(layer.padding) or layer.dilation[1] > 1
    by_tap = guarded and layer.channels % 4 == 0
    if by_tap:
        arrays["border"] = np.full(layer.channels, layer.input_zero_point, layer.input_dtype)
    elif guarded:
        scratch.append(Scratch("copy", layer.input_dtype, run * pixels))
    record = {
        **describe_record(layer),
        "run": run,
        "words": words,
        "factors": sum(f.shape[1] for f in factors) * (len(channels) - 1),
        "input_zero_point": layer.input_zero_point,
        "halves": 1 + 2 * layer.zero_point,
    }
    variant = {
        "pixels": pixels,
        "paired": paired,
        "guarded": guarded,
        "by_tap": by_tap,
        "unrolled": step,
        "step": math.gcd(4, layer.channels // 4 if by_tap else run // 4),
    }
    return Packing(arrays, record, variant, tuple(scratch))


def pack_dense(layer: Layer) -> Packing:
    """Pack weights as (four channels, pair of taps, pair of channels)."""
    paired = is_paired(layer)
    channels = choose_channels(layer, 4)
    arrays = {"weights": arrange_rows(layer, channels, paired)}
    return describe_product(layer, channels, arrays, paired)


def pack_sums(layer: Sums) -> Packing:
    paired = fits_pairs(layer)
    channels = choose_channels(layer, 4)
    arrays = {"weights": arrange_rows(layer, channels, paired)}
    return describe_rows(layer, channels, arrays, paired)


def arrange_rows(layer: IntegerLayer, channels: Array, paired: bool) -> Array:
    padded = np.zeros((layer.out_channels, -(-layer.taps // 4) * 4), np.int64)
    padded[:, : layer.taps] = layer.matrix
    taps = padded[:, order_taps(padded.shape[1])][channels]
    weights: Array = pair_channels(taps, paired).transpose(0, 2, 1).reshape(-1)
    return weights


def describe_rows(
    layer: IntegerLayer, channels: Array, arrays: dict[str, Array], paired: bool
) -> Packing:
    words = -(-layer.taps // 4) * 2
    record = {
        "channels": layer.channels,
        "out_channels": layer.out_channels,
        "words": words,
        **{f"place{i}": int(channels[0, i]) for i in range(1, 4)},
    }
    direct = widens_in_loop(layer)
    variant = {
        "paired": paired,
        "direct": direct,
        "rest": layer.taps % 4,
        "unrolled": largest_divisor(words // 2, 8),
    }
    sums = start_sums(layer, channels, paired).astype("int32").reshape(-1)
    scratch = () if direct else (Scratch("patch", "int32", words),)
    return Packing({**arrays, "sums": sums}, record, variant, scratch)


def describe_product(
    layer: Layer, channels: Array, arrays: dict[str, Array], paired: bool
) -> Packing:
    """Return the numbers of a product with these packed weights, for blocks of four channels.

    ``factors`` begins with the rounding offset of the zero point, so that the steps of a recurrent
    layer share a function. If the C computes their multipliers, the steps also share the scales and
    the sums of weights, and ``step`` has the numbers of a step.
    """
    rows = describe_rows(layer, channels, arrays, paired)
    numbers = make_requantization(layer)
    uniform = (
        not is_given(layer)
        and len({*zip(numbers.multipliers.tolist(), numbers.shifts.tolist(), strict=True)}) == 1
    )
    factors, record, halves = {}, dict(rows.record), 1 + 2 * layer.zero_point
    shared = None if uniform or layer.bias.any() else share_scales(layer, channels, paired)
    if uniform:
        record["multiplier"] = int(numbers.multipliers[0])
        record["shift"] = int(numbers.shifts[0]) - 1
        record["halves"] = halves
    elif shared:
        sums = start_sums(replace(layer, input_zero_point=-1), channels, paired)
        factors["sums"] = sums.astype("int32").reshape(-1)
        factors["factors"] = shared.scales.astype("uint32").view("int32").reshape(-1)
        factors["step"] = np.array([halves, -layer.input_zero_point, *shared.step], "int32")
    else:
        blocks = scale_blocks(layer, channels, paired).reshape(-1)
        factors["factors"] = np.append(halves, blocks).astype("int32")
    variant = {**rows.variant, "uniform": uniform, "computed": shared is not None}
    return Packing({**rows.arrays, **factors}, record, variant, rows.scratch)


def widens_in_loop(layer: IntegerLayer) -> bool:
    """Return whether a product widens its input again for every four channels, without a copy.

    The loop without a copy needs no memory, but two more instructions per 16 multiply-accumulates.
    """
    few = layer.out_channels <= FEW_CHANNELS
    return layer.taps % 4 == 0 and (few or layer.taps > LARGEST_PATCH)
