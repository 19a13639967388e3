"""What TIDL takes of a network: layers by its rules, merged into few regions, the small ones left.

The order is that of TI's compiler: rules and lists decide on layers, what is next to each other
becomes a region, and of the regions those with most multiply-accumulates stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from firmwright.ir.operators import Kind, short_name
from firmwright.partition.grouping import Group, group_operators
from firmwright.partition.outline import dequantized_values, graph_of, kind_of_binding
from firmwright.targets import Context
from firmwright.targets.placement import Composite, Objection, Placement
from firmwright.targets.rules import objections
from firmwright.targets.tidl.facts import element_facts, kind_of, operator_facts
from firmwright.targets.tidl.image_axes import network_of
from firmwright.targets.tidl.layers import CONVERSIONS, Layers, computing_operators, names_of
from firmwright.targets.tidl.lists import check_lists, denied_by_name, denied_by_type
from firmwright.targets.tidl.merging import merge_acyclic
from firmwright.targets.tidl.options import TidlOptions, read_options
from firmwright.targets.tidl.pruning import prune
from firmwright.targets.tidl.rules import tidl_rules


def place_regions(module: tvm.IRModule, context: Context) -> Placement:
    """Take what breaks no rule, as regions; every other layer gets its objections."""
    options = read_options(context)
    bindings, outputs = graph_of(module)
    chip = {**context.platform.accelerators["tidl"], "wanted_batch": context.batch}
    judge = Judge(options, chip, bindings)
    groups = group_operators(bindings, outputs, kinds(module, bindings, judge), {})
    check_lists(options, bindings, groups)
    layers = Layers(groups, outputs)
    broken = {number: judge.of_layer(group) for number, group in enumerate(layers.groups)}
    taken = {number for number, found in broken.items() if not found}
    regions = merge_acyclic(range(len(layers.groups)), layers.reads, taken)
    kept, pruned = prune(regions, layers, options)
    for number, objection in pruned.items():
        broken[number] = (objection,)
    objected = {
        b.var: found
        for number, found in broken.items()
        if found
        for b in layers.groups[number].bindings
    }
    composites = [
        Composite(
            "tidl_subgraph",
            tuple(v for v in layers.home if layers.home[v] in region),
            reason(number, kept, layers, broken),
        )
        for number, region in enumerate(kept)
    ]
    return Placement(tuple(composites), objected)


def kinds(
    module: tvm.IRModule, bindings: Sequence[relax.VarBinding], judge: Judge
) -> Callable[[relax.VarBinding], Kind]:
    """Return what tells the grouping an operator's kind: one that is refused stands alone.

    Between a dequantize and a quantize it does not, for there is nothing between to hand over.
    """
    dequantized = dequantized_values(list(bindings))
    kind = kind_of_binding(module, dequantized, True)

    def of_binding(binding: relax.VarBinding) -> Kind:
        splits = binding.var not in dequantized and short_name(binding.value) not in CONVERSIONS
        return Kind.ALONE if splits and judge.of_operator(binding) else kind(binding)

    return of_binding


class Judge:
    """What speaks against operators: a list of the user's, an operator TIDL has not, a rule."""

    def __init__(
        self,
        options: TidlOptions,
        chip: Mapping[str, Any],
        bindings: Sequence[relax.VarBinding],
    ) -> None:
        self.options = options
        self.chip = chip
        self.network = network_of(bindings)

    def of_layer(self, group: Group) -> tuple[Objection, ...]:
        computing = computing_operators(group)
        if not computing:
            sentence = "it only converts between types, which TIDL leaves to the processor"
            return (Objection("data conversion", sentence),)
        denied = denied_by_name(self.options, names_of(group.bindings))
        if denied:
            return (denied,)
        names = names_of(group.bindings)
        found = [o for b in computing for o in self.of_operator(b, group.root, names)]
        return tuple(dict.fromkeys(found))

    def of_operator(
        self,
        binding: relax.VarBinding,
        result: relax.Var | None = None,
        names: Collection[str] = (),
    ) -> tuple[Objection, ...]:
        """Return the objections to one operator.

        ``result`` is that of its layer, or its own; ``names`` are its layer's.
        """
        kind = kind_of(binding.value)
        denied = denied_by_type(self.options, kind)
        if denied:
            return (denied,)
        if kind not in tidl_rules().operators:
            return (Objection("operator", f"TIDL has no {kind}"),)
        facts = {
            **self.chip,
            **self.options.widths(names),
            **element_facts(binding.var if result is None else result),
            **operator_facts(binding.value, self.network),
        }
        return objections(tidl_rules().rules, facts)


def reason(
    number: int,
    regions: list[list[int]],
    layers: Layers,
    broken: Mapping[int, Sequence[Objection]],
) -> str:
    """Say what a region is, and what keeps it apart from those in front of it."""
    region = regions[number]
    text = f"TIDL takes all {len(region)} layers of it" if region[1:] else "TIDL takes it"
    between = separating_layer(region, {i for r in regions[:number] for i in r}, layers)
    if between is None:
        return text if number == 0 else f"{text}; it reads nothing of another region's"
    said = "; ".join(o.sentence for o in broken[between])
    return f"{text}; it is a region of its own because of {layers.shown(between)} before it: {said}"


def separating_layer(region: Sequence[int], others: set[int], layers: Layers) -> int | None:
    """Return the nearest layer, not TIDL's, between the region and another one; None for none."""
    waiting = [p for number in region for p in layers.reads[number] if p not in region]
    for number in waiting:  # grows
        if number not in others and reaches(number, others, layers):
            return number
        waiting += [p for p in layers.reads[number] if p not in waiting]
    return None


def reaches(number: int, others: set[int], layers: Layers) -> bool:
    waiting = list(layers.reads[number])
    for earlier in waiting:  # grows
        if earlier in others:
            return True
        waiting += [p for p in layers.reads[earlier] if p not in waiting]
    return False
