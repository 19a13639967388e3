"""What quantization asks of samples beyond their shape: that they are finite, and a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.data.samples import Column, Sample
from firmwright.errors import UserError

__all__ = ["Sample", "refuse_not_finite", "sample_digest"]
Array = npt.NDArray[Any]


def sample_digest(sample: Sample) -> str:
    """Return the SHA-256 over name, type, shape and bytes (little-endian) of each input."""
    total = hashlib.sha256()
    for name, array in sorted(sample.items()):
        total.update(f"{name}\0{array.dtype}\0{list(array.shape)}\0".encode())
        total.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return total.hexdigest()


def refuse_not_finite(samples: Sequence[Sample], columns: Mapping[str, Column]) -> None:
    """Raise UserError that lists every sample with an infinity, by where it comes from."""
    bad = [
        f"  {columns[name].origins[index].name}: {int(np.count_nonzero(~np.isfinite(array)))} of "
        f"{array.size} values (sample {index}, input '{name}')"
        for index, sample in enumerate(samples)
        for name, array in sorted(sample.items())
        if array.dtype.kind == "f" and not np.isfinite(array).all()
    ]
    if bad:
        raise UserError("\n".join(["samples with values that are NaN or infinite:", *bad]))
