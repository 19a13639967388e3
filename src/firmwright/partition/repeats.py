"""Counts the regions that are equal except for scales, such as the steps of a recurrent layer."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from firmwright.ir.nodes import Function
from firmwright.ir.regions import Region
from firmwright.ir.relax import dtype_of, list_constants, static_shape


def count_repeats(
    regions: Sequence[Region], functions: Mapping[str, Function]
) -> tuple[Region, ...]:
    """Return the regions, each with the number of regions that are equal except for scales.

    Equal regions have equal operators, shapes and arrays of constants. The number is 1 for a region
    with other operators or shapes than all other regions.
    """
    kinds = {r.name: describe_kind(r, functions[r.name]) for r in regions}
    several = {kind for kind, count in Counter(kinds.values()).items() if count > 1}
    keys = {
        name: (kind, digest_arrays(functions[name]) if kind in several else name)
        for name, kind in kinds.items()
    }
    counts = Counter(keys.values())
    return tuple(replace(r, repeats=counts[keys[r.name]]) for r in regions)


def describe_kind(region: Region, function: Function) -> Hashable:
    types = ((dtype_of(v), static_shape(v)) for v in (*function.params, *function.body.body.fields))
    return region.device, region.operators, tuple(types)


def digest_arrays(function: Function) -> str:
    """Return a digest of the constants with several elements."""
    digest = hashlib.sha256()
    for array in list_constants(function):
        if array.size > 1:
            digest.update(array.tobytes())
    return digest.hexdigest()
