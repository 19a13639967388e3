"""Selects the layers of a network that TIDL supports, and merges them into few regions.

The steps are in the order of TI's compiler. First, rules and lists select layers. Then adjacent
layers become a region. Finally, the regions with the most multiply-accumulates are selected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from firmwright.devices.tidl.option_table import OPTIONS
from firmwright.devices.tidl.options import (
    SCALE_TYPE,
    TidlOptions,
    read_options,
    refuse_calibration,
    tidl_rules,
)
from firmwright.devices.tidl.scale_facts import find_quantization_facts, is_quantized
from firmwright.errors import did_you_mean
from firmwright.ir.nodes import IRModule, Var, VarBinding
from firmwright.ir.operators import is_same_kind, short_name
from firmwright.ir.regions import Remedy, RuleViolation
from firmwright.ir.relax import dtype_of, static_shape
from firmwright.ir.tensors import ELEMENT_BYTES, is_source_name
from firmwright.partition.grouping import Group
from firmwright.partition.layer_groups import LayerGraph, computing_operators, names_of
from firmwright.partition.layer_regions import Violations, find_regions, make_placement
from firmwright.partition.outline import read_graph
from firmwright.targets import Context
from firmwright.targets.device_options import OptionError
from firmwright.targets.fact_context import kind_of, make_fact_context
from firmwright.targets.facts import element_facts, operator_facts
from firmwright.targets.placement import Placement
from firmwright.targets.rules import find_violations

INDEX_KINDS = frozenset({"argmax", "argmin"})
"""Operators whose results are positions, which are integers in every network."""


def place_regions(module: IRModule, context: Context) -> Placement:
    """Place the layers that break no rule as regions, and report the rules that other layers
    break."""
    options = read_options(context)
    bindings, outputs = read_graph(module)
    if is_quantized(bindings):
        refuse_calibration(options)
    batches = [static_shape(p)[0] for p in module["main"].params if static_shape(p)]
    chip = {**context.platform.accelerators["tidl"], "network_batch": max(context.batch, *batches)}
    checker = OperatorChecker(options, chip, bindings)
    layers, broken, regions = find_regions(
        module, bindings, outputs, checker.check_operator, "TIDL leaves to the processor"
    )
    check_lists(options, bindings, layers.groups)
    kept, pruned = prune(regions, layers, options, context)
    for number, violation in pruned.items():
        broken[number] = (violation,)
    return make_placement("tidl_subgraph", "TIDL", kept, layers, broken)


class OperatorChecker:
    def __init__(
        self, options: TidlOptions, chip: Mapping[str, Any], bindings: Sequence[VarBinding]
    ) -> None:
        self.options = options
        self.chip = chip
        self.network = make_fact_context(bindings)
        self.asked = {
            "tensor_bits": options.number("tensor_bits"),
            "quantization_scale_type": options.number(SCALE_TYPE),
            "quantized": is_quantized(bindings),
        }

    def check_operator(self, binding: VarBinding, layer: Sequence[VarBinding]) -> Violations:
        kind = kind_of(binding.value)
        denied = check_layer_name(self.options, names_of(layer)) if layer else None
        denied = denied or check_layer_type(self.options, kind)
        if denied:
            return (denied,)
        if kind not in tidl_rules().operators:
            return (RuleViolation("operator", f"TIDL has no {kind}", operator=kind),)
        facts = {
            **self.chip,
            **self.asked,
            **element_facts((layer or [binding])[-1].var),
            **find_quantization_facts(layer),
            **operator_facts(binding.value, self.network),
            "is_index": kind in INDEX_KINDS,
        }
        return find_violations(tidl_rules().rules, facts)


DENIED_TYPES = "deny_list:layer_type"
DENIED_NAMES = "deny_list:layer_name"
ALLOWED_NAMES = "allow_list:layer_name"


def check_layer_name(options: TidlOptions, names: set[str]) -> RuleViolation | None:
    denied = [name for name in options.names(DENIED_NAMES) if name in names]
    if denied:
        return explain_denial(DENIED_NAMES, denied[0])
    if options.names(ALLOWED_NAMES) and names.isdisjoint(options.names(ALLOWED_NAMES)):
        remedy = Remedy(f"target: tidl: name it in {ALLOWED_NAMES}")
        sentence = f"the target's {ALLOWED_NAMES} does not name it"
        return RuleViolation(ALLOWED_NAMES, sentence, remedy=remedy)
    return None


def check_layer_type(options: TidlOptions, kind: str) -> RuleViolation | None:
    denied = [entry for entry in options.names(DENIED_TYPES) if matches_kind(entry, kind)]
    return explain_denial(DENIED_TYPES, denied[0]) if denied else None


def matches_kind(entry: str, kind: str) -> bool:
    """Return whether an entry names this kind, by its name in Relax, ONNX or TFLite."""
    known = entry in tidl_rules().operators
    return entry == kind or (not known and is_same_kind(entry, kind.removeprefix("depthwise_")))


def explain_denial(rule: str, entry: str) -> RuleViolation:
    remedy = Remedy(f"target: tidl: remove '{entry}' from {rule}")
    return RuleViolation(rule, f"the target's {rule} names '{entry}'", remedy=remedy)


def check_lists(
    options: TidlOptions, bindings: Sequence[VarBinding], groups: Sequence[Group]
) -> None:
    types, names = {kind_of(b.value) for b in bindings}, names_of(bindings)
    layers = names_of([b for group in groups for b in computing_operators(group)])
    for option in OPTIONS:
        if not isinstance(option.default, tuple):
            continue
        for entry in options.names(option.name):
            by_type = option.name == DENIED_TYPES
            known = any(matches_kind(entry, kind) for kind in types) if by_type else entry in names
            if not known:
                telling = types if by_type else filter(is_source_name, layers)
                hint = did_you_mean(entry, telling)
                raise OptionError(
                    f"target: tidl: {option.name}: the network has no '{entry}'{hint}"
                )


MAX_TENSORS = 32
"""The maximum inputs, and outputs, of a region. TI's compiler drops larger regions."""


def prune(
    regions: list[list[int]], layers: LayerGraph, options: TidlOptions, context: Context
) -> tuple[list[list[int]], dict[int, RuleViolation]]:
    """Return the regions without broken limits, and the reason against each layer of the other
    regions."""
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

    The platform's timing has both times. The check is skipped if the user sets ``min_macs``. The
    check is also skipped if a C7x computes the layers that TIDL does not run, because this C7x
    calls TIDL.
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
