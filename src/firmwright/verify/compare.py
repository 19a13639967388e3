"""Compare the firmware's outputs with the reference's, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.errors import UserError
from firmwright.ir.tensors import Tensor
from firmwright.recipe import Tolerance
from firmwright.verify.record import Agreement

Array = npt.NDArray[Any]
Outputs = Sequence[Sequence[Array]]
"""Every output of every sample."""


def compute_distance(found: Array, expected: Array) -> npt.NDArray[np.float64]:
    """Return abs(found - expected), 0 for equal infinities and for two NaNs."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(found.astype("float64") - expected.astype("float64"))
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def compare(
    outputs: Sequence[Tensor], found: Outputs, expected: Outputs, tolerance: Tolerance
) -> Agreement:
    """Compare every element; UserError with the first one that is beyond the tolerance."""
    values = mismatches = differences = exact = 0
    largest, first = 0.0, ""
    for sample, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        exact_sample = True
        for tensor, a, b in zip(outputs, ours, theirs, strict=True):
            b = b.reshape(a.shape)
            apart = compute_distance(a, b)
            size = np.abs(b.astype("float64"))
            allowed = tolerance.absolute + tolerance.relative * np.where(np.isfinite(size), size, 0)
            wrong = apart > allowed
            values += a.size
            differences += int(np.count_nonzero(apart))
            mismatches += int(np.count_nonzero(wrong))
            exact_sample &= not apart.any()
            largest = max(largest, float(apart.max(initial=0.0)))
            if wrong.any() and not first:
                place = tuple(int(i) for i in np.argwhere(wrong)[0])
                first = (
                    f"sample {sample}, output '{tensor.name}', index {list(place)}: "
                    f"firmware {a[place]}, reference {b[place]}"
                )
        exact += exact_sample
    if mismatches:
        raise UserError(
            f"the firmware's outputs differ from the reference beyond the recipe's tolerance "
            f"(absolute {tolerance.absolute:g}, relative {tolerance.relative:g}) in "
            f"{mismatches} of {values} values; the first:\n  {first}"
        )
    return Agreement(values, mismatches, differences, exact, largest)
