"""Joins samples to batches for the firmware. The reference reads single samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.data.samples import Sample

Outputs = list[list[npt.NDArray[Any]]]


def join_samples(samples: Sequence[Sample], size: int) -> list[Sample]:
    """Return batches of ``size`` samples, joined along the first axis of each input."""
    return [
        {name: join_arrays([s[name] for s in group], 0) for name in group[0]}
        for group in chunk(samples, size)
    ]


def join_outputs(outputs: Outputs, size: int, axes: Sequence[int | None]) -> Outputs:
    """Return the outputs of ``size`` samples, joined along each output's batch axis.

    An output without a batch axis (None) is equal for all samples of a batch.
    """
    return [
        [
            group[0][i] if axis is None else join_arrays([o[i] for o in group], axis)
            for i, axis in enumerate(axes)
        ]
        for group in chunk(outputs, size)
    ]


def split_outputs(
    outputs: Outputs, size: int, axes: Sequence[int | None]
) -> list[list[npt.NDArray[Any]]]:
    """Return the outputs of each sample. This function reverses :func:`join_outputs`."""
    samples = []
    for batch in outputs:
        parts = [
            [array] * size if axis is None or size == 1 else np.split(array, size, axis)
            for array, axis in zip(batch, axes, strict=True)
        ]
        samples += [list(sample) for sample in zip(*parts, strict=True)]
    return samples


def join_arrays(arrays: Sequence[npt.NDArray[Any]], axis: int) -> npt.NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis)


def chunk(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
