"""Selects the operators that the MLA supports according to SiMa's tables, and reports broken rules.

The tables are only a first check. SiMa's compiler rewrites and merges nodes, and makes the final
decision. The tables do not name the cores that run the remaining operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firmwright.devices.mla.options import MlaOptions, mla_rules, read_options
from firmwright.ir.nodes import Expr, IRModule, Var, VarBinding
from firmwright.ir.operators import short_name
from firmwright.ir.regions import Remedy, RuleViolation
from firmwright.partition.layer_regions import Violations, find_regions, make_placement
from firmwright.partition.outline import read_graph
from firmwright.targets import Context
from firmwright.targets.fact_context import FactContext, kind_of, make_fact_context
from firmwright.targets.facts import operator_facts
from firmwright.targets.placement import Placement
from firmwright.targets.rules import find_violations

FUSION_ANCHORS = frozenset({"conv2d", "depthwise_conv2d", "conv2d_transpose", "matmul"})
"""Operators that include the following bias and activation."""


def place_layers(module: IRModule, context: Context) -> Placement:
    bindings, outputs = read_graph(module)
    options, network = read_options(context), make_fact_context(bindings)

    def check(binding: VarBinding, _layer: Sequence[VarBinding]) -> Violations:
        return check_operator(binding.value, options, network)

    layers, broken, regions = find_regions(
        module, bindings, outputs, check, "SiMa's compiler leaves to the EV74"
    )
    return make_placement("mla_subgraph", "the MLA", sorted(regions), layers, broken)


def check_operator(call: Expr, options: MlaOptions, network: FactContext) -> Violations:
    kind, precision = kind_of(call), options.values["precision"]
    precisions = mla_rules().operators.get(kind)
    if options.is_on("arm_only"):
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
        **options.values,
        **operator_facts(call, network),
        "is_fused": is_fused(call, network.values),
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
