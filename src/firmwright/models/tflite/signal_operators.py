"""Defines the built-in custom operators, which are the Signal* operators of TensorFlow Lite Micro.

Each operator has a C function in ``templates/operators`` and a reference in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import numpy as np

from firmwright.errors import UserError
from firmwright.models.tflite import signal_fft, signal_reference
from firmwright.models.tflite.custom_operators import (
    INT32_MAX,
    Array,
    CustomOperator,
    Kinds,
    Options,
    Reference,
    TensorKind,
)

INT16, UINT32 = ("int16",), ("uint32",)
MOST_GAINS = 125
"""The number of entries in SignalPCAN's table.

The table has 2 entries for small numbers, and 4 entries per number of bits from 2.
"""

FFT_TYPES = ("int16", "int32", "float32")


def reshape(compute: Callable[[Sequence[Array], Options], list[Array]]) -> Reference:
    """Return a reference whose results have the shapes in the file."""

    def call(inputs: Sequence[Array], options: Options, results: Kinds) -> list[Array]:
        arrays = compute(inputs, options)
        return [a.reshape(kind.shape) for a, kind in zip(arrays, results, strict=True)]

    return call


def flatten(compute: Callable[[Sequence[Array], Options], list[Array]]) -> Reference:
    """Return a reference for vectors that accepts any rank, because the C code ignores shapes."""
    return reshape(lambda inputs, options: compute([a.reshape(-1) for a in inputs], options))


def list_log_table(_inputs: Kinds, _options: Options) -> list[Array]:
    return [signal_reference.LOG_TABLE]


def list_noise(inputs: Kinds, _options: Options) -> Kinds:
    return [TensorKind(inputs[0].shape, "uint32")]


def list_framer_states(inputs: Kinds, options: Options) -> Kinds:
    """Return the last samples of each row, and the number of steps.

    Raises UserError if the step does not fit the frames or the input.
    """
    length, step = inputs[0].shape[-1], options["frame_step"]
    if not 1 <= step <= options["frame_size"] or length % step:
        raise UserError(
            f"frame_step is {step}, frame_size is {options['frame_size']}, the input's length is "
            f"{length}; expected a frame_step of at most frame_size that divides the length; "
            "convert the model again"
        )
    kept = signal_reference.count_kept_samples(options)
    return [
        TensorKind((prod(inputs[0].shape[:-1]), max(kept, 1)), "int16"),
        TensorKind((), "int32"),
    ]


def list_stacker_states(inputs: Kinds, options: Options) -> Kinds:
    """Return the queue of vectors, and its length with a flag for the first run.

    Raises UserError if the step or the input's shape does not fit.
    """
    names = ("stacker_left_context", "stacker_right_context")
    total, step = sum(options[name] for name in names) + 1, options["stacker_step"]
    if not 1 <= step <= total or inputs[0].shape != (options["num_channels"],):
        raise UserError(
            f"stacker_step is {step} (expected 1 to {total}), the shape of the input is "
            f"{list(inputs[0].shape)} (expected [{options['num_channels']}], from num_channels); "
            "convert the model again"
        )
    return [TensorKind((total * options["num_channels"],), "int16"), TensorKind((2,), "int32")]


def list_delay_states(inputs: Kinds, options: Options) -> Kinds:
    rows = prod(inputs[0].shape[:-1])
    return [TensorKind((rows, max(options["delay_length"], 1)), inputs[0].dtype)]


def list_overlap_states(inputs: Kinds, options: Options) -> Kinds:
    """Return the incomplete sums of each row. Raises UserError if a step is longer than a frame."""
    *outer, _, size = inputs[0].shape
    if not 1 <= options["frame_step"] <= size:
        raise UserError(
            f"frame_step is {options['frame_step']}; expected 1 to {size}, the length of a frame: "
            "convert the model again"
        )
    return [TensorKind((prod(outer), size), inputs[0].dtype)]


def count_rows(kind: TensorKind) -> int:
    return prod(kind.shape[:-1])


def number_window(inputs: Kinds, options: Options) -> list[int]:
    """Return the rows, their length and the shift.

    Raises UserError if the length of the window does not divide the number of samples.
    """
    size, length = prod(inputs[0].shape), prod(inputs[1].shape)
    if not length or size % length:
        raise UserError(
            f"the input has {size} samples; expected a multiple of the window's length, {length}: "
            "convert the model again"
        )
    return [size // length, length, options["shift"]]


def number_pcan(inputs: Kinds, options: Options) -> list[int]:
    """Return the channels and the shift. Raises UserError if tables are too small."""
    channels, noise, gains = (prod(kind.shape) for kind in inputs)
    if noise != channels or gains < MOST_GAINS:
        raise UserError(
            f"it has {noise} estimates of the noise and {gains} gains for {channels} channels; "
            f"expected {channels} estimates and {MOST_GAINS} gains: convert the model again"
        )
    return [channels, options["snr_shift"]]


def number_filter_bank(inputs: Kinds, options: Options) -> list[int]:
    """Return the channels.

    Raises UserError if a table does not have ``num_channels + 1`` elements.
    """
    tables = [prod(kind.shape) for kind in inputs[3:]]
    channels = options["num_channels"]
    if set(tables) != {channels + 1}:
        raise UserError(
            f"it has {channels} channels and tables of {tables} elements; expected {channels + 1} "
            "elements each: convert the model again"
        )
    return [channels]


def check_filter_tables(inputs: Kinds, values: Sequence[Array | None]) -> None:
    """Raise UserError if a channel reads outside the input or the weights."""
    tables = [array.astype("int64") for array in values[3:6] if array is not None]
    if len(tables) != 3 or len({table.size for table in tables}) != 1:
        raise UserError(
            "its inputs 3 to 5 (frequencies, starts, widths) are not constants of equal lengths; "
            "convert the model again"
        )
    frequencies, starts, widths = tables
    size, *weights = (prod(kind.shape) for kind in inputs[:3])
    ends = ((frequencies, size), (starts, min(weights)))
    if any(np.any((first < 0) | (widths < 0) | (first + widths > end)) for first, end in ends):
        raise UserError(
            f"its frequencies, starts or widths exceed the {size} inputs or {min(weights)} weights;"
            " convert the model again"
        )


def number_framer(inputs: Kinds, options: Options) -> list[int]:
    """Return rows, frames per row, frame length, step, kept samples, their stride, and steps."""
    size, step = options["frame_size"], options["frame_step"]
    kept = signal_reference.count_kept_samples(options)
    frames = inputs[0].shape[-1] // step
    steps = 0 if options["prefill"] else kept // step
    return [count_rows(inputs[0]), frames, size, step, kept, inputs[1].shape[-1], steps]


def number_stacker(_inputs: Kinds, options: Options) -> list[int]:
    left = options["stacker_left_context"]
    total = left + options["stacker_right_context"] + 1
    return [options["num_channels"], left, total, options["stacker_step"]]


NOISE_OPTIONS = (
    "smoothing", "one_minus_smoothing", "alternate_smoothing", "alternate_one_minus_smoothing",
    "smoothing_bits", "spectral_subtraction_bits", "min_signal_remaining", "clamping",
)  # fmt: skip
NOISE_LIMITS = {
    **dict.fromkeys(NOISE_OPTIONS, INT32_MAX), "smoothing_bits": 31, "spectral_subtraction_bits": 63
}  # fmt: skip
"""The maximum values of the options.

The maximum of a shift is the number of shifted bits minus 1.
"""

STACKER_OPTIONS = (
    "num_channels", "stacker_left_context", "stacker_right_context", "stacker_step",
)  # fmt: skip

SIGNAL = {
    "SignalWindow": CustomOperator(
        "signal_window",
        reshape(signal_reference.compute_window),
        numbers=number_window,
        accepts=(INT16, INT16),
        requires={"shift": 31},
    ),
    "SignalFftAutoScale": CustomOperator(
        "signal_fft_auto_scale",
        flatten(signal_reference.compute_auto_scale),
        numbers=lambda i, _: [prod(i[0].shape)],
        accepts=(INT16,),
    ),
    "SignalRfft": CustomOperator(
        "signal_rfft_{dtype}",
        reshape(signal_fft.compute_rfft),
        partial(signal_fft.list_factors, False),
        numbers=lambda i, o: [count_rows(i[0]), i[0].shape[-1], o["fft_length"] // 2],
        accepts=(FFT_TYPES,),
        rank=1,
        requires={"fft_length": signal_fft.MAX_LENGTH},
    ),
    "SignalIrfft": CustomOperator(
        "signal_irfft_{dtype}",
        reshape(signal_fft.compute_irfft),
        partial(signal_fft.list_factors, True),
        numbers=lambda i, o: [count_rows(i[0]), o["fft_length"] // 2],
        accepts=(FFT_TYPES,),
        rank=1,
        requires={"fft_length": signal_fft.MAX_LENGTH},
    ),
    "SignalEnergy": CustomOperator(
        "signal_energy",
        reshape(signal_reference.compute_energy),
        numbers=lambda i, o: [prod(i[0].shape) // 2, o["start_index"], o["end_index"]],
        accepts=(INT16,),
        requires={"start_index": INT32_MAX, "end_index": INT32_MAX},
    ),
    "SignalFilterBank": CustomOperator(
        "signal_filter_bank",
        flatten(signal_reference.compute_filter_bank),
        numbers=number_filter_bank,
        accepts=(UINT32, *[INT16] * 5),
        requires={"num_channels": INT32_MAX},
        check_values=check_filter_tables,
    ),
    "SignalFilterBankSquareRoot": CustomOperator(
        "signal_filter_bank_square_root",
        flatten(signal_reference.compute_square_root),
        numbers=lambda i, _: [prod(i[0].shape)],
        accepts=(("uint64",), ("int32",)),
    ),
    "SignalFilterBankSpectralSubtraction": CustomOperator(
        "signal_filter_bank_spectral_subtraction",
        flatten(signal_reference.compute_spectral_subtraction),
        numbers=lambda i, o: [prod(i[0].shape), *(int(o[name]) for name in NOISE_OPTIONS)],
        states=list_noise,
        accepts=(UINT32,),
        requires=NOISE_LIMITS,
    ),
    "SignalPCAN": CustomOperator(
        "signal_pcan",
        flatten(signal_reference.compute_pcan),
        numbers=number_pcan,
        accepts=(UINT32, UINT32, INT16),
        requires={"snr_shift": 63},
    ),
    "SignalFilterBankLog": CustomOperator(
        "signal_filter_bank_log",
        flatten(signal_reference.compute_log),
        list_log_table,
        numbers=lambda i, o: [prod(i[0].shape), o["input_correction_bits"], o["output_scale"]],
        accepts=(UINT32,),
        requires={"input_correction_bits": 31, "output_scale": INT32_MAX},
    ),
    "SignalFramer": CustomOperator(
        "signal_framer",
        reshape(signal_reference.compute_frames),
        numbers=number_framer,
        states=list_framer_states,
        accepts=(INT16,),
        rank=1,
        requires=dict.fromkeys(("frame_size", "frame_step", "prefill"), INT32_MAX),
    ),
    "SignalStacker": CustomOperator(
        "signal_stacker",
        reshape(signal_reference.compute_stack),
        numbers=number_stacker,
        states=list_stacker_states,
        accepts=(INT16,),
        requires=dict.fromkeys(STACKER_OPTIONS, INT32_MAX),
    ),
    "SignalDelay": CustomOperator(
        "signal_delay",
        reshape(signal_reference.compute_delay),
        numbers=lambda i, o: [
            count_rows(i[0]),
            i[0].shape[-1],
            o["delay_length"],
            i[1].shape[-1],
        ],
        states=list_delay_states,
        accepts=(INT16,),
        rank=1,
        requires={"delay_length": INT32_MAX},
    ),
    "SignalOverlapAdd": CustomOperator(
        "signal_overlap_add_{dtype}",
        reshape(signal_reference.compute_overlap_add),
        numbers=lambda i, o: [
            prod(i[0].shape[:-2]),
            i[0].shape[-2],
            i[0].shape[-1],
            o["frame_step"],
        ],
        states=list_overlap_states,
        accepts=(("int16", "float32"),),
        rank=2,
        requires={"frame_step": INT32_MAX},
    ),
}
