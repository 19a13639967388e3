"""What TIDL takes of a network: layers by its rules, merged into few regions, the small ones left.

The order is that of TI's compiler: rules and lists decide on layers, what is next to each other
becomes a region, and of the regions those with most multiply-accumulates stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import tvm
from tvm import relax

from firmwright.errors import UserError, did_you_mean
from firmwright.partition.grouping import Group, group_operators, read_variables
from firmwright.partition.merging import merge_acyclic
from firmwright.partition.operators import Kind, multiply_accumulates, short_name
from firmwright.partition.outline import dequantized_values, graph_of, kind_of_binding
from firmwright.partition.placement import Composite, Objection, Placement
from firmwright.partition.rules import Rule, objections, read_rules
from firmwright.targets import Context
from firmwright.targets.tidl.facts import element_facts, kind_of, operator_facts
from firmwright.targets.tidl.options import TidlOptions, read_options

CONVERSIONS = frozenset({"quantize", "dequantize", "astype"})
MOST_TENSORS = 32
"""Inputs or outputs of a region, as in TI's compiler."""


@dataclass(frozen=True)
class Rules:
    """The operators that TIDL has, and what it asks of them."""

    operators: tuple[str, ...]
    rules: tuple[Rule, ...]


@cache
def tidl_rules() -> Rules:
    return read_rules("firmwright.targets.tidl", Rules)


@dataclass
class Layers:
    """The layers of a network, numbered in order of execution."""

    groups: Sequence[Group]

    @cached_property
    def home(self) -> Mapping[relax.Var, int]:
        return {b.var: i for i, g in enumerate(self.groups) for b in (*g.bindings, *g.items)}

    @cached_property
    def reads(self) -> Mapping[int, Sequence[int]]:
        return {
            i: sorted({self.home[v] for v in self.variables(g) if v in self.home} - {i})
            for i, g in enumerate(self.groups)
        }

    def variables(self, group: Group) -> list[relax.Var]:
        return [v for b in group.bindings for v in read_variables(b.value)]

    def macs(self, numbers: Sequence[int]) -> int:
        bindings = [b for i in numbers for b in self.groups[i].bindings]
        return sum(multiply_accumulates(b.value) for b in bindings)

    def shown(self, number: int) -> str:
        """Return a layer as a sentence names it: its last operator that computes, its name."""
        computing = computing_operators(self.groups[number]) or self.groups[number].bindings
        return f"{short_name(computing[-1].value)} ('{computing[-1].var.name}')"


def place_regions(module: tvm.IRModule, context: Context) -> Placement:
    """Take what breaks no rule, as regions; every other layer gets its objections."""
    options = read_options(context.options)
    bindings, outputs = graph_of(module)
    judge = Judge(options, context.platform.accelerators["tidl"], bindings)
    layers = Layers(group_operators(bindings, outputs, kinds(module, bindings, judge), {}))
    refuse_unknown_names(options, bindings)
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
        self.values = {b.var: b.value for b in bindings}

    def of_layer(self, group: Group) -> tuple[Objection, ...]:
        computing = computing_operators(group)
        if not computing:
            sentence = "it only converts between types, which TIDL leaves to the processor"
            return (Objection("data conversion", sentence),)
        denied = denied_by_name(self.options, names_of(group.bindings))
        if denied:
            return (denied,)
        found = [o for b in computing for o in self.of_operator(b, group.root)]
        return tuple(dict.fromkeys(found))

    def of_operator(
        self, binding: relax.VarBinding, result: relax.Var | None = None
    ) -> tuple[Objection, ...]:
        """Return the objections to one operator; ``result`` is that of its layer, or its own."""
        kind = kind_of(binding.value)
        if kind in self.options.denied_types:
            return (listed_objection("deny_list:layer_type", kind),)
        if kind not in tidl_rules().operators:
            return (Objection("operator", f"TIDL has no {kind}"),)
        element = element_facts(binding.var if result is None else result, self.options.tensor_bits)
        facts = {**self.chip, **element, **operator_facts(binding.value, self.values)}
        return objections(tidl_rules().rules, facts)


def computing_operators(group: Group) -> list[relax.VarBinding]:
    return [b for b in group.bindings if short_name(b.value) not in CONVERSIONS]


def denied_by_name(options: TidlOptions, names: set[str]) -> Objection | None:
    """Return what the user's lists say against a layer that goes by these names."""
    denied = [name for name in options.denied_names if name in names]
    if denied:
        return listed_objection("deny_list:layer_name", denied[0])
    if options.allowed_names and names.isdisjoint(options.allowed_names):
        rule = "allow_list:layer_name"
        return Objection(rule, f"the target's {rule} does not name it")
    return None


def listed_objection(rule: str, entry: str) -> Objection:
    return Objection(rule, f"the target's {rule} names '{entry}'")


def names_of(bindings: Sequence[relax.VarBinding]) -> set[str]:
    return {str(b.var.name) for b in bindings}


def refuse_unknown_names(options: TidlOptions, bindings: Sequence[relax.VarBinding]) -> None:
    """Raise UserError for an entry of a list that nothing in the network is called."""
    types, names = {kind_of(b.value) for b in bindings}, names_of(bindings)
    for key, listed, known in (
        ("deny_list:layer_type", options.denied_types, types),
        ("deny_list:layer_name", options.denied_names, names),
        ("allow_list:layer_name", options.allowed_names, names),
    ):
        for entry in listed:
            if entry not in known:
                hint = did_you_mean(entry, known)
                raise UserError(f"target: tidl: {key}: the network has no '{entry}'{hint}")


def prune(
    regions: list[list[int]], layers: Layers, options: TidlOptions
) -> tuple[list[list[int]], dict[int, Objection]]:
    """Leave out regions with too many tensors or too little work; say so of their layers."""
    by_work = sorted(regions, key=lambda region: (-layers.macs(region), region))
    kept: list[list[int]] = []
    pruned: dict[int, Objection] = {}
    for region in by_work:
        objection = pruned_by(region, len(kept), layers, options)
        if objection is None:
            kept.append(region)
        else:
            pruned.update(dict.fromkeys(region, objection))
    return sorted(kept), pruned


def pruned_by(
    region: list[int], kept: int, layers: Layers, options: TidlOptions
) -> Objection | None:
    macs = layers.macs(region)
    read = {p for number in region for p in layers.reads[number]} - set(region)
    if len(read) > MOST_TENSORS:
        sentence = f"its region would read {len(read)} tensors; TIDL takes {MOST_TENSORS}"
        return Objection("inputs of a region", sentence)
    if kept >= options.max_num_subgraphs:
        most = options.max_num_subgraphs
        sentence = f"{most} regions have more than the {macs:,} multiply-accumulates of its region"
        return Objection("max_num_subgraphs", sentence)
    if macs < options.min_macs:
        sentence = f"its region has {macs:,} multiply-accumulates, less than {options.min_macs:,}"
        return Objection("min_macs", sentence)
    return None


def reason(
    number: int,
    regions: list[list[int]],
    layers: Layers,
    broken: Mapping[int, Sequence[Objection]],
) -> str:
    """Say what a region is, and what keeps it apart from those in front of it."""
    region = regions[number]
    text = f"TIDL takes all {len(region)} layers of it"
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
