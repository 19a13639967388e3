"""Removes regions that have too many tensors or too little work for TIDL."""

from __future__ import annotations

from math import prod

from firmwright.devices.tidl.options import TidlOptions
from firmwright.ir.nodes import Var
from firmwright.ir.operators import short_name
from firmwright.ir.regions import Remedy, RuleViolation
from firmwright.ir.relax import dtype_of, static_shape
from firmwright.ir.tensors import ELEMENT_BYTES
from firmwright.partition.layers import LayerGraph
from firmwright.targets import Context

MAX_TENSORS = 32
"""The maximum number of inputs, and of outputs, of a region; TI's compiler drops larger regions."""


def prune(
    regions: list[list[int]], layers: LayerGraph, options: TidlOptions, context: Context
) -> tuple[list[list[int]], dict[int, RuleViolation]]:
    """Return the kept regions, and the reason against each layer of the other regions.

    A region is removed if it has too many tensors or too little work.
    """
    by_work = sorted(regions, key=lambda region: (-layers.count_macs(region), region))
    kept: list[list[int]] = []
    pruned: dict[int, RuleViolation] = {}
    for region in by_work:
        violation = (
            check_tensor_count(region, layers)
            or check_dequantized(region, layers)
            or check_call(region, layers, options, context)
            or check_work(layers.count_macs(region), len(kept), options)
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
            sentence = (
                f"its region would {verb} {len(tensors)} tensors; TIDL supports {MAX_TENSORS}"
            )
            return RuleViolation(rule, sentence)
    return None


def check_dequantized(region: list[int], layers: LayerGraph) -> RuleViolation | None:
    """Return a violation for a region that dequantizes but does not quantize.

    TI's checker allows such a graph only with the scale 1.
    """
    kinds = {short_name(b.value) for i in region for b in layers.groups[i].bindings}
    if "dequantize" not in kinds or "quantize" in kinds:
        return None
    sentence = "its region dequantizes but does not quantize; TIDL supports that with scale 1 only"
    return RuleViolation("dequantized region", sentence)


def check_call(
    region: list[int], layers: LayerGraph, options: TidlOptions, context: Context
) -> RuleViolation | None:
    """Return a violation if a region has no products and a call takes longer than the processor.

    The platform's timing has both times, as in the estimates of a comparison. The check is skipped
    if the user states ``min_macs``. The check is also skipped if a C7x computes the layers that
    TIDL does not run, because that C7x calls TIDL itself.
    """
    timing, rest = context.platform.timing, context.fallback
    if timing is None or rest is None or rest.target.core or "min_macs" in options.stated:
        return None
    if layers.count_macs(region) or rest.name not in timing.engines:
        return None
    engine = timing.engines[rest.name]
    moved = sum(count_bytes(v) for i in region for v in tensors_of(i, layers))
    spent = moved / (engine.bytes_per_cycle * engine.clock_mhz)
    if spent >= timing.call_us:
        return None
    sentence = (
        f"its region has no multiply-accumulates: calling TIDL costs {timing.call_us:,} us, "
        f"and {rest.name} runs all its layers in an estimated {spent:,.0f} us; min_macs=0 "
        "offloads the region anyway"
    )
    return RuleViolation("region without products", sentence)


def tensors_of(number: int, layers: LayerGraph) -> set[Var]:
    return layers.inputs_of([number]) | layers.results_of([number])


def count_bytes(tensor: Var) -> int:
    return prod(static_shape(tensor)) * ELEMENT_BYTES[dtype_of(tensor)]


def check_work(macs: int, kept: int, options: TidlOptions) -> RuleViolation | None:
    most, least = options.number("max_num_subgraphs"), options.number("min_macs")
    if kept >= most:
        sentence = (
            f"the maximum is {most}, and other regions have at least {macs:,} multiply-accumulates"
        )
        remedy = Remedy("target: tidl: increase max_num_subgraphs")
        return RuleViolation("max_num_subgraphs", sentence, remedy=remedy)
    if macs < least:
        sentence = f"its region has {macs:,} multiply-accumulates, less than {least:,}"
        return RuleViolation("min_macs", sentence, remedy=Remedy("target: tidl: decrease min_macs"))
    return None
