"""Finds the first layer whose results differ from the reference's tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import Operator
from firmwright.models.formats import TensorValues
from firmwright.verify.compare import LARGEST_ROUNDING, compute_distance, find_range

Array = npt.NDArray[Any]
Results = Mapping[str, Array]
"""Maps the names of the partition's tensors to the results of the firmware.

The first axis has the samples.
"""

MAX_PERMUTED_AXES = 4


@dataclass(frozen=True)
class ComparedResult:
    """A result of a layer, and the reference's tensor to which it is closest.

    The first axis of ``found`` and ``expected`` has the samples.
    """

    tensor: str
    found: Array
    expected: Array

    @property
    def distances(self) -> npt.NDArray[np.float64]:
        return compute_distance(self.found, self.expected)

    @property
    def rounding(self) -> float:
        """The largest distance that rounding explains."""
        is_float = self.expected.dtype.kind == "f"
        return LARGEST_ROUNDING * find_range([self.expected]) if is_float else 1.0

    def __str__(self) -> str:
        """Return the values with the largest difference, and the number of differences."""
        distances = self.distances
        sample, *index = (int(i) for i in np.unravel_index(distances.argmax(), distances.shape))
        position = (sample, *index)
        return (
            f"sample {sample}, index {index}: firmware {self.found[position]}, "
            f"reference {self.expected[position]}; {np.count_nonzero(distances)} of "
            f"{distances.size} values differ"
        )


@dataclass(frozen=True)
class LayerDifference:
    """The first layer that differs. ``unknown`` are earlier layers that were not compared."""

    region: Region
    result: ComparedResult
    unknown: tuple[Region, ...]
    note: str = ""
    """An earlier difference that may explain the difference of the layer."""


def is_beyond_rounding(result: ComparedResult) -> bool:
    return bool((result.distances > result.rounding).any())


def is_different(result: ComparedResult) -> bool:
    """Return whether an integer differs, or a float by more than rounding explains."""
    allowed = result.rounding if result.expected.dtype.kind == "f" else 0.0
    return bool((result.distances > allowed).any())


def compare_layers(
    partition: Partition, operators: Sequence[Operator], computed: Results, reference: TensorValues
) -> dict[str, ComparedResult]:
    """Map the names of the partition's tensors to the results that the reference also has.

    The tensors of the reference are the results of the operators that name the region. A region may
    have another order of axes than the model.
    """
    results = {operator.name: operator.results for operator in operators}
    compared = {}
    for region in partition.regions:
        names = [name for source in region.sources for name in results.get(source, ())]
        for tensor in (name for name in region.outputs if name in computed):
            fitting = (
                ComparedResult(name, computed[tensor], values)
                for name in dict.fromkeys(names)
                if can_be_joined(reference, name)
                for values in align(np.stack([s[name] for s in reference]), computed[tensor])
            )
            closest = min(fitting, key=lambda result: float(result.distances.max()), default=None)
            if closest is not None:
                compared[tensor] = closest
    return compared


def can_be_joined(reference: TensorValues, name: str) -> bool:
    """Return whether all samples have numbers of this name and of one shape."""
    arrays = [sample[name] for sample in reference if name in sample]
    return (
        len(arrays) == len(reference)
        and len({array.shape for array in arrays}) == 1
        and arrays[0].dtype.kind in "biuf"
    )


def align(values: Array, result: Array) -> Iterator[Array]:
    """Yield the values in all orders of axes that have the result's shape, if the type fits."""
    if values.dtype != result.dtype or values.size != result.size or not values.size:
        return
    axes = range(1, values.ndim)
    orders = permutations(axes) if len(axes) <= MAX_PERMUTED_AXES else [tuple(axes)]
    shapes = [np.transpose(values, (0, *order)) for order in orders]
    fitting = [each for each in shapes if each.shape == result.shape]
    yield from fitting or [values.reshape(result.shape)]


def find_first_layer(
    partition: Partition, compared: Mapping[str, ComparedResult]
) -> LayerDifference | None:
    """Return the first layer that differs by more than rounding, or else the first that differs.

    A layer counts only if the difference reaches an output of the network through layers that
    differ or that were not compared. None if no layer counts.
    """
    for differs in (is_beyond_rounding, is_different):
        reached = find_reached(partition, compared, differs)
        for number, region in enumerate(reached):
            wrong = [compared[n] for n in region.outputs if n in compared and differs(compared[n])]
            if wrong:
                return LayerDifference(region, wrong[0], tuple(reached[:number]))
    return None


def find_reached(
    partition: Partition,
    compared: Mapping[str, ComparedResult],
    differs: Callable[[ComparedResult], bool],
) -> list[Region]:
    """Return the regions whose results may explain a wrong output, in order of execution."""
    needed = set(partition.outputs)
    reached = []
    for region in reversed(partition.regions):
        read = needed.intersection(region.outputs)
        if any(name not in compared or differs(compared[name]) for name in read):
            needed.update(region.inputs)
            if not region.view:
                reached.append(region)
    return reached[::-1]
