"""A TFLite model with the Signal* operators of TFLite Micro, each with separate inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.networks.tflite_models import ModelBuilder

Array = npt.NDArray[Any]
Ports = tuple[tuple[tuple[int, ...], str], ...]

STARTS = np.array([0, 4, 8, 4, 8, 4], "int16")
WIDTHS = np.array([4, 8, 4, 8, 4, 4], "int16")
WEIGHTS = (np.arange(16) * 737 % 4096).astype("int16")
GAINS = (np.arange(125) * 1237 % 12000 - 3000).astype("int16")
NOISE = {
    "alternate_one_minus_smoothing": 14000, "alternate_smoothing": 2384, "clamping": False,
    "min_signal_remaining": 819, "num_channels": 10, "one_minus_smoothing": 15974,
    "smoothing": 410, "smoothing_bits": 10, "spectral_subtraction_bits": 14,
}  # fmt: skip


@dataclass(frozen=True)
class SignalCase:
    """One operator: the shapes and types of its inputs and results, its options and constants."""

    operator: str
    inputs: Ports
    outputs: Ports
    options: Mapping[str, Any] = field(default_factory=dict)
    constants: tuple[Array, ...] = ()


def port(dtype: str, *shape: int) -> tuple[tuple[int, ...], str]:
    return shape, dtype


def list_cases() -> Iterator[SignalCase]:
    yield SignalCase(
        "SignalWindow", (port("int16", 2, 16),), (port("int16", 2, 16),), {"shift": 3}, (WEIGHTS,)
    )
    auto_scaled = (port("int16", 16), port("int32"))
    yield SignalCase("SignalFftAutoScale", (port("int16", 16),), auto_scaled)
    for dtype, code in (("int16", 7), ("int32", 2), ("float32", 0)):
        for length in (8, 16, 32):
            options = {"T": code, "fft_length": length}
            reals, spectrum = port(dtype, 2, length), port(dtype, 2, length + 2)
            padded = port(dtype, 2, length - 3)
            yield SignalCase("SignalRfft", (padded,), (spectrum,), options)
            yield SignalCase("SignalIrfft", (spectrum,), (reals,), options)
    indices = {"start_index": 0, "end_index": 9}
    yield SignalCase("SignalEnergy", (port("int16", 18),), (port("uint32", 9),), indices)
    yield SignalCase(
        "SignalFilterBank",
        (port("uint32", 16),),
        (port("uint64", 5),),
        {"num_channels": 5},
        (WEIGHTS, (4096 - WEIGHTS).astype("int16"), STARTS, STARTS, WIDTHS),
    )
    sums = (port("uint64", 10), port("int32"))
    yield SignalCase("SignalFilterBankSquareRoot", sums, (port("uint32", 10),))
    channels = port("uint32", 10)
    for clamping in (False, True):
        options = {**NOISE, "clamping": clamping}
        name = "SignalFilterBankSpectralSubtraction"
        yield SignalCase(name, (channels,), (channels, channels), options)
    yield SignalCase("SignalPCAN", (channels, channels), (channels,), {"snr_shift": 6}, (GAINS,))
    options = {"input_correction_bits": 3, "output_scale": 1600}
    yield SignalCase("SignalFilterBankLog", (channels,), (port("int16", 10),), options)
    for prefill in (False, True):
        options = {"frame_size": 10, "frame_step": 4, "prefill": prefill}
        frames = (port("int16", 2, 2, 10), port("bool"))
        yield SignalCase("SignalFramer", (port("int16", 2, 8),), frames, options)
    for left, right, step in ((1, 1, 2), (2, 1, 4)):
        options = {
            "num_channels": 6, "stacker_left_context": left, "stacker_right_context": right,
            "stacker_step": step,
        }  # fmt: skip
        stacked = (port("int16", 6 * (left + right + 1)), port("bool"))
        yield SignalCase("SignalStacker", (port("int16", 6),), stacked, options)
    for delay in (3, 20):
        rows = (port("int16", 2, 8),)
        yield SignalCase("SignalDelay", rows, rows, {"delay_length": delay})
    for dtype, code in (("int16", 7), ("float32", 0)):
        options = {"T": code, "frame_step": 4}
        yield SignalCase(
            "SignalOverlapAdd", (port(dtype, 2, 3, 16),), (port(dtype, 2, 12),), options
        )


def build_model(*cases: SignalCase) -> bytes:
    """Return a model with separate inputs ``t0`` … and outputs for each case."""
    builder = ModelBuilder()
    for case in cases:
        given = [builder.input(shape, dtype, None) for shape, dtype in case.inputs]
        given += [builder.constant(array) for array in case.constants]
        made = [builder.output(shape, dtype, None) for shape, dtype in case.outputs]
        builder.custom(case.operator, given, made, case.options)
    return builder.build()


def draw_inputs(case: SignalCase, seed: int) -> list[Array]:
    """Return random inputs; every second seed has smaller numbers than the type allows."""
    random = np.random.default_rng(seed)
    return [draw(random, shape, dtype, seed % 2 * 5) for shape, dtype in case.inputs]


def draw(random: np.random.Generator, shape: tuple[int, ...], dtype: str, shift: int) -> Array:
    if dtype == "float32":
        return random.integers(-99, 99, shape).astype(dtype) / np.float32(8)
    if not shape:
        return np.array(shift, dtype)  # the second input of SignalFilterBankSquareRoot
    whole = random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype)
    return np.asarray(whole >> np.array(shift, dtype))
