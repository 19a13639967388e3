"""Describes regions of many layers, for devices whose compiler accepts several layers at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from firmwright.ir.nodes import IRModule, Var, VarBinding
from firmwright.ir.operators import FusionKind, short_name
from firmwright.ir.regions import RuleViolation
from firmwright.partition.grouping import group_operators
from firmwright.partition.layer_groups import CONVERSIONS, LayerGraph, computing_operators
from firmwright.partition.merging import merge_acyclic
from firmwright.partition.outline import find_dequantized, make_binding_kind
from firmwright.targets.placement import Composite, Placement

Violations = tuple[RuleViolation, ...]


Check = Callable[[VarBinding, Sequence[VarBinding]], Violations]
"""Returns the rules that an operator breaks, as part of a layer or without a layer (``()``)."""


def find_regions(
    module: IRModule,
    bindings: list[VarBinding],
    outputs: list[Var],
    check: Check,
    converter: str,
) -> tuple[LayerGraph, dict[int, Violations], list[list[int]]]:
    """Return the layers, the rules that each layer breaks, and the regions of the other layers.

    A layer has a number, and a region is a list of numbers. ``converter`` is the clause on the
    processor of layers that only convert between types.
    """
    kind = make_layer_kind(module, bindings, lambda binding: check(binding, ()))
    layers = LayerGraph(group_operators(bindings, outputs, kind, {}), outputs)
    only = (RuleViolation("data conversion", f"it only converts between types, which {converter}"),)
    broken = {
        number: tuple(dict.fromkeys(o for b in operators for o in check(b, group.bindings)))
        if (operators := computing_operators(group))
        else only
        for number, group in enumerate(layers.groups)
    }
    taken = {number for number, violations in broken.items() if not violations}
    return layers, broken, merge_acyclic(range(len(layers.groups)), layers.reads, taken)


def make_layer_kind(
    module: IRModule,
    bindings: Sequence[VarBinding],
    is_refused: Callable[[VarBinding], object],
) -> Callable[[VarBinding], FusionKind]:
    """Return a function that maps a binding to its fusion kind. A rejected operator does not fuse.

    A rejected operator between a dequantize and a quantize keeps its kind, because no tensor
    between the two could be passed to another device.
    """
    dequantized = find_dequantized(list(bindings))
    kind = make_binding_kind(module, dequantized, True)

    def of_binding(binding: VarBinding) -> FusionKind:
        splits = binding.var not in dequantized and short_name(binding.value) not in CONVERSIONS
        return FusionKind.ALONE if splits and is_refused(binding) else kind(binding)

    return of_binding


def make_placement(
    kind: str,
    title: str,
    regions: list[list[int]],
    layers: LayerGraph,
    broken: Mapping[int, Sequence[RuleViolation]],
) -> Placement:
    """Return a device's placement: each list of layer numbers in ``regions`` becomes a composite.

    ``kind`` is the kind of the composites. ``broken`` has the rules that the other layers violate.
    ``title`` is the name of the device in sentences.
    """
    objected = {
        b.var: tuple(violations)
        for number, violations in broken.items()
        if violations
        for b in layers.groups[number].bindings
    }
    composites = [
        Composite(
            kind,
            tuple(v for v in layers.layer_of if layers.layer_of[v] in region),
            describe_region(title, number, regions, layers, broken),
        )
        for number, region in enumerate(regions)
    ]
    return Placement(tuple(composites), objected)


def describe_region(
    title: str,
    number: int,
    regions: list[list[int]],
    layers: LayerGraph,
    broken: Mapping[int, Sequence[RuleViolation]],
) -> str:
    """Return a sentence that describes a region, and why it is a separate region."""
    region = regions[number]
    text = f"{title} runs all {len(region)} layers of it" if region[1:] else f"{title} runs it"
    between = find_separating_layer(region, {i for r in regions[:number] for i in r}, layers)
    if between is None:
        return text if number == 0 else f"{text}; it reads no result of another region"
    said = "; ".join(o.sentence for o in broken[between])
    return (
        f"{text}; it is a separate region because of {layers.describe(between)} before it: {said}"
    )


def find_separating_layer(
    region: Sequence[int], others: set[int], layers: LayerGraph
) -> int | None:
    """Return the nearest layer that separates the region from ``others``, or None."""
    waiting = [p for number in region for p in layers.reads[number] if p not in region]
    for number in waiting:  # the loop extends the list
        if number not in others and reaches(number, others, layers):
            return number
        waiting += [p for p in layers.reads[number] if p not in waiting]
    return None


def reaches(number: int, others: set[int], layers: LayerGraph) -> bool:
    waiting = list(layers.reads[number])
    for earlier in waiting:  # the loop extends the list
        if earlier in others:
            return True
        waiting += [p for p in layers.reads[earlier] if p not in waiting]
    return False
