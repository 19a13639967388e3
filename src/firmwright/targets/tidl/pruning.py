"""Which regions stay: those that TIDL can be handed, and of them the ones with most work."""

from __future__ import annotations

from firmwright.targets.placement import Objection
from firmwright.targets.tidl.layers import Layers
from firmwright.targets.tidl.options import TidlOptions

MOST_TENSORS = 32
"""Inputs, and outputs, of a region: TI's compiler drops one that has more."""


def prune(
    regions: list[list[int]], layers: Layers, options: TidlOptions
) -> tuple[list[list[int]], dict[int, Objection]]:
    """Leave out regions with too many tensors or too little work; say so of their layers."""
    by_work = sorted(regions, key=lambda region: (-layers.macs(region), region))
    kept: list[list[int]] = []
    pruned: dict[int, Objection] = {}
    for region in by_work:
        objection = too_many_tensors(region, layers) or too_little_work(
            layers.macs(region), len(kept), options
        )
        if objection is None:
            kept.append(region)
        else:
            pruned.update(dict.fromkeys(region, objection))
    return sorted(kept), pruned


def too_many_tensors(region: list[int], layers: Layers) -> Objection | None:
    for rule, verb, tensors in (
        ("inputs of a region", "read", layers.inputs_of(region)),
        ("outputs of a region", "hand on", layers.results_of(region)),
    ):
        if len(tensors) > MOST_TENSORS:
            sentence = f"its region would {verb} {len(tensors)} tensors; TIDL takes {MOST_TENSORS}"
            return Objection(rule, sentence)
    return None


def too_little_work(macs: int, kept: int, options: TidlOptions) -> Objection | None:
    most, least = options.number("max_num_subgraphs"), options.number("min_macs")
    if kept >= most:
        sentence = f"{most} regions have more than the {macs:,} multiply-accumulates of its region"
        return Objection("max_num_subgraphs", sentence)
    if macs < least:
        sentence = f"its region has {macs:,} multiply-accumulates, less than {least:,}"
        return Objection("min_macs", sentence)
    return None
