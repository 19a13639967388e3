"""The Signal* operators: Python and C equal TFLite Micro, also from one run to the next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from firmwright.models.tflite.litert_outputs import run_reference
from tests.networks.firmware import assert_exact
from tests.networks.signal_models import (
    GAINS,
    NOISE,
    STARTS,
    WEIGHTS,
    WIDTHS,
    Array,
    build_model,
    draw_inputs,
    list_cases,
)
from tests.networks.tflite_models import ModelBuilder

RUNS = 6

CHECKSUMS = (
    0x7108EDF1, 0x46DD36BF, 0x6C06A44F, 0x1BD53403, 0x869A1C99, 0xAE735174,
    0xC8F808AE, 0xC6577C80, 0x7EBB17D1, 0x510023F5, 0x4815A3A0, 0x0AB681E2,
    0xA1DE32BA, 0x4AF3A01E, 0x98CA6E49, 0x278F9710, 0x8762DFB3, 0x5A93C014,
    0x0E0C9F0E, 0x6A106AB2, 0xB693E507, 0x06896B6D, 0x8EF73211, 0x5E88A958,
    0xE554A1C2, 0x19887FFB, 0xB7FD2F5B, 0xCFB7BE3F, 0xC2F6C33B, 0x49E322A8,
    0x69EE227D, 0xD80C5AF0, 0x23ED72A8, 0x628BA7EC, 0x0C22CD44,
)  # fmt: skip
"""The CRC-32 of the results of 6 runs, per case, that TFLite Micro computed (0.dev20261023).

Results that are not valid yet do not count, because TFLite Micro does not write them.
"""


def compute_checksum(runs: Sequence[Sequence[Array]]) -> int:
    found = 0
    for results in runs:
        waiting = results[-1].dtype == bool and not results[-1]
        for array in results[-1:] if waiting else results:
            found = crc32(np.ascontiguousarray(array).tobytes(), found)
    return found


def test_the_reference_equals_tflite_micro() -> None:
    found = []
    for case in list_cases():
        samples = [
            {f"t{i}": array for i, array in enumerate(draw_inputs(case, seed))}
            for seed in range(RUNS)
        ]
        found.append(compute_checksum(run_reference(build_model(case), samples).outputs))
    assert found == [*CHECKSUMS]


@pytest.mark.needs("gcc")
def test_the_c_equals_the_reference(tmp_path: Path) -> None:
    cases = [*list_cases()]
    samples = []
    for seed in range(RUNS):
        drawn = [draw_inputs(case, seed) for case in cases]
        sample: dict[str, Array] = {}
        first = 0
        for case, arrays in zip(cases, drawn, strict=True):
            sample |= {f"t{first + i}": array for i, array in enumerate(arrays)}
            first += len(case.inputs) + len(case.constants) + len(case.outputs)
        samples.append(sample)
    assert_exact(build_model(*cases), tmp_path, samples)


def build_front_end() -> bytes:
    """Return the audio front end of micro_speech for short frames, as one graph."""
    builder = ModelBuilder()

    def add(
        name: str, given: list[int], results: list[tuple[str, tuple[int, ...]]], **o: int
    ) -> list[int]:
        made = [builder.tensor(shape, dtype, None) for dtype, shape in results]
        builder.custom(name, given, made, o)
        return made

    audio = builder.input((8,), "int16", None)
    frames, valid = add(
        "SignalFramer", [audio], [("int16", (1, 24)), ("bool", ())],
        frame_size=24, frame_step=8, prefill=1,
    )  # fmt: skip
    window = builder.constant(np.resize(WEIGHTS, 24))
    (windowed,) = add("SignalWindow", [frames, window], [("int16", (1, 24))], shift=12)
    flat = builder.tensor((24,), "int16", None)
    shape = builder.constant(np.array([24], "int32"))
    builder.operator("RESHAPE", [windowed, shape], [flat], "ReshapeOptions", version=1)
    scaled, bits = add("SignalFftAutoScale", [flat], [("int16", (24,)), ("int32", ())])
    (spectrum,) = add("SignalRfft", [scaled], [("int16", (34,))], T=7, fft_length=32)
    (energy,) = add("SignalEnergy", [spectrum], [("uint32", (17,))], start_index=1, end_index=16)
    tables = [WEIGHTS, (4096 - WEIGHTS).astype("int16"), STARTS, STARTS, WIDTHS]
    filters = [builder.constant(array) for array in tables]
    (sums,) = add("SignalFilterBank", [energy, *filters], [("uint64", (5,))], num_channels=5)
    (roots,) = add("SignalFilterBankSquareRoot", [sums, bits], [("uint32", (5,))])
    channels = ("uint32", (5,))
    options = {**NOISE, "num_channels": 5}
    name = "SignalFilterBankSpectralSubtraction"
    cleaned, noise = add(name, [roots], [channels, channels], **options)
    gains = builder.constant(GAINS)
    (gained,) = add("SignalPCAN", [cleaned, noise, gains], [channels], snr_shift=6)
    (features,) = add(
        "SignalFilterBankLog", [gained], [("int16", (5,))],
        input_correction_bits=3, output_scale=1600,
    )  # fmt: skip
    builder.graph.outputs += [features, valid]
    return builder.build()


@pytest.mark.needs("gcc")
def test_an_audio_front_end(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    audio = [(1000 * random.standard_normal(8)).astype("int16") for _ in range(8)]
    found = assert_exact(build_front_end(), tmp_path, [{"t0": samples} for samples in audio])
    assert len({features.tobytes() for features, _ in found}) == len(audio)
