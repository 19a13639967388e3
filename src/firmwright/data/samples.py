"""Makes samples of a network's inputs: real samples with origins, or seeded random samples."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from firmwright.data.arrays import Array, dequantize_array, quantize_array
from firmwright.data.sample_sources import Preprocess
from firmwright.errors import UserError
from firmwright.ir.small_types import find_limits, to_bytes
from firmwright.ir.tensors import STRING, Tensor

Sample = Mapping[str, Array]

Range = tuple[float, float]

UNIT: Range = (0.0, 1.0)

BYTES: Range = (0.0, 255.0)


@dataclass(frozen=True)
class Origin:
    """The origin of one input's data in one sample.

    ``name`` is a file's name, with an index if the file contains several samples. ``sha256`` is the
    digest of the network's input data. ``picture`` is the path of a picture.
    """

    name: str
    sha256: str
    picture: Path | None = None
    preprocess: Preprocess | None = None


@dataclass(frozen=True)
class Column:
    """The data of one input and its origins. The index is the sample."""

    arrays: list[Array]
    origins: list[Origin]


def random_samples(
    inputs: Sequence[Tensor],
    count: int,
    seed: int,
    ranges: Mapping[str, Range] = MappingProxyType({}),
    whole: Collection[str] = (),
) -> list[Sample]:
    """Draw integers over their whole range, floats from [0, 1), and strings of one letter.

    A seed always results in equal samples. ``ranges`` has the limits of inputs with other ranges.
    Floats of ``whole`` inputs are whole numbers.
    """
    columns = {}
    for index, tensor in enumerate(inputs):
        generator = np.random.default_rng([seed, index])
        shape = (count, *tensor.shape)
        if tensor.stated_dtype == STRING:
            letters = generator.integers(ord("a"), ord("z"), (*shape[:-1], 1), "uint8", True)
            columns[tensor.name] = to_bytes(letters.view("S1")[..., 0])
        elif tensor.dtype == "bool":
            columns[tensor.name] = generator.integers(0, 2, shape).astype(bool)
        elif "float" in tensor.stated_dtype:
            low, high = ranges.get(tensor.name, UNIT)
            drawn = low + (high - low) * generator.random(shape)
            drawn = np.rint(drawn) if tensor.name in whole else drawn
            columns[tensor.name] = to_bytes(drawn.astype(tensor.stated_dtype))
        else:
            limits = find_limits(tensor.stated_dtype)
            low, high = ranges.get(tensor.name, (limits.min, limits.max))
            drawn = generator.integers(int(low), int(high), shape, tensor.dtype, endpoint=True)
            columns[tensor.name] = drawn
    return [{n: np.asarray(column[i]) for n, column in columns.items()} for i in range(count)]


def repeat_samples(columns: Mapping[str, Column], count: int) -> dict[str, Column]:
    """Return ``count`` samples, and repeat the first samples if there are too few."""
    held = min(count, *(len(c.arrays) for c in columns.values()))
    turns = [i % held for i in range(count)]
    return {
        name: Column([c.arrays[i] for i in turns], [c.origins[i] for i in turns])
        for name, c in columns.items()
    }


def to_samples(columns: Mapping[str, Column], count: int) -> list[Sample]:
    return [{name: column.arrays[i] for name, column in columns.items()} for i in range(count)]


def requantize_columns(
    columns: Mapping[str, Column], before: Sequence[Tensor], after: Sequence[Tensor]
) -> dict[str, Column]:
    """Convert the data of inputs from the tensors ``before`` to the tensors ``after``."""
    result = dict(columns)
    for old, new in zip(before, after, strict=True):
        if old != new:
            real = [dequantize_array(array, old) for array in columns[old.name].arrays]
            arrays = real if new.scale is None else [quantize_array(array, new) for array in real]
            result[old.name] = replace(columns[old.name], arrays=arrays)
    return result


def digest(array: Array) -> str:
    """Return the SHA-256 of an array's type, shape and little-endian bytes."""
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
    header = f"{array.dtype.name} {list(array.shape)}\n".encode()
    return hashlib.sha256(header + little.tobytes()).hexdigest()


def sample_digest(sample: Sample) -> str:
    """Return the SHA-256 of the name, type, shape and little-endian bytes of all inputs."""
    total = hashlib.sha256()
    for name, array in sorted(sample.items()):
        total.update(f"{name}\0{array.dtype}\0{list(array.shape)}\0".encode())
        total.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return total.hexdigest()


def refuse_not_finite(samples: Sequence[Sample], columns: Mapping[str, Column]) -> None:
    """Raise UserError with the origin of each sample that contains an infinity or NaN."""
    bad = [
        f"  {columns[name].origins[index].name}: {int(np.count_nonzero(~np.isfinite(array)))} of "
        f"{array.size} values (sample {index}, input '{name}')"
        for index, sample in enumerate(samples)
        for name, array in sorted(sample.items())
        if array.dtype.kind == "f" and not np.isfinite(array).all()
    ]
    if bad:
        raise UserError(
            "\n".join(
                ["samples with values that are NaN or infinite; remove or correct them:", *bad]
            )
        )


def refuse_not_whole(
    columns: Mapping[str, Column],
    limits: Mapping[str, Range],
    which: str = "that `integers` of the recipe's inputs excludes",
) -> None:
    """Raise UserError with the origin of each sample that has fractions or exceeds its limits."""
    bad = []
    for name, (low, high) in limits.items():
        column = columns[name]
        for origin, array in zip(column.origins, column.arrays, strict=True):
            wrong = array[(array != np.rint(array)) | (array < low) | (array > high)]
            if wrong.size:
                bad.append(
                    f"  {origin.name}: {wrong.size} of {array.size} values, the first "
                    f"{wrong[0]:g} (input '{name}', whole numbers from {low:g} to {high:g})"
                )
    if bad:
        raise UserError("\n".join([f"samples {which}:", *bad]))
