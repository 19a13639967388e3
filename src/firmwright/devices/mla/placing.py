"""Selects the operators that the MLA supports according to SiMa's tables, and reports broken rules.

The tables are only a first check. SiMa's compiler rewrites and merges nodes, and makes the final
decision. The tables do not name the cores that run the remaining operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firmwright.devices.mla.options import MlaOptions, read_options
from firmwright.devices.mla.rules import mla_rules
from firmwright.ir.nodes import Expr, IRModule, Var, VarBinding
from firmwright.ir.operators import short_name
from firmwright.ir.regions import Remedy, RuleViolation
from firmwright.partition.grouping import Group, group_operators
from firmwright.partition.layer_groups import LayerGraph, computing_operators
from firmwright.partition.layer_regions import make_layer_kind, make_placement
from firmwright.partition.merging import merge_acyclic
from firmwright.partition.outline import read_graph
from firmwright.targets import Context
from firmwright.targets.fact_context import kind_of, make_fact_context
from firmwright.targets.facts import operator_facts
from firmwright.targets.placement import Placement
from firmwright.targets.rules import find_violations

FUSION_ANCHORS = frozenset({"conv2d", "depthwise_conv2d", "conv2d_transpose", "matmul"})
"""Operators that include the following bias and activation."""


def place_layers(module: IRModule, context: Context) -> Placement:
    bindings, outputs = read_graph(module)
    checker = OperatorChecker(read_options(context), bindings)
    kind = make_layer_kind(module, bindings, checker.check_operator)
    layers = LayerGraph(group_operators(bindings, outputs, kind, {}), outputs)
    broken = {number: checker.check_layer(group) for number, group in enumerate(layers.groups)}
    taken = {number for number, found in broken.items() if not found}
    regions = merge_acyclic(range(len(layers.groups)), layers.reads, taken)
    return make_placement("mla_subgraph", "the MLA", sorted(regions), layers, broken)


class OperatorChecker:
    def __init__(self, options: MlaOptions, bindings: Sequence[VarBinding]) -> None:
        self.options = options
        self.network = make_fact_context(bindings)

    def check_layer(self, group: Group) -> tuple[RuleViolation, ...]:
        computing = computing_operators(group)
        if not computing:
            sentence = "it only converts between types, which SiMa's compiler leaves to the EV74"
            return (RuleViolation("data conversion", sentence),)
        return tuple(dict.fromkeys(o for b in computing for o in self.check_operator(b)))

    def check_operator(self, binding: VarBinding) -> tuple[RuleViolation, ...]:
        kind, precision = kind_of(binding.value), self.options.values["precision"]
        precisions = mla_rules().operators.get(kind)
        if self.options.is_on("arm_only"):
            sentence = "the target's arm_only keeps it off the MLA"
            return (RuleViolation("arm_only", sentence, remedy=Remedy("target: no arm_only")),)
        if precisions is None:
            sentence = f"SiMa's tables do not list {kind}"
            return (RuleViolation("operator", sentence, operator=kind),)
        if precision not in precisions:
            sentence = f"SiMa's tables list {kind} for {' and '.join(precisions)}, not {precision}"
            remedy = Remedy(f"target: mla -precision={precisions[0]}")
            return (RuleViolation("precision", sentence, remedy=remedy),)
        facts = {
            **self.options.values,
            **operator_facts(binding.value, self.network),
            "is_fused": is_fused(binding.value, self.network.values),
        }
        return find_violations(mla_rules().rules, facts)


def is_fused(call: Expr, values: Mapping[Var, Expr]) -> bool:
    """Return whether a bias or an activation is part of the preceding convolution or product."""
    while short_name(call) in mla_rules().fused:
        producer = values.get(call.args[0])
        if producer is None or short_name(producer) == "constant":
            return False
        if kind_of(producer) in FUSION_ANCHORS:
            return True
        call = producer
    return False
