"""Which regions stay: those that TIDL can be handed, and of them the ones with most work."""

from __future__ import annotations

from firmwright.ir.regions import RuleViolation
from firmwright.targets.tidl.layers import LayerGraph
from firmwright.targets.tidl.options import TidlOptions

MAX_TENSORS = 32
"""Inputs, and outputs, of a region: TI's compiler drops one that has more."""


def prune(
    regions: list[list[int]], layers: LayerGraph, options: TidlOptions
) -> tuple[list[list[int]], dict[int, RuleViolation]]:
    """Leave out regions with too many tensors or too little work; say so of their layers."""
    by_work = sorted(regions, key=lambda region: (-layers.count_macs(region), region))
    kept: list[list[int]] = []
    pruned: dict[int, RuleViolation] = {}
    for region in by_work:
        violation = check_tensor_count(region, layers) or check_work(
            layers.count_macs(region), len(kept), options
        )
        if violation is None:
            kept.append(region)
        else:
            pruned.update(dict.fromkeys(region, violation))
    return sorted(kept), pruned


def check_tensor_count(region: list[int], layers: LayerGraph) -> RuleViolation | None:
    for rule, verb, tensors in (
        ("inputs of a region", "read", layers.inputs_of(region)),
        ("outputs of a region", "hand on", layers.results_of(region)),
    ):
        if len(tensors) > MAX_TENSORS:
            sentence = f"its region would {verb} {len(tensors)} tensors; TIDL takes {MAX_TENSORS}"
            return RuleViolation(rule, sentence)
    return None


def check_work(macs: int, kept: int, options: TidlOptions) -> RuleViolation | None:
    most, least = options.number("max_num_subgraphs"), options.number("min_macs")
    if kept >= most:
        sentence = f"{most} regions have more than the {macs:,} multiply-accumulates of its region"
        return RuleViolation("max_num_subgraphs", sentence)
    if macs < least:
        sentence = f"its region has {macs:,} multiply-accumulates, less than {least:,}"
        return RuleViolation("min_macs", sentence)
    return None
