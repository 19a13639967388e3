"""Computes SignalRfft and SignalIrfft in KISS FFT's arithmetic, like TensorFlow Lite Micro.

A real FFT of n points is a complex FFT of n / 2 points and a last step with other factors. In int16
and int32, each stage divides the inputs by the radix, and products are rounded to nearest, ties up.
The radix is 4. The radix of the innermost stage is 2 if n / 2 is not a power of 4.

Source: kiss_fft.c, _kiss_fft_guts.h and kiss_fftr.c of KISS FFT 1.3. TFLite Micro compiles these
files with FIXED_POINT 16, FIXED_POINT 32 and in float.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, floor, pi, sin, tau
from typing import Any

import numpy as np

from firmwright.errors import UserError
from firmwright.models.tflite.custom_operators import Array, Kinds, Options, TensorKind

Complex = tuple[Array, Array]
"""Real and imaginary parts. Integers are int64, wrapped to their type after each step."""

MAX_LENGTH = 65536


def read_length(options: Options) -> int:
    """Return the number of real points.

    Raises UserError if the number is not a power of two from 4 to :data:`MAX_LENGTH`.
    """
    length = int(options["fft_length"])
    if length < 4 or length > MAX_LENGTH or length & (length - 1):
        raise UserError(
            f"fft_length is {length}; expected a power of two from 4 to {MAX_LENGTH}: write the "
            "model with such a length"
        )
    return length


def list_factors(inverse: bool, inputs: Kinds, options: Options) -> list[Array]:
    """Return the factors of the FFT and of the last step, as pairs in the input's dtype.

    Raises UserError if the rows do not fit the length of the FFT.
    """
    length, dtype, size = read_length(options), inputs[0].dtype, inputs[0].shape[-1]
    if size != length + 2 if inverse else not 1 <= size <= length:
        expected = f"{length + 2} (fft_length + 2)" if inverse else f"at most {length} (fft_length)"
        raise UserError(
            f"its rows have {size} numbers; expected {expected}: convert the model again"
        )
    points = length // 2
    sign = 1 if inverse else -1
    stages = [sign * tau * i / points for i in range(points)]
    last = [sign * pi * ((i + 1) / points + 0.5) for i in range(points // 2)]
    return [make_factors(phases, dtype) for phases in (stages, last)]


def describe(array: Array) -> TensorKind:
    return TensorKind(array.shape, str(array.dtype))


def make_factors(phases: Sequence[float], dtype: str) -> Array:
    values = np.array([(cos(phase), sin(phase)) for phase in phases])
    if dtype == "float32":
        return values.astype(dtype)
    most = np.iinfo(dtype).max
    return np.array([[floor(0.5 + most * v) for v in pair] for pair in values], dtype)


class DtypeArithmetic:
    """The arithmetic of one dtype: ``int16``, ``int32`` or ``float32``."""

    def __init__(self, dtype: str) -> None:
        self.dtype, self.is_float = dtype, dtype == "float32"
        self.bits = 0 if self.is_float else np.iinfo(dtype).bits - 1

    def wrap(self, values: Any) -> Array:
        """Wrap values to the dtype. The results are int64 if the dtype is an integer type."""
        stored = np.asarray(values).astype(self.dtype)
        return stored if self.is_float else stored.astype("int64")

    def round(self, products: Array) -> Array:
        return self.wrap((products + (1 << (self.bits - 1))) >> self.bits)

    def multiply(self, a: Complex, b: Complex) -> Complex:
        real, imaginary = a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]
        return (real, imaginary) if self.is_float else (self.round(real), self.round(imaginary))

    def divide(self, a: Complex, by: int) -> Complex:
        """Divide integers by a radix. Floats remain unchanged, because floats do not overflow."""
        if self.is_float:
            return a
        factor = np.iinfo(self.dtype).max // by
        return self.round(a[0] * factor), self.round(a[1] * factor)

    def add(self, a: Complex, b: Complex) -> Complex:
        return self.wrap(a[0] + b[0]), self.wrap(a[1] + b[1])

    def subtract(self, a: Complex, b: Complex) -> Complex:
        return self.wrap(a[0] - b[0]), self.wrap(a[1] - b[1])

    def halve(self, values: Array) -> Array:
        """Return half of each sum. KISS FFT adds int16 and int32 in 32 bits."""
        if self.is_float:
            return values * np.float32(0.5)
        return self.wrap((self.wrap(values) if self.dtype == "int32" else values) >> 1)

    def mirror(self, a: Complex) -> Complex:
        """Return the conjugates in reverse order."""
        return a[0][::-1], self.wrap(-a[1][::-1])

    def read(self, table: Array) -> Complex:
        return self.wrap(table[..., 0]), self.wrap(table[..., 1])


def transform(values: Complex, factors: Array, inverse: bool, of: DtypeArithmetic) -> Complex:
    """Return the complex FFT of ``values``, shape (points,) each."""
    points = len(values[0])
    if points == 1:
        return values
    radix = 4 if points % 4 == 0 else 2
    inner, step = points // radix, len(factors) // points
    parts = [
        transform((values[0][k::radix], values[1][k::radix]), factors, inverse, of)
        for k in range(radix)
    ]
    table = of.read(factors)
    first, *others = (of.divide(part, radix) for part in parts)
    turned = [
        of.multiply(part, (table[0][:: k * step][:inner], table[1][:: k * step][:inner]))
        for k, part in enumerate(others, 1)
    ]
    if radix == 2:
        return join([of.add(first, turned[0]), of.subtract(first, turned[0])])
    rotated = of.subtract(first, turned[1])
    first = of.add(first, turned[1])
    total, difference = of.add(turned[0], turned[2]), of.subtract(turned[0], turned[2])
    quarter = (difference[1], -difference[0])
    odd = [of.add(rotated, quarter), of.subtract(rotated, quarter)]
    second, fourth = reversed(odd) if inverse else odd
    return join([of.add(first, total), second, of.subtract(first, total), fourth])


def join(parts: Sequence[Complex]) -> Complex:
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def compute_rfft(inputs: Sequence[Array], options: Options) -> list[Array]:
    """Return the spectra, as pairs, of real rows that are padded with zeros."""
    (data,), length = inputs, read_length(options)
    factors = list_factors(False, [describe(data)], options)
    rows = (np.pad(row, (0, length - len(row))) for row in data.reshape(-1, data.shape[-1]))
    return [np.stack([transform_reals(row, *factors) for row in rows])]


def transform_reals(row: Array, stages: Array, last: Array) -> Array:
    """Return the spectrum of one row, shape (length / 2 + 1, 2)."""
    of, points, half = DtypeArithmetic(str(row.dtype)), len(row) // 2, len(row) // 4
    folded = transform((of.wrap(row[0::2]), of.wrap(row[1::2])), stages, False, of)
    (start, *_), (end, *_) = of.divide(folded, 2)
    given = (folded[0][1:], folded[1][1:])
    mirrored, given = of.divide(of.mirror(given), 2), of.divide(given, 2)
    low = slice(0, half)
    even, odd = (
        (whole[0][low], whole[1][low])
        for whole in (of.add(given, mirrored), of.subtract(given, mirrored))
    )
    turned = of.multiply(odd, of.read(last))
    spectrum = np.zeros((points + 1, 2), row.dtype)
    spectrum[[0, points], 0] = of.wrap([start + end, start - end])
    front = (even[0] + turned[0], even[1] + turned[1])
    back = (even[0] - turned[0], turned[1] - even[1])
    spectrum[1 : half + 1] = np.stack([of.halve(x) for x in front], -1)
    spectrum[points - half : points] = np.stack([of.halve(x) for x in back], -1)[::-1]
    return spectrum


def compute_irfft(inputs: Sequence[Array], options: Options) -> list[Array]:
    """Return the real rows of spectra. Rows in float32 are divided by the length."""
    (data,), length = inputs, read_length(options)
    factors = list_factors(True, [describe(data)], options)
    rows = data.reshape(-1, length // 2 + 1, 2)
    return [np.stack([restore_reals(row, *factors) for row in rows])]


def restore_reals(row: Array, stages: Array, last: Array) -> Array:
    """Return the real row of a spectrum of shape (length / 2 + 1, 2)."""
    of, length, half = DtypeArithmetic(str(row.dtype)), 2 * (len(row) - 1), (len(row) - 1) // 2
    spectrum = of.read(row)
    start, end = spectrum[0][0], spectrum[0][-1]
    first = of.divide((of.wrap(start + end), of.wrap(start - end)), 2)
    inner = (spectrum[0][1:-1], spectrum[1][1:-1])
    low, high = (
        of.divide((whole[0][:half], whole[1][:half]), 2) for whole in (inner, of.mirror(inner))
    )
    even, turned = of.add(low, high), of.multiply(of.subtract(low, high), of.read(last))
    front, back = of.add(even, turned), of.mirror(of.subtract(even, turned))
    real, imaginary = (
        np.concatenate([[begin], ahead[:-1], behind])
        for begin, ahead, behind in zip(first, front, back, strict=True)
    )
    values = transform((of.wrap(real), of.wrap(imaginary)), stages, True, of)
    signal = np.stack(values, -1).reshape(-1)
    return (signal / np.float32(length) if of.is_float else signal).astype(row.dtype)
