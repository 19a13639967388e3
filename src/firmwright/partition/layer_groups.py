"""Numbers the layers of a network: groups of operators that a device accepts or rejects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm import relax

from firmwright.ir.operators import count_macs, short_name
from firmwright.ir.relax import read_all_variables
from firmwright.ir.tensors import is_source_name
from firmwright.partition.grouping import Group

CONVERSIONS = frozenset({"quantize", "dequantize", "astype"})


@dataclass
class LayerGraph:
    """The layers, numbered in order of execution. ``outputs`` are the results of the network."""

    groups: Sequence[Group]
    outputs: Sequence[relax.Var]

    @cached_property
    def layer_of(self) -> Mapping[relax.Var, int]:
        return {b.var: i for i, g in enumerate(self.groups) for b in (*g.bindings, *g.items)}

    @cached_property
    def reads(self) -> Mapping[int, Sequence[int]]:
        return {
            i: sorted({self.layer_of[v] for v in find_reads(g) if v in self.layer_of} - {i})
            for i, g in enumerate(self.groups)
        }

    @cached_property
    def uses(self) -> Counter[relax.Var]:
        """Return the number of readers of each variable. The network's result counts as one."""
        used = Counter(v for g in self.groups for v in set(find_reads(g)))
        used.update(set(self.outputs))
        return used

    def inputs_of(self, numbers: Sequence[int]) -> set[relax.Var]:
        read = {v for number in numbers for v in find_reads(self.groups[number])}
        return {v for v in read if self.layer_of.get(v) not in numbers}

    def results_of(self, numbers: Sequence[int]) -> set[relax.Var]:
        """Return the variables of these layers that other layers or the network's outputs need."""
        inside = Counter(v for number in numbers for v in set(find_reads(self.groups[number])))
        members = {v for v, number in self.layer_of.items() if number in numbers}
        return {v for v in members if self.uses[v] > inside[v]}

    def count_macs(self, numbers: Sequence[int]) -> int:
        bindings = [b for i in numbers for b in self.groups[i].bindings]
        return sum(count_macs(b.value) for b in bindings)

    def describe(self, number: int) -> str:
        """Return a layer's description in a sentence: its last computing operator and its name."""
        bindings = self.groups[number].bindings
        computing = computing_operators(self.groups[number]) or bindings
        kind = short_name(computing[-1].value)
        names = [str(b.var.name) for b in (*reversed(computing), *bindings)]
        return next((f"{kind} ('{name}')" for name in names if is_source_name(name)), kind)


def find_reads(group: Group) -> list[relax.Var]:
    return read_all_variables(group.bindings)


def computing_operators(group: Group) -> list[relax.VarBinding]:
    return [b for b in group.bindings if short_name(b.value) not in CONVERSIONS]


def names_of(bindings: Sequence[relax.VarBinding]) -> set[str]:
    return {str(b.var.name) for b in bindings}
