"""The layers of a network that TIDL supports: by its rules, merged into few regions.

The order is that of TI's compiler: rules and lists decide on layers, what is next to each other
becomes a region, and of the regions those with most multiply-accumulates stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from firmwright.devices.tidl.grids import grid_facts, is_quantized
from firmwright.devices.tidl.lists import check_layer_name, check_layer_type, check_lists
from firmwright.devices.tidl.options import (
    SCALE_TYPE,
    TidlOptions,
    read_options,
    refuse_calibration,
)
from firmwright.devices.tidl.pruning import prune
from firmwright.devices.tidl.rules import tidl_rules
from firmwright.ir.nodes import IRModule, VarBinding
from firmwright.ir.regions import RuleViolation
from firmwright.ir.relax import static_shape
from firmwright.partition.grouping import Group, group_operators
from firmwright.partition.layer_regions import make_layer_kind, make_placement
from firmwright.partition.layers import LayerGraph, computing_operators, names_of
from firmwright.partition.merging import merge_acyclic
from firmwright.partition.outline import read_graph
from firmwright.targets import Context
from firmwright.targets.fact_context import kind_of, make_fact_context
from firmwright.targets.facts import element_facts, operator_facts
from firmwright.targets.placement import Placement
from firmwright.targets.rules import find_violations

INDEX_KINDS = frozenset({"argmax", "argmin"})
"""Operators whose results count elements: they are integers in every network."""


def place_regions(module: IRModule, context: Context) -> Placement:
    """Take what breaks no rule, as regions; every other layer gets the rules that it breaks."""
    options = read_options(context)
    bindings, outputs = read_graph(module)
    if is_quantized(bindings):
        refuse_calibration(options)
    own = [static_shape(p)[0] for p in module["main"].params if static_shape(p)]
    chip = {**context.platform.accelerators["tidl"], "network_batch": max(context.batch, *own)}
    checker = OperatorChecker(options, chip, bindings)
    groups = group_operators(
        bindings, outputs, make_layer_kind(module, bindings, checker.check_operator), {}
    )
    check_lists(options, bindings, groups)
    layers = LayerGraph(groups, outputs)
    broken = {number: checker.check_layer(group) for number, group in enumerate(layers.groups)}
    taken = {number for number, found in broken.items() if not found}
    regions = merge_acyclic(range(len(layers.groups)), layers.reads, taken)
    kept, pruned = prune(regions, layers, options, context)
    for number, violation in pruned.items():
        broken[number] = (violation,)
    return make_placement("tidl_subgraph", "TIDL", kept, layers, broken)


class OperatorChecker:
    """What speaks against operators: a list of the user's, an operator TIDL has not, a rule."""

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

    def check_layer(self, group: Group) -> tuple[RuleViolation, ...]:
        computing = computing_operators(group)
        if not computing:
            sentence = "it only converts between types, which TIDL leaves to the processor"
            return (RuleViolation("data conversion", sentence),)
        denied = check_layer_name(self.options, names_of(group.bindings))
        if denied:
            return (denied,)
        found = [o for b in computing for o in self.check_operator(b, group.bindings)]
        return tuple(dict.fromkeys(found))

    def check_operator(
        self, binding: VarBinding, layer: Sequence[VarBinding] = ()
    ) -> tuple[RuleViolation, ...]:
        """Return the rules that one operator breaks, in its ``layer`` or by itself."""
        kind = kind_of(binding.value)
        denied = check_layer_type(self.options, kind)
        if denied:
            return (denied,)
        if kind not in tidl_rules().operators:
            return (RuleViolation("operator", f"TIDL has no {kind}", operator=kind),)
        facts = {
            **self.chip,
            **self.asked,
            **element_facts((layer or [binding])[-1].var),
            **grid_facts(layer),
            **operator_facts(binding.value, self.network),
            "is_index": kind in INDEX_KINDS,
        }
        return find_violations(tidl_rules().rules, facts)
