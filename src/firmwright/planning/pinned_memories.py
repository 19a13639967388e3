"""Resolves the pins of a recipe's ``memory`` to tensors and constants of the network."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from firmwright.errors import suggest_known
from firmwright.ir.kernels import Kernels
from firmwright.ir.regions import Partition, Region
from firmwright.planning.memory_assignment import find_accelerated
from firmwright.recipe.memory_key import KINDS, WEIGHTS, PinError, rank
from firmwright.toolchain.platforms import Platform


def resolve_pins(
    pins: Mapping[str, str], partition: Partition, kernels: Kernels, platform: Platform
) -> dict[str, str]:
    """Return the memories of tensors, scratch buffers and constants that the recipe pins.

    A key names a layer by the layer's operators in the model, or by its region. ``*`` matches any
    text, and ``?`` matches any character. The layer's constants, results and scratch buffers are in
    the memory, but only the constants if the memory is read-only. A name has precedence over a
    pattern. A pattern has precedence over ``weights`` and ``arena``, which exclude the tensors of
    accelerators. Raises PinError if a layer does not exist, runs on an accelerator, has no tensors
    to place, or has two memories.
    """
    accelerated = find_accelerated(partition, kernels, platform)
    memories: dict[str, tuple[int, str]] = {}
    for key, memory in sorted(pins.items(), key=lambda pin: (rank(pin[0]), pin[0])):
        if key in KINDS:
            names = list_kind(key, partition, kernels) - accelerated
        else:
            names = list_layers(key, memory, partition, kernels, platform)
        if names & accelerated:
            raise PinError(
                key,
                "an accelerator uses this tensor, but `memory` places only other tensors; remove "
                "the key",
            )
        for name in sorted(names):
            before, other = memories.get(name, (-1, memory))
            if before == rank(key) and other != memory:
                raise PinError(
                    key,
                    f"another key assigns one of these layers to '{other}'; remove one key",
                )
            memories[name] = rank(key), memory
    return {name: memory for name, (_, memory) in memories.items()}


def list_kind(kind: str, partition: Partition, kernels: Kernels) -> set[str]:
    """Return the names of all constants, or of all tensors and scratch buffers."""
    if kind == WEIGHTS:
        return {p.tensor for kernel in kernels.kernels for p in kernel.weights}
    scratch = {p.tensor for kernel in kernels.kernels for p in kernel.scratch}
    return scratch | {*partition.view_roots.values()}


def list_layers(
    pattern: str, memory: str, partition: Partition, kernels: Kernels, platform: Platform
) -> set[str]:
    """Return the tensors and constants of the matching layers that the memory can contain."""
    regions = [region for region in partition.regions if not region.view]
    layers = {region.name for region in regions if is_named(region, pattern)}
    if not layers:
        known = {name for region in regions for name in region.sources}
        raise PinError(pattern, f"no layer named '{pattern}'{suggest_known(pattern, known)}")
    selected = [kernel for kernel in kernels.kernels if kernel.region in layers]
    constants = {p.tensor for kernel in selected for p in kernel.weights}
    written = {p.tensor for kernel in selected for p in (*kernel.outputs, *kernel.scratch)}
    placed = written - {partition.view_roots.get(name) for name in partition.outputs}
    names = constants if platform.memories[memory].read_only else constants | placed
    if not names:
        raise PinError(
            pattern, f"the layer has no buffer that '{memory}' could contain; remove the key"
        )
    return names


def is_named(region: Region, pattern: str) -> bool:
    """Return whether a pattern matches a region. An exact name always matches."""
    shell = pattern.replace("[", "[[]")  # only * and ? are special in names, unlike in a shell
    return any(n == pattern or fnmatchcase(n, shell) for n in (region.name, *region.sources))
