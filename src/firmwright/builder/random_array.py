"""Makes random weights that are equal on all machines and with all versions of NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.errors import UserError


def random_array(
    shape: Sequence[int],
    dtype: str = "int8",
    *,
    seed: int,
    low: int | None = None,
    high: int | None = None,
) -> npt.NDArray[Any]:
    """Return integers from ``low`` to ``high`` (inclusive). The default is the range of ``dtype``.

    Each integer is ``low + r mod (high - low + 1)``; r is the next 64-bit number of PCG64 with this
    seed. NumPy guarantees that this stream never changes (NEP 19), unlike the stream of
    ``integers``. Raises UserError if ``dtype`` cannot hold the limits.
    """
    limits = np.iinfo(dtype)
    first = int(limits.min) if low is None else low
    last = int(limits.max) if high is None else high
    if not limits.min <= first <= last <= limits.max:
        raise UserError(
            f"random_array: {dtype} has no numbers from {first} to {last}; expected low <= "
            f"high, from {limits.min} to {limits.max}"
        )
    drawn = np.random.PCG64(seed).random_raw(prod(shape))
    # Differences of 64-bit numbers wrap around. The sum wraps back to the right number.
    moved = drawn % np.uint64(last - first + 1) + np.uint64(first % 2**64)
    return moved.astype(np.int64).astype(dtype).reshape(tuple(shape))
