"""Splits clips that are narrower than the accelerator's clips, such as ReLU6.

The accelerator clips to its range. Then the core clips the bytes after the layer, in about ten
instructions per byte. Without the split, the core would compute the whole layer, and each product
would need as many instructions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod

import tvm
from tvm import relax

from firmwright.devices.soma_dory.matching import CLIP_RANGES, Match, intersect
from firmwright.ir.operators import read_clip_bounds
from firmwright.ir.relax import bind, main_bindings, rewrite_bindings, static_shape


def widen_clip(match: Match) -> Match:
    """Return the match with the narrowest accelerator clip around its clip, if this saves cycles.

    A clip that exceeds int8 is not split, because the following cast changes the order of numbers.
    """
    low, high = match.clip_range
    if count_products(match) < 2:
        return match
    around = [r for r in CLIP_RANGES if low <= high and intersect(r, (low, high)) == (low, high)]
    if not around or not (low.is_integer() and high.is_integer()):
        return match
    return replace(match, clip_range=around[-1])


def count_products(match: Match) -> int:
    weights = match.sums.weights
    return 0 if weights is None else prod(static_shape(weights)) // static_shape(match.result)[1]


def split_clips(module: tvm.IRModule, matches: Collection[Match]) -> tvm.IRModule:
    """Clip results to the accelerator's range, and then to their original range."""
    values = {b.var: b.value for b in main_bindings(module)}
    split = {m.result: m for m in matches if widen_clip(m) != m}

    def rewrite(binding: relax.VarBinding) -> list[relax.VarBinding]:
        match = split.get(binding.var)
        if match is None:
            return [binding]
        # The analog core's converter also clips, before the operators of the shift.
        sums = match.variables.index(match.sums.result)
        first = next(
            i for i, v in enumerate(match.variables) if i > sums and read_clip_bounds(values[v])
        )
        bindings: list[relax.VarBinding] = []

        name, wide = str(binding.var.name), widen_clip(match).clip_range
        clipped = bind(bindings, relax.op.clip(match.variables[first - 1], *wide), name)
        stored = bind(bindings, relax.op.astype(clipped, "int8"), name)
        bind(bindings, relax.op.clip(stored, *match.clip_range), binding.var)
        return bindings

    return rewrite_bindings(module, rewrite)
