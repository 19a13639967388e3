"""Lists the memories of each layer's parts, if a platform has several to choose from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firmwright.ir.kernels import Kernels
from firmwright.ir.regions import Partition
from firmwright.planning.plan import Plan, Slot

CALLER = "the caller's"
"""The place of a result that is an output of the network."""


@dataclass(frozen=True, slots=True)
class LayerMemories:
    """The bytes of a layer's constants, results and scratch memory in each memory."""

    weights: dict[str, int]
    results: dict[str, int]
    scratch: dict[str, int]

    def __str__(self) -> str:
        """Return a text such as ``weights 672 of dtcm and 96 of flash, results 384 of ram``."""
        parts = {"weights": self.weights, "results": self.results, "scratch": self.scratch}
        return ", ".join(
            f"{name} {' and '.join(f'{size:,} of {memory}' for memory, size in held.items())}"
            for name, held in parts.items()
            if held
        )


def find_memories(
    partition: Partition, kernels: Kernels, plan: Plan, home: str
) -> dict[str, LayerMemories]:
    """Map each region to the memories of its parts. ``home`` is the memory of constants."""
    bytes_of = {tensor.name: tensor.bytes for tensor in partition.tensors}
    regions = {region.name: region for region in partition.regions}

    def find(name: str) -> str:
        location = plan.locations[name]
        return location.memory if isinstance(location, Slot) else CALLER

    return {
        kernel.region: LayerMemories(
            weights=add((plan.constants.get(p.tensor, home), p.bytes) for p in kernel.weights),
            results=add((find(n), bytes_of[n]) for n in regions[kernel.region].outputs),
            scratch=add((find(p.tensor), p.bytes) for p in kernel.scratch),
        )
        for kernel in kernels.kernels
    }


def add(parts: Iterable[tuple[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for memory, size in parts:
        total[memory] += size
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def count_constants(kernels: Kernels, plan: Plan, home: str) -> dict[str, int]:
    """Map each memory to the number of bytes of constants that are read from it."""
    sizes: Mapping[str, int] = {p.tensor: p.bytes for k in kernels.kernels for p in k.weights}
    return add((plan.constants.get(name, home), size) for name, size in sizes.items())
