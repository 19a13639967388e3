"""Computes the reference of TensorFlow Lite Micro's Signal* operators, bit for bit.

Source: signal/src and signal/micro/kernels of TFLite Micro. TFLite Micro does not write results
that are not valid yet. This module writes zeros instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np

from firmwright.models.tflite.custom_operators import Array, Options

Arrays = Sequence[Array]

LOG_SEGMENTS = 128
LOG_TABLE = np.array(
    [round(65536 * (np.log2(1 + i / LOG_SEGMENTS) - i / LOG_SEGMENTS)) for i in range(129)], "int16"
)
"""log2(1 + x) - x in Q16 at the ends of the segments of x from 0 to 1."""

LN_2 = 45426
"""The natural logarithm of 2 in Q16."""

MASK = 2**32 - 1


def compute_window(inputs: Arrays, options: Options) -> list[Array]:
    """Return the products of rows and a window, shifted right and clipped to int16."""
    data, window = (array.astype("int64") for array in inputs)
    return [np.clip(data * window >> options["shift"], -32768, 32767).astype("int16")]


def compute_auto_scale(inputs: Arrays, _options: Options) -> list[Array]:
    """Return the data with the largest left shift that int16 allows, and the number of bits.

    As in TFLite Micro, an element of -32768 restarts the search for the maximum. Data whose last
    element is -32768 are not shifted.
    """
    (data,), most = inputs, 0
    for value in map(int, data):
        if value > most:
            most = value
        elif -value > most:
            most = -32768 if value == -32768 else -value
    bits = 15 - most.bit_length() if most > 0 else 0
    return [(data.astype("int32") << bits).astype("int16"), np.array(bits, "int32")]


def compute_energy(inputs: Arrays, options: Options) -> list[Array]:
    """Return the squared magnitudes of complex numbers between two indices, and 0 elsewhere."""
    pairs = inputs[0].reshape(-1, 2).astype("int64")
    energy = np.zeros(len(pairs), "uint32")
    chosen = slice(options["start_index"], options["end_index"])
    energy[chosen] = (pairs**2).sum(-1)[chosen] & MASK
    return [energy]


def compute_filter_bank(inputs: Arrays, _options: Options) -> list[Array]:
    """Return the weighted sums of each channel. Each frequency is in two adjacent channels."""
    data, weights, rests, frequencies, starts, widths = (array.tolist() for array in inputs)
    sums, following = [], 0
    for frequency, start, width in zip(frequencies, starts, widths, strict=True):
        total, following = following, 0
        for i in range(width):
            total += weights[start + i] * data[frequency + i]
            following += rests[start + i] * data[frequency + i]
        sums.append(total % 2**64)
    return [np.array(sums[1:], "uint64")]


def compute_square_root(inputs: Arrays, _options: Options) -> list[Array]:
    """Return the rounded square roots, shifted right by the second input."""
    data, bits = inputs
    return [np.array([round_root(x) >> bits.item() for x in data.tolist()], "uint32")]


def round_root(x: int) -> int:
    """Return the nearest root. The maximum is 65535 for numbers of 32 bits, else 2^32 - 1."""
    root = isqrt(x)
    most = 0xFFFF if x <= MASK else MASK
    return min(root + 1, most) if x - root * root > root else root


def compute_spectral_subtraction(inputs: Arrays, options: Options) -> list[Array]:
    """Return the signal without noise, and the estimate of the noise as result and as state."""
    data, noise = (array.tolist() for array in inputs)
    bits, extra = options["spectral_subtraction_bits"], options["smoothing_bits"]
    cleaned = []
    for i, value in enumerate(data):
        kind = "alternate_" if i % 2 else ""
        smoothing, rest = options[f"{kind}smoothing"], options[f"{kind}one_minus_smoothing"]
        scaled = value << extra & MASK
        noise[i] = (scaled * smoothing + noise[i] * rest) >> bits & MASK
        estimate = min(noise[i], scaled)
        if options["clamping"]:
            noise[i] = estimate
        least = value * options["min_signal_remaining"] >> bits & MASK
        cleaned.append(max((scaled - estimate) >> extra, least))
    estimates = np.array(noise, "uint32")
    return [np.array(cleaned, "uint32"), estimates, estimates]


def compute_pcan(inputs: Arrays, options: Options) -> list[Array]:
    """Return the signal after a gain control that depends on the estimate of the noise."""
    data, noise, table = (array.tolist() for array in inputs)
    gains = [look_up_gain(x, table) & MASK for x in noise]
    products = zip(data, gains, strict=True)
    ratios = [x * gain >> options["snr_shift"] & MASK for x, gain in products]
    return [np.array([x * x >> 20 if x < 8192 else (x >> 6) - 64 for x in ratios], "uint32")]


def look_up_gain(x: int, table: Sequence[int]) -> int:
    """Return a piecewise quadratic function. Each number of bits has a piece of 4 entries."""
    if x <= 2:
        return table[x]
    bits = x.bit_length()
    start = 4 * bits - 6
    fraction = (x << (11 - bits) if bits < 11 else x >> (bits - 11)) & 0x3FF
    slope = (table[start + 2] * fraction >> 5) + table[start + 1] * 32
    return wrap((wrap(slope * fraction, 32) + 16384 >> 15) + table[start], 16)


def wrap(x: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (x + half) % (2 * half) - half


def compute_log(inputs: Arrays, options: Options) -> list[Array]:
    """Return the scaled natural logarithms of at most 32767. The results of 0 and 1 are 0."""
    bits, scale = options["input_correction_bits"], options["output_scale"]
    scaled = [x << bits & MASK for x in inputs[0].tolist()]
    return [np.array([log(x, scale) if x > 1 else 0 for x in scaled], "int16")]


def log(x: int, scale: int) -> int:
    exponent = x.bit_length() - 1
    rest = x - (1 << exponent)
    fraction = rest << (16 - exponent) if exponent < 16 else rest >> (exponent - 16)
    segment = fraction >> 9
    low, high = (int(value) for value in LOG_TABLE[segment : segment + 2])
    fraction += low + ((high - low) * (fraction - (segment << 9)) >> 16)
    natural = LN_2 * ((exponent << 16) + fraction) + 32768 >> 16
    return min((scale * natural + 32768 & MASK) >> 16, 32767)


def compute_frames(inputs: Arrays, options: Options) -> list[Array]:
    """Return overlapping frames, their validity, the last samples, and the number of steps."""
    data, history, count = inputs
    size, step = options["frame_size"], options["frame_step"]
    kept = count_kept_samples(options)
    rows = data.reshape(-1, data.shape[-1])
    joined = np.concatenate([history[:, :kept], rows], -1)
    steps = 0 if options["prefill"] else kept // step
    frames = np.zeros((len(rows), rows.shape[-1] // step, size), data.dtype)
    for number in range(frames.shape[1]):
        if count + number >= steps:
            frames[:, number] = joined[:, number * step :][:, :size]
    following = history.copy()
    following[:, :kept] = joined[:, joined.shape[-1] - kept :]
    passed = np.minimum(count + frames.shape[1], steps).astype("int32")
    return [frames, np.array(count >= steps), following, passed]


def count_kept_samples(options: Options) -> int:
    size, step = options["frame_size"], options["frame_step"]
    return int((size if options["prefill"] else -(-size // step) * step) - step)


def compute_stack(inputs: Arrays, options: Options) -> list[Array]:
    """Return consecutive vectors as one vector, its validity, the queue, and the queue's state.

    The state contains the number of vectors in the queue, and 1 after the first run. The first
    vector is repeated as the left context.
    """
    data, queue, (waiting, begun) = inputs
    channels, left = options["num_channels"], options["stacker_left_context"]
    total = left + options["stacker_right_context"] + 1
    vectors = [*queue.reshape(total, channels)[:waiting], *[data] * (1 if begun else left + 1)]
    stacked, valid = np.zeros(total * channels, data.dtype), len(vectors) >= total
    if valid:
        stacked = np.concatenate(vectors[:total])
        vectors = vectors[options["stacker_step"] :]
    following = np.zeros_like(queue)
    following[: len(vectors) * channels] = np.concatenate([*vectors, following[:0]])
    return [stacked, np.array(valid), following, np.array([len(vectors), 1], "int32")]


def compute_delay(inputs: Arrays, options: Options) -> list[Array]:
    """Return the samples from ``delay_length`` samples before, and the last samples."""
    data, history = inputs
    delay, rows = options["delay_length"], data.reshape(-1, data.shape[-1])
    joined = np.concatenate([history[:, :delay], rows], -1)
    following = history.copy()
    following[:, :delay] = joined[:, rows.shape[-1] :]
    return [joined[:, : rows.shape[-1]], following]


def compute_overlap_add(inputs: Arrays, options: Options) -> list[Array]:
    """Return the sums of overlapping frames, and the incomplete sums. Sums of int16 saturate."""
    data, sums = inputs
    step, size = options["frame_step"], data.shape[-1]
    signals = []
    for frames, begun in zip(data.reshape(-1, *data.shape[-2:]), sums, strict=True):
        current, finished = begun.copy(), []
        for frame in frames:
            if data.dtype == np.int16:
                current = np.clip(current.astype("int32") + frame, -32768, 32767).astype("int16")
            else:
                current = current + frame
            finished.append(current[:step])
            current = np.concatenate([current[step:], np.zeros(step, data.dtype)])
        signals.append(np.concatenate([*finished, current]))
    whole = np.stack(signals)
    return [whole[:, :-size], whole[:, -size:]]
