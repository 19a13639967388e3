"""DIANA's accelerator in host builds and as the emulator's device, compared with numpy."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from firmwright.emulator.execution import EXIT_TRAP
from firmwright.errors import UserError
from tests.sanitizers import SANITIZERS

from .conftest import BuildFirmware, RunFirmware
from .soma_jobs import (
    WEIGHTS,
    Array,
    Window,
    analog_weights,
    convolution_weights,
    convolved,
    copy,
    dense_weights,
    depthwise_weights,
    image_bytes,
    image_of,
    requantized,
    rounded,
    store_at,
    swapped,
    words,
)

RESULT = 128_000
"""Offset of results in L1."""


@dataclass(frozen=True)
class Trial:
    """The firmware's console input, the length of its answer, and the expected results."""

    console: bytes
    answer: int
    decode: Callable[[bytes], Array]
    expected: Array


def layer(
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    window: Window,
    *,
    shift: int = 0,
    relu: bool = False,
) -> bytes:
    """Return a ``fw_soma_layer``; inputs and outputs are (channels, height, width)."""
    (*depths, width), (*results, columns) = inputs, outputs
    top, left, bottom, _ = window.padding
    width, columns = (n if n == 1 else rounded(n) for n in (width, columns))
    return words(
        *depths, width, *results, columns, *window.kernel, window.stride, top, bottom, left, shift,
        relu,
    )  # fmt: skip


POINT = Window((1, 1), 1, (0, 0, 0, 0))


def integers(random: np.random.Generator, *shape: int) -> Array:
    return random.integers(-128, 128, shape, np.int8)


def any_bias(random: np.random.Generator, outputs: int, wild: bool) -> Array:
    """Return biases; ``wild`` biases make sums wrap around."""
    limit = 2**31 if wild else 2**14
    return random.integers(-limit, limit, outputs).astype(np.int32)


def convolution(seed: int, depthwise: bool) -> Trial:
    random = np.random.default_rng(seed)
    kernel = tuple(int(k) for k in random.choice([1, 3, 5, 7], 2))
    top, bottom = (int(n) for n in random.integers(0, kernel[0], 2))
    padding = (top, kernel[1] // 2, bottom, int(random.integers(0, kernel[1] // 2 + 1)))
    window = Window(kernel, int(random.integers(1, 3)), padding)  # type: ignore[arg-type]
    height, width = (int(random.integers(k, 20)) for k in kernel)
    channels = int(random.integers(1, 9))
    outputs = channels if depthwise else 16 * int(random.integers(1, 3))
    gap, relu = 16 * int(random.integers(0, 3)), bool(random.integers(0, 2))
    shift = int(random.choice([0, 5, 9, 12, 31]))
    x = integers(random, channels, height, width)
    weights = integers(random, outputs, 1 if depthwise else channels, *kernel)
    bias = any_bias(random, outputs, wild=shift == 31)
    rows, columns = window.results(height, width)
    pack = depthwise_weights if depthwise else convolution_weights
    plane, out_plane = height * rounded(width), rows * rounded(columns)
    described = layer(x.shape, (outputs, rows, columns), window, shift=shift, relu=relu)
    answer = outputs * out_plane
    console = store_at(0, image_bytes(x, gap)) + store_at(WEIGHTS, pack(weights, bias))
    console += b"l" + copy(32, channels, plane, plane + gap) + words(0)
    console += (b"d" if depthwise else b"c") + described + words(32, WEIGHTS, RESULT)
    console += b"s" + copy(RESULT, outputs, out_plane, out_plane) + words(0)
    console += b"o" + words(0, answer)
    sums = convolved(x, weights, bias, window, depthwise)
    return Trial(
        console,
        answer,
        lambda data: image_of(data, (outputs, rows, columns)),
        requantized(sums, shift, relu),
    )


def analog(seed: int) -> Trial:
    random = np.random.default_rng(seed)
    window = Window((3, 5), int(random.integers(1, 3)), (1, 2, 0, 1))
    shape = (int(random.integers(1, 70)), int(random.integers(3, 9)), int(random.integers(5, 40)))
    outputs, step = 16 * int(random.integers(1, 3)), int(random.choice([1, 3, 64]))
    shift, relu = int(random.choice([0, 3, 31])), bool(random.integers(0, 2))
    x = integers(random, *shape)
    weights = random.integers(-1, 2, (outputs, shape[0], *window.kernel)).astype(np.int8)
    factors, offsets = (random.integers(-999, 1000, outputs).astype("<i2") for _ in range(2))
    rows, columns = window.results(*shape[1:])
    plane, out_plane = shape[1] * rounded(shape[2]), rows * rounded(columns)
    console = store_at(0, image_bytes(x))
    console += store_at(WEIGHTS, analog_weights(weights, factors, offsets))
    console += b"l" + copy(0, shape[0], plane, plane) + words(0)
    console += b"g" + layer(shape, (outputs, rows, columns), window, shift=shift, relu=relu)
    console += words(0, WEIGHTS, RESULT, step)
    console += b"s" + copy(RESULT, outputs, out_plane, out_plane) + words(0)
    console += b"o" + words(0, outputs * out_plane)
    sums = convolved(x, weights, np.zeros(outputs), window, depthwise=False)
    codes = np.clip(np.floor_divide(sums, step), -32, 31)
    numbers = codes * factors[:, None, None].astype(np.int64) + offsets[:, None, None]
    return Trial(
        console,
        outputs * out_plane,
        lambda data: image_of(data, (outputs, rows, columns)),
        requantized(numbers, shift, relu),
    )


def dense(seed: int) -> Trial:
    random = np.random.default_rng(seed)
    inputs, outputs = (16 * int(random.integers(1, 6)) for _ in range(2))
    shift, relu = int(random.choice([0, 7, 31])), bool(random.integers(0, 2))
    x, weights = integers(random, inputs), integers(random, outputs, inputs)
    bias = any_bias(random, outputs, wild=shift == 31)
    described = layer((inputs, 1, 1), (outputs, 1, 1), POINT, shift=shift, relu=relu)
    console = store_at(0, swapped(x.tobytes())) + store_at(WEIGHTS, dense_weights(weights, bias))
    console += b"l" + copy(0, 1, inputs, inputs) + words(0)
    console += b"f" + described + words(0, WEIGHTS, RESULT)
    console += b"s" + copy(RESULT, 1, outputs, outputs) + words(0) + b"o" + words(0, outputs)
    sums = weights.astype(np.int64) @ x.astype(np.int64) + bias
    return Trial(
        console,
        outputs,
        lambda data: np.frombuffer(swapped(data), np.int8),
        requantized(sums, shift, relu),
    )


def addition(seed: int) -> Trial:
    random = np.random.default_rng(seed)
    channels, height, width = (int(n) for n in random.integers(1, 20, 3))
    shape = (channels, height, width)
    shift, relu = int(random.choice([0, 1, 31])), bool(random.integers(0, 2))
    left, right = integers(random, *shape), integers(random, *shape)
    plane = height * rounded(width)
    answer = channels * plane
    console = store_at(0, image_bytes(left)) + store_at(WEIGHTS, image_bytes(right))
    console += b"l" + copy(0, channels, plane, plane) + words(0)
    console += b"l" + copy(64_000, channels, plane, plane) + words(WEIGHTS)
    console += b"a" + layer(shape, (0, 0, 0), POINT, shift=shift, relu=relu)
    console += words(0, 64_000, 0)  # in place
    console += b"s" + copy(0, channels, plane, plane) + words(0) + b"o" + words(0, answer)
    sums = left.astype(np.int64) + right
    return Trial(
        console, answer, lambda data: image_of(data, shape), requantized(sums, shift, relu)
    )


TRIALS = [
    *(convolution(seed, depthwise=False) for seed in range(20)),
    *(convolution(seed, depthwise=True) for seed in range(100, 115)),
    *(dense(seed) for seed in range(200, 208)),
    *(addition(seed) for seed in range(300, 306)),
    *(analog(seed) for seed in range(400, 406)),
]


@pytest.mark.parametrize("platform", ["host", "diana"])
def test_results_are_numpys(build: BuildFirmware, run: RunFirmware, platform: str) -> None:
    elf = build("soma.c", platform)
    console = b"".join(trial.console for trial in TRIALS) + b"q"
    answers = run(elf, platform, console, budget=10**9).console
    assert len(answers) == sum(trial.answer for trial in TRIALS)
    start = 0
    for number, trial in enumerate(TRIALS):
        found = trial.decode(answers[start : start + trial.answer])
        start += trial.answer
        np.testing.assert_array_equal(found, trial.expected, err_msg=f"trial {number}")


def test_the_model_has_no_undefined_behavior(build: BuildFirmware, run: RunFirmware) -> None:
    elf = build("soma.c", "host", "gcc", SANITIZERS)
    console = b"".join(trial.console for trial in TRIALS) + b"q"
    assert run(elf, "host", console).exit_code == 0


def test_trials_reach_both_ends_of_the_clip_and_leave_them() -> None:
    results = np.concatenate([trial.expected.reshape(-1) for trial in TRIALS])
    assert {-128, 127, 0} <= set(results.tolist())
    assert len(np.unique(results)) > 200


IMAGE, RESULTS = (3, 8, 20), (32, 8, 20)
SAME = Window((3, 3), 1, (1, 1, 1, 1))
LOAD = copy(0, 3, 8 * 32, 8 * 48)


def test_cycles_are_those_of_the_cost_model(build: BuildFirmware, run: RunFirmware) -> None:
    jobs = [
        b"l" + LOAD + words(0),
        b"c" + layer(IMAGE, RESULTS, SAME) + words(0, WEIGHTS, RESULT),
        b"d" + layer(IMAGE, IMAGE, SAME) + words(0, WEIGHTS, RESULT),
        b"f" + layer((64, 1, 1), (32, 1, 1), POINT) + words(0, WEIGHTS, RESULT),
        b"a" + layer(IMAGE, (0, 0, 0), POINT) + words(0, 0, RESULT),
        b"s" + copy(RESULT, 32, 8 * 32, 8 * 32) + words(0),
    ]
    elf = build("soma.c", "diana")
    answers = run(elf, "diana", b"".join(job + b"n" for job in jobs) + b"q").console
    counters = np.array(list(struct.iter_unpack("<2Q", answers)), np.int64)
    rows = 6 * (3 * 3 + 3 * 2), 2 * (2 * 3 + 2 * 2)  # of one channel: inner rows, border rows
    compute = [
        0,
        2 * 2 * (3 * sum(rows) + 8 * 23),
        3 * 2 * (sum(rows) + 8 * 23),
        2 * (64 + 64 * 2 + 23),
        3 * 8 * 32 // 16 + 23,
        0,
    ]
    weights = [2 * (27 * 16 + 64), 9 * 16 + 64, 2 * (64 * 16 + 256)]
    fetches = [times * (70 + size // 16) for times, size in zip((1, 3, 1), weights, strict=True)]
    transfer = [3 * (70 + 8 * 2), *fetches, 0, 70 + 32 * 8 * 32 // 16]
    np.testing.assert_array_equal(np.diff(counters, axis=0, prepend=0).T, [compute, transfer])


def faulty(**changed: object) -> bytes:
    """Return a convolution with one invalid property."""
    options = {"inputs": IMAGE, "outputs": RESULTS, "window": SAME, **changed}
    places = options.pop("places", (0, WEIGHTS, RESULT))
    return b"c" + layer(**options) + words(*places)  # type: ignore[arg-type, misc]


FAULTS = {
    faulty(shift=32): "fw_soma_conv2d: shift is 32; allowed: up to 31",
    faulty(window=Window((3, 2), 1, (1, 0, 1, 1))): "kernel_width is 2; allowed: 1, 3, 5, 7",
    faulty(window=Window((3, 3), 3, (1, 1, 1, 1))): "stride is 3; allowed: 1, 2",
    faulty(window=Window((3, 3), 1, (0, 1, 1, 1))): (
        "the number of padded input rows that are read is 10; allowed: up to 9"
    ),
    faulty(window=Window((3, 3), 1, (3, 1, 1, 1))): "pad_top is 3; allowed: up to 2",
    faulty(outputs=(24, 8, 20)): "out_channels is 24; allowed: multiples of 16",
    faulty(outputs=(32, 0, 20)): "out_height is 0; allowed: 1 and more",
    faulty(inputs=(2**31, 8, 20)): "in_channels is 2147483648; allowed: up to 1048576",
    faulty(inputs=(300, 8, 20)): "the number of bytes of weights is 86528; allowed: up to 64000",
    faulty(places=(255_248, WEIGHTS, 0)): "the input's end in L1 is 256016; allowed: up to 256000",
    faulty(places=(0, WEIGHTS, 249_600)): "the result's end in L1 is 257792; allowed: up to 256000",
    faulty(places=(0, WEIGHTS, 752)): (
        "the result's place in L1 is 752; allowed: places outside the input"
    ),
    faulty(places=(8, WEIGHTS, RESULT)): "the input's place in L1 is 8; allowed: multiples of 16",
    faulty(places=(0, WEIGHTS + 2, RESULT)): r"the address in L2 is 0x[0-9a-f]+; .*multiples of 4",
    faulty(
        places=(0, 2**31, RESULT)
    ): r"992 bytes of L2 from 0x9c[0-9a-f]+ on are outside L2; expected 0x1c000000",
    b"d" + layer(IMAGE, RESULTS, SAME) + words(0, WEIGHTS, RESULT): (
        "out_channels is 32; allowed: in_channels: 3"
    ),
    b"g" + layer(IMAGE, RESULTS, SAME) + words(0, WEIGHTS, RESULT, 0): (
        "fw_soma_analog_conv2d: step is 0; allowed: 1 and more"
    ),
    b"g" + layer((129, 2, 20), (32, 2, 20), SAME) + words(0, WEIGHTS, RESULT, 1): (
        "the number of products of a sum is 1161; allowed: up to 1152"
    ),
    b"g" + layer((3, 2, 20), (528, 2, 20), SAME) + words(0, WEIGHTS, RESULT, 1): (
        "out_channels is 528; allowed: up to 512"
    ),
    b"f" + layer((60, 1, 1), (32, 1, 1), POINT) + words(0, WEIGHTS, RESULT): (
        "fw_soma_dense: in_channels is 60; allowed: multiples of 16"
    ),
    b"a" + layer(IMAGE, (0, 0, 0), POINT) + words(0, 0, 16): (
        "fw_soma_add: the result's place in L1 is 16; allowed: places outside the input"
    ),
    b"l" + copy(255_984, 1, 16, 16) + words(0): (
        "fw_soma_load: the tile's end in L1 is 256016; allowed: up to 256000"
    ),
    b"s" + copy(0, 1, 24, 24) + words(0): "plane_bytes is 24; allowed: multiples of 16",
    b"s" + copy(0, 2, 16, 2**30) + words(0): r"fw_soma_store: [0-9]+ bytes of L2 from 0x1c",
}
ONLY_EMULATED = "of L2 from|the address in L2"


def test_a_store_moves_whole_pieces_of_32_bytes(build: BuildFirmware, run: RunFirmware) -> None:
    jobs = [
        store_at(0, b"\x11" * 64 + b"\x22" * 64),
        b"l" + copy(0, 1, 64, 64) + words(0),
        b"s" + copy(0, 1, 16, 16) + words(64),
        b"o" + words(64, 64),
    ]
    for platform in ("host", "diana"):
        found = run(build("soma.c", platform), platform, b"".join(jobs) + b"q").console
        assert found == b"\x11" * 32 + b"\x22" * 32


def test_a_fault_is_told_in_words(build: BuildFirmware, run: RunFirmware) -> None:
    elf = build("soma.c", "diana")
    for job, sentence in FAULTS.items():
        with pytest.raises(UserError, match=rf"{sentence}.*; at 0x1c[0-9a-f]{{6}} in counted"):
            run(elf, "diana", job + b"q")


def test_a_host_build_tells_the_same_faults(build: BuildFirmware, run: RunFirmware) -> None:
    elf = build("soma.c", "host", "gcc", SANITIZERS)
    for job, sentence in FAULTS.items():
        if re.search(ONLY_EMULATED, sentence):
            continue
        execution = run(elf, "host", job + b"q")
        assert execution.exit_code == EXIT_TRAP
        assert re.search(f"@fault .*{sentence}", execution.console.decode())


def test_the_clock_counts_instructions_and_jobs(build: BuildFirmware, run: RunFirmware) -> None:
    between, around = map(int, run(build("clock.c", "diana"), "diana").console.split())
    assert 0 < between < 50  # instructions
    assert 80 < around - between < 80 + 50  # 70 + 160 / 16 cycles of the transfer, and the call
