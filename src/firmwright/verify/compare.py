"""Compares the firmware's outputs with the reference's outputs, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from firmwright.errors import UserError
from firmwright.ir.small_types import to_model_type
from firmwright.ir.tensors import SIXTEEN_BIT_FLOATS, STRING, Tensor
from firmwright.recipe.recipe import Tolerance
from firmwright.verify.run_records import Agreement

Array = npt.NDArray[Any]
Outputs = Sequence[Sequence[Array]]
"""All outputs of each sample."""


class DifferenceError(UserError):
    """Raised if the outputs differ from the reference by more than rounding explains."""


def compute_distance(actual: Array, expected: Array) -> npt.NDArray[np.float64]:
    """Return abs(actual - expected), or 0 for equal infinities and for two NaNs."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(actual.astype("float64") - expected.astype("float64"))
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def compare(
    outputs: Sequence[Tensor],
    actual: Outputs,
    expected: Outputs,
    tolerance: Tolerance,
    steps: Sequence[float] = (),
) -> Agreement:
    """Compare every element. Raises UserError with the first element beyond the tolerance.

    ``steps`` has the step size of each output's last quantized tensor. The size is 0 if ``steps``
    is empty. The step of a 16-bit float is at least the distance to its neighbor
    (:func:`compute_step`). States may follow the outputs.
    """
    values = mismatches = differences = exact = 0
    largest, first, rounding = 0.0, "", True
    spans = [compute_span(arrays) for arrays in zip(*expected, strict=True)]
    sizes = steps[: len(outputs)] or [0.0] * len(outputs)
    for sample, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        exact_sample = True
        for tensor, a, b, span, step in zip(outputs, ours, theirs, spans, sizes, strict=True):
            refuse_other_form(tensor, a, b)
            b = b.reshape(a.shape)
            if tensor.stated_dtype != STRING:  # strings are compared by their bytes
                a, b = to_model_type(a, tensor), to_model_type(b, tensor)
            apart = compute_distance(a, b)
            larger = np.maximum(step, compute_step(b, tensor))
            wrong = apart > compute_allowance(b, tolerance, span, larger)
            values += a.size
            differences += int(np.count_nonzero(apart))
            mismatches += int(np.count_nonzero(wrong))
            exact_sample &= not apart.any()
            largest = max(largest, float(apart.max(initial=0.0)))
            rounding &= float(apart.max(initial=0.0)) <= find_rounding(a, span, step)
            if wrong.any() and not first:
                position = tuple(int(i) for i in np.argwhere(wrong)[0])
                first = (
                    f"sample {sample}, output '{tensor.name}', index {list(position)}: "
                    f"firmware {a[position]}, reference {b[position]}"
                )
        exact += exact_sample
    if mismatches:
        problem = UserError if rounding else DifferenceError
        raise problem(
            f"the firmware's outputs differ from the reference beyond the recipe's tolerance "
            f"({tolerance}) in {mismatches} of {values} values; the first:\n  {first}\n"
            f"  {advise(largest, rounding)}"
        )
    return Agreement(values, mismatches, differences, exact, largest)


LARGEST_ROUNDING = 1e-4
"""The fraction of a float output's range that the order of additions can explain."""


def find_rounding(values: Array, span: float, step: float) -> float:
    """Return the largest difference that rounding explains: a step, or a fraction of the range."""
    return 1.0 if values.dtype.kind in "iu" else max(LARGEST_ROUNDING * span, step)


def advise(largest: float, rounding: bool) -> str:
    """Return advice. The advice proposes a tolerance only if rounding explains the differences."""
    if rounding:
        return (
            f"the largest difference is {largest:g}: if rounding explains it, state "
            f"`run: {{tolerance: {{absolute: {round_up(largest)}}}}}`"
        )
    return f"the largest difference is {largest:g}, more than rounding explains"


def refuse_other_form(tensor: Tensor, actual: Array, expected: Array) -> None:
    """Raise UserError if the reference has another number or another kind of values.

    If an output was imported with a wrong type, its values may be close to the correct values.
    """
    kinds = [
        {"i": "integer", "u": "integer"}.get(a.dtype.kind, a.dtype.kind) for a in (actual, expected)
    ]
    if actual.size != expected.size or kinds[0] != kinds[1]:
        ours, theirs = (f"{a.dtype} {list(a.shape)}" for a in (actual, expected))
        raise UserError(
            f"output '{tensor.name}' is {ours} in the firmware and {theirs} in the reference; "
            "firmwright imported the model incorrectly: please report it with the model"
        )


def count_differences(actual: Outputs, expected: Outputs) -> int:
    """Return the number of values that differ, over all samples and outputs."""
    pairs = zip(chain(*actual), chain(*expected), strict=True)
    return sum(int(np.count_nonzero(compute_distance(a, b.reshape(a.shape)))) for a, b in pairs)


def compute_share(actual: Outputs, expected: Outputs) -> float:
    """Return the largest distance of two evaluations, as a fraction of the output's range.

    A difference of one step in an integer counts as rounding, not as distance.
    """
    shares = [0.0]
    for ours, theirs in zip(zip(*actual, strict=True), zip(*expected, strict=True), strict=True):
        apart = max(
            float(compute_distance(a, b.reshape(a.shape)).max(initial=0.0))
            for a, b in zip(ours, theirs, strict=True)
        )
        if theirs[0].dtype.kind in "iu":
            apart = max(apart - 1, 0.0)
        shares.append(apart / max(find_range(theirs), float(np.finfo("float32").tiny)))
    return max(shares)


def compute_span(arrays: Sequence[Array]) -> float:
    """Return the range of the finite values of a floating-point output, or 0 for integers."""
    return find_range(arrays) if arrays[0].dtype.kind == "f" else 0.0


SMALLEST_RANGE = 2.0**-8
"""The smallest range, as a fraction of the largest magnitude.

The default tolerance of a constant output is then three steps of float32.
"""


def find_range(arrays: Sequence[Array]) -> float:
    """Return the distance between the smallest and the largest finite value.

    The result is at least SMALLEST_RANGE times the largest magnitude.
    """
    values = np.concatenate([array.astype("float64").ravel() for array in arrays])
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0
    return float(max(np.ptp(finite), SMALLEST_RANGE * np.abs(finite).max()))


def compute_step(expected: Array, tensor: Tensor) -> npt.NDArray[np.float64]:
    """Return the distance of each 16-bit float to its neighbor, or 0 for other types."""
    if tensor.stated_dtype not in SIXTEEN_BIT_FLOATS:
        return np.zeros(1)
    limits = ml_dtypes.finfo(tensor.stated_dtype)  # type: ignore[no-untyped-call]
    size = np.nan_to_num(np.abs(expected.astype("float64")), nan=0.0)
    normal = np.clip(size, float(limits.smallest_normal), float(limits.max))
    exponent = np.floor(np.log2(normal))
    steps: npt.NDArray[np.float64] = float(limits.eps) * 2.0**exponent
    return steps


def compute_allowance(
    expected: Array, tolerance: Tolerance, span: float, step: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the allowed distance of each element from the reference."""
    size = np.abs(expected.astype("float64"))
    relative = tolerance.relative * np.where(np.isfinite(size), size, 0)
    allowed: npt.NDArray[np.float64] = relative + (
        tolerance.absolute + tolerance.range * span + tolerance.steps * step
    )
    return allowed


def round_up(number: float) -> str:
    """Return a positive number, rounded up to two digits, in a form that YAML reads."""
    if not np.isfinite(number):
        return "…"
    exponent = int(np.floor(np.log10(number))) - 1
    return f"{np.ceil(number / 10.0**exponent) * 10.0**exponent:.1e}"
