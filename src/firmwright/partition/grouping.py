"""Groups operators that run together: an anchor, and elementwise operators before and after it.

An *anchor* is an operator that reads each input element more than once (a convolution, a pooling, a
softmax). Only cheap operators are before the anchor. Every group is a tree and returns only its
root, so groups never form a cycle. An operator with several results is always a root: no operator
joins its group afterwards. The tensors between groups are narrow: a dequantize opens a group, a
quantize closes a group. Sums of products read an element many times. Therefore the operators that
move their data run once, in a separate group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import tvm
from tvm import relax

from firmwright.ir.operators import (
    CHEAP,
    LAYOUT,
    MOVEMENTS,
    FusionKind,
    count_macs,
)
from firmwright.ir.relax import (
    dtype_of,
    operator_name,
    read_all_variables,
    read_variables,
    static_shape,
)
from firmwright.ir.tensors import ELEMENT_BYTES
from firmwright.targets.placement import Composite

LARGEST_GROUP = 64
"""The maximum number of operators in a group.

TVM recurses over a fused function and needs quadratic time for the blocks. Thousands of operators
would overflow the stack after minutes.
"""


@dataclass
class Group:
    """Bindings that run as one function. ``items`` select from the last binding's results.

    If the group is a ``composite``, ``device`` is the device that runs the group, and
    ``read_outside`` has the group's results.
    """

    bindings: list[relax.VarBinding] = field(default_factory=list)
    items: list[relax.VarBinding] = field(default_factory=list)
    anchored: bool = False
    alone: bool = False
    device: str = ""
    composite: Composite | None = None
    read_outside: list[relax.Var] = field(default_factory=list)

    @property
    def root(self) -> relax.Var:
        return self.bindings[-1].var

    @property
    def results(self) -> list[relax.Var]:
        return [item.var for item in self.items] or self.read_outside or [self.root]

    @property
    def is_cheap(self) -> bool:
        return not self.anchored and all(operator_name(b.value) in CHEAP for b in self.bindings)


def group_operators(
    bindings: list[relax.VarBinding],
    outputs: list[relax.Var],
    kind: Callable[[relax.VarBinding], FusionKind],
    taken: Mapping[str, Sequence[Composite]],
) -> list[Group]:
    """Return the bindings as groups. Bindings and groups are in order of execution.

    ``bindings`` are operators, constants that are outputs, and items of an operator's results. Each
    composite that a device has ``taken`` is a separate group.
    """
    readers = Counter([*read_all_variables(bindings), *outputs])
    group_of = open_composites(taken)
    bytes_of = find_element_bytes(bindings, readers, kind)
    for binding in bindings:
        if binding.var in group_of:
            group_of[binding.var].bindings.append(binding)
            continue
        if isinstance(binding.value, relax.TupleGetItem):
            group_of[binding.var] = group_of[binding.value.tuple_value]
            group_of[binding.var].items.append(binding)
            continue
        read = dict.fromkeys(read_variables(binding.value))
        producers = [group_of[v] for v in read if v in group_of and readers[v] == 1]
        group = start_group(binding, kind(binding), producers, bytes_of)
        group_of.update((member.var, group) for member in group.bindings)
    find_results(bindings, set(outputs), group_of)
    return sort_groups(bindings, group_of)


def open_composites(taken: Mapping[str, Sequence[Composite]]) -> dict[relax.Var, Group]:
    """Map the variables of each composite's operators to a group for the composite."""
    group_of = {}
    for device, composites in taken.items():
        for composite in composites:
            group = Group(alone=True, device=device, composite=composite)
            group_of.update(dict.fromkeys(composite.variables, group))
    return group_of


def find_element_bytes(
    bindings: Sequence[relax.VarBinding],
    readers: Mapping[relax.Var, int],
    kind: Callable[[relax.VarBinding], FusionKind],
) -> dict[relax.Var, int]:
    """Return the bytes per element of each tensor, or of a narrower tensor computed from it.

    A tensor counts as narrower if its only reader is an elementwise operator with a narrower
    result. An elementwise chain may compute in a wider type before a narrower result.
    """
    sizes: dict[relax.Var, int] = {}
    for binding in reversed(bindings):
        tensor = isinstance(binding.var.ty, relax.TensorType)
        sizes.setdefault(binding.var, ELEMENT_BYTES[dtype_of(binding.var)] if tensor else 0)
        if not tensor or kind(binding) is not FusionKind.ELEMENTWISE:
            continue
        for read in read_variables(binding.value):
            if readers[read] == 1 and static_shape(read) == static_shape(binding.var):
                sizes[read] = min(ELEMENT_BYTES[dtype_of(read)], sizes[binding.var])
    return sizes


def start_group(
    binding: relax.VarBinding,
    kind: FusionKind,
    producers: Sequence[Group],
    bytes_of: Mapping[relax.Var, int],
) -> Group:
    """Return a group that ends with ``binding`` and includes the producers that may join it."""
    group = Group(
        anchored=kind in (FusionKind.ANCHOR, FusionKind.ALONE), alone=kind is FusionKind.ALONE
    )
    for producer in reversed(producers):
        fits = len(group.bindings) + len(producer.bindings) < LARGEST_GROUP
        if fits and may_merge(group, producer, binding, kind, bytes_of):
            moving = find_movement(producer, binding.value)
            taken = [b for b in producer.bindings if b not in moving]
            producer.bindings = moving or producer.bindings
            group.bindings = taken + group.bindings
            group.anchored = group.anchored or producer.anchored
    group.bindings.append(binding)
    return group


def find_movement(producer: Group, reader: tvm.ir.Call) -> list[relax.VarBinding]:
    """Return the operators that only move the data of a sum of products.

    The list is empty if the data is not moved. The list is also empty if the data is dequantized
    before the move, because the moved data would be wider. A layout change of floats stays with its
    reader, because the reader's forms support two layouts.
    """
    members = {b.var: b for b in producer.bindings}
    last = members.get(reader.args[0]) if count_macs(reader) else None
    while last is not None and operator_name(last.value) not in MOVEMENTS:
        last = members.get(last.value.args[0])
    if last is None:
        return []
    variables = {last.var}
    for binding in reversed(producer.bindings):
        if binding.var in variables:
            variables.update(v for v in read_variables(binding.value) if v in members)
    moving = [b for b in producer.bindings if b.var in variables]
    names = [operator_name(b.value) for b in moving]
    moves = [name for name in names if name in MOVEMENTS]
    is_layout = moves == ["relax.permute_dims"] and dtype_of(last.var) == "float32"
    return [] if is_layout or not LAYOUT.issuperset(names) else moving


def find_results(
    bindings: list[relax.VarBinding], outputs: set[relax.Var], group_of: Mapping[relax.Var, Group]
) -> None:
    """Set the results of each composite: variables that other groups or outputs need."""
    read = set(outputs)
    for binding in bindings:
        reader = group_of[binding.var]
        read.update(v for v in read_variables(binding.value) if group_of.get(v) is not reader)
    for group in {id(g): g for g in group_of.values() if g.composite}.values():
        group.read_outside = [b.var for b in group.bindings if b.var in read]


def sort_groups(
    bindings: list[relax.VarBinding], group_of: Mapping[relax.Var, Group]
) -> list[Group]:
    """Return the groups in the order of their roots. Groups follow the groups that they read."""
    order = {b.var: i for i, b in enumerate(bindings)}
    groups = {id(g): g for g in group_of.values()}
    waiting = sorted(groups.values(), key=lambda g: order[g.root])
    reads: dict[int, set[int]] = {number: set() for number in groups}
    for binding in bindings:
        group = id(group_of[binding.var])
        read = {id(group_of[v]) for v in read_variables(binding.value) if v in group_of}
        reads[group] |= read - {group}
    ordered: list[Group] = []
    done: set[int] = set()
    while waiting:
        ready = next(i for i, g in enumerate(waiting) if reads[id(g)] <= done)
        ordered.append(waiting.pop(ready))
        done.add(id(ordered[-1]))
    return ordered


def may_merge(
    group: Group,
    producer: Group,
    binding: relax.VarBinding,
    kind: FusionKind,
    bytes_of: Mapping[relax.Var, int],
) -> bool:
    """Return whether ``group``, which ``binding`` starts or extends, can include the producer."""
    if producer.items or producer.alone or kind is FusionKind.ALONE:
        return False
    if kind is FusionKind.ANCHOR:
        return producer.is_cheap
    before = ELEMENT_BYTES[dtype_of(producer.root)]
    is_wider = ELEMENT_BYTES[dtype_of(binding.var)] > before <= bytes_of[binding.var]
    if producer.anchored:
        return (
            not group.anchored
            and kind is FusionKind.ELEMENTWISE
            and static_shape(binding.var) == static_shape(producer.root)
            and not is_wider
        )
    return producer.is_cheap or not is_wider
