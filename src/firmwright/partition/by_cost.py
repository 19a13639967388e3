"""Chooses the devices that minimize the modeled time of the whole network.

The order of the target assigns groups of operators to devices. A group may also run on another
device that accepts exactly this group, or on the last device. Groups of the last device stay on
this device, but may use the layout of another device. The choices of all groups are made together,
because neighbors with different layouts or memories need transforms or copies. The last device
joins operators of neighboring groups, so the prices of groups are approximate. Therefore the
complete result is priced again, and the order of the target is kept unless the result costs less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import inf, prod

import numpy as np

from firmwright.errors import UserError
from firmwright.ir.nodes import IRModule
from firmwright.ir.regions import COST_RULE, RAM, Partition, Region, RuleViolation
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.partition.cheapest import (
    LARGEST_TABLE,
    Table,
    TooManyCombinationsError,
    find_cheapest,
)
from firmwright.partition.grouping import Group
from firmwright.partition.memory_choice import choose_memory, find_reach
from firmwright.partition.outline import (
    build_regions,
    insert_moves,
    partition_module,
    prepare_network,
)
from firmwright.partition.prices import CostError, Price, PriceList
from firmwright.targets import Device
from firmwright.targets.device_assignment import DeviceAssignment, ask_devices
from firmwright.targets.memory_layout import Layout
from firmwright.targets.placement import Composite

NO_OPTION = "it states no cycles for this group, or accepts the operators only in another group"
PLAIN = ""
"""The plain layout. Other layouts have the names of their devices."""


@dataclass(frozen=True)
class DeviceOption:
    """A device for a group, and the layout of the group's tensors.

    ``composite`` is the composite of the device, or None on the last device. ``price`` is None if
    the group has no other device.
    """

    device: str
    layout: str
    price: Price | None
    composite: Composite | None = None


Options = tuple[DeviceOption, ...]


def partition_by_cost(
    module: IRModule, interface: ModelInterface, mix: Sequence[Device]
) -> tuple[IRModule, Partition]:
    """Return the cheapest partition, in the form that :func:`partition_module` returns.

    Raises CostError if a device that accepts operators states no costs for operators.
    """
    if len(mix) == 1:
        return partition_module(module, interface, mix)
    module, macs = prepare_network(module, interface, mix)
    asked = ask_devices(module, mix)
    functions, partition, groups = build_regions(module, interface, asked, macs)
    network = PricedNetwork(functions, partition, groups, asked, PriceList(mix, functions))
    by_order = tuple(options[0] for options in network.options)
    cheapest = network.choose()

    def build(chosen: Options) -> tuple[IRModule, Partition]:
        assignment = network.assign(chosen)
        return insert_moves(*build_regions(module, interface, assignment, macs)[:2], mix)

    ordered = build(by_order)
    if [option.device for option in by_order] == [option.device for option in cheapest]:
        return ordered
    try:
        other = build(cheapest)
    except UserError:  # operators that fusion has joined cannot have a layout
        return ordered
    unknown, cost = network.prices.price_partition(*ordered)
    other_unknown, other_cost = network.prices.price_partition(*other)
    return other if other_unknown <= unknown and other_cost < cost else ordered


@dataclass(frozen=True)
class PricedNetwork:
    """The regions according to the order of the target, without layouts and memories."""

    functions: IRModule
    partition: Partition
    groups: Sequence[Group]
    asked: DeviceAssignment
    prices: PriceList

    @cached_property
    def layouts(self) -> Mapping[str, Layout]:
        by_device = {d.name: d.target.layout(d.context) for d in self.asked.mix}
        return {name: layout for name, layout in by_device.items() if layout is not None}

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        return {tensor.name: tensor for tensor in self.partition.tensors}

    @cached_property
    def options(self) -> Sequence[Options]:
        """Return the options of each region. The target's order decides the first option."""
        pairs = zip(self.partition.regions, self.groups, strict=True)
        return [tuple(self.list_options(region, group)) for region, group in pairs]

    def list_options(self, region: Region, group: Group) -> Iterator[DeviceOption]:
        """Yield the options of a region.

        A device that states no cost for the region is not an option.
        """
        last = self.asked.mix[-1]
        price = None
        if group.composite:
            for device, composite in self.list_composites(group):
                alike = replace(region, device=device.name, anchor=composite.kind)
                composite_price = self.prices.price(
                    alike, self.functions, self.partition.tensors, device
                )
                if composite_price:
                    layout = device.name if device.name in self.layouts else PLAIN
                    yield DeviceOption(device.name, layout, composite_price, composite)
                elif device.name == group.device:
                    raise CostError(describe_missing_cost(region))
            alike = replace(region, device=last.name)
            price = self.prices.price_in_layers(alike, self.functions, last)
            if price is None:
                return
        yield DeviceOption(last.name, PLAIN, price)
        for name, special in self.layouts.items():
            if special.convert_function(self.functions[region.name]) is not None:
                yield DeviceOption(last.name, name, price)

    def list_composites(self, group: Group) -> Iterator[tuple[Device, Composite]]:
        """Yield the devices that accept exactly this group, in the order of the mix."""
        assert group.composite
        variables = {*group.composite.variables}
        for device in self.asked.mix[:-1]:
            for composite in self.asked.offered[device.name]:
                if {*composite.variables} == variables:
                    yield device, composite

    def choose(self) -> Options:
        """Return the cheapest option of each region.

        Raises CostError if there are too many combinations.
        """
        counts = {i: len(options) for i, options in enumerate(self.options) if len(options) > 1}
        try:
            chosen = find_cheapest(counts, self.make_tables(counts))
        except TooManyCombinationsError:
            raise CostError(
                "too many layers of this network depend on each other to compare all devices; "
                "build with `placement: order`"
            ) from None
        return tuple(options[chosen.get(i, 0)] for i, options in enumerate(self.options))

    def make_tables(self, counts: Mapping[int, int]) -> Iterator[Table]:
        for node in counts:
            prices = [o.price.amount if o.price else 0 for o in self.options[node]]
            yield Table((node,), np.array(prices, float))
        roots = self.partition.view_roots
        for tensor, nodes in self.find_users(dict(zip(roots, roots, strict=True))).items():
            if self.layouts:
                yield self.make_table(tensor, nodes, counts, by_layout=True)
        for tensor, nodes in self.find_users(roots).items():
            if find_reach(self.asked.mix):
                yield self.make_table(tensor, nodes, counts, by_layout=False)

    def find_users(self, roots: Mapping[str, str]) -> Mapping[str, list[int | None]]:
        """Return the users of each tensor: its writer, then its readers.

        The writer is None for inputs of the network. Tensors with one root count as one tensor,
        without views as users.
        """
        whole = all(name == root for name, root in roots.items())
        users: dict[str, list[int | None]] = {roots[n]: [None] for n in self.partition.inputs}
        for node, region in enumerate(self.partition.regions):
            if region.view and not whole:
                continue
            for name in region.inputs:
                users.setdefault(roots[name], [None]).append(node)
            for name in region.outputs:
                users.setdefault(roots[name], []).append(node)
        return users

    def make_table(
        self, name: str, users: Sequence[int | None], counts: Mapping[int, int], by_layout: bool
    ) -> Table:
        """Return the costs of a tensor's transforms or copies for all choices of its users."""
        nodes = tuple(dict.fromkeys(node for node in users if node is not None and node in counts))
        shape = tuple(counts[node] for node in nodes)
        if prod(shape) > LARGEST_TABLE:
            raise TooManyCombinationsError
        price = self.price_transforms if by_layout else self.price_copies
        known: dict[object, float] = {}
        costs = np.zeros(shape)
        for index in product(*map(range, shape)):
            choice = dict(zip(nodes, index, strict=True))
            options = [
                None if node is None else self.options[node][choice.get(node, 0)] for node in users
            ]
            used = [(option.device, option.layout) if option else None for option in options]
            key = used[0], frozenset(used[1:])
            if key not in known:
                known[key] = price(self.tensors[name], options[0], options[1:])
            costs[index] = known[key]
        return Table(nodes, costs)

    def price_transforms(
        self, tensor: Tensor, writer: DeviceOption | None, readers: Sequence[DeviceOption | None]
    ) -> float:
        """Return the price of the transforms of a tensor. Inputs and outputs are plain.

        All users of a tensor need one layout if a layout allows no transforms. For different
        layouts, the price is inf.
        """
        needed = {reader.layout for reader in readers if reader}
        if not all(layout.allows_transforms for layout in self.layouts.values()):
            used = needed | ({writer.layout} if writer else set())
            return inf if len(used) > 1 else 0
        if tensor.name in self.partition.outputs:
            needed.add(PLAIN)
        have = writer.layout if writer else PLAIN
        missing = needed - {have}
        total = 0.0
        for layout in sorted(missing - {PLAIN}):
            total += self.prices.price_transform(tensor, self.layouts[layout], True)
        if have != PLAIN and missing:
            total += self.prices.price_transform(tensor, self.layouts[have], False)
        return total

    def price_copies(
        self, tensor: Tensor, writer: DeviceOption | None, readers: Sequence[DeviceOption | None]
    ) -> float:
        """Return the price of the copies of a tensor, at most one copy per memory."""
        reach = find_reach(self.asked.mix)
        devices = list(dict.fromkeys(reader.device for reader in readers if reader))
        returned = tensor.name in self.partition.outputs
        have = choose_memory(writer.device, devices, returned, reach) if writer else RAM
        needed = {reach[d][0] for d in devices if have not in reach.get(d, (have,))}
        if returned and have != RAM:
            needed.add(RAM)
        return sum(self.prices.price_copy(tensor, have, memory) for memory in sorted(needed))

    def assign(self, chosen: Sequence[DeviceOption]) -> DeviceAssignment:
        """Return the assignment of the chosen devices. The reasons contain the costs."""
        taken: dict[str, list[Composite]] = {name: [] for name in self.asked.taken}
        violations = {
            name: dict(by_variable) for name, by_variable in self.asked.violations.items()
        }
        for option, options, group in zip(chosen, self.options, self.groups, strict=True):
            if group.composite is None:
                continue
            costs = describe_costs(options, self.asked.mix[-1].name)
            if option.composite:
                device = self.asked.device_of(option.device)
                reason = f"{option.composite.reason or device.target.reason}; compared: {costs}"
                taken[option.device].append(replace(option.composite, reason=reason))
            for name in self.list_passed_over(option, group):
                sentence = NO_OPTION
                if name in {each.device for each in options}:
                    sentence = (
                        f"the network, including moves, is not slower on {option.device}: {costs}"
                    )
                violation = RuleViolation(COST_RULE, sentence)
                violations[name] |= dict.fromkeys(group.composite.variables, (violation,))
        return replace(self.asked, taken=taken, violations=violations)

    def list_passed_over(self, option: DeviceOption, group: Group) -> list[str]:
        """Return the devices that accept operators of a group but do not run it."""
        assert group.composite
        variables = group.composite.variables
        return [
            name
            for name, composites in self.asked.offered.items()
            if name != option.device
            and any(not {*variables}.isdisjoint(each.variables) for each in composites)
        ]


def describe_costs(options: Options, last: str) -> str:
    prices = list(dict.fromkeys(str(option.price) for option in options))
    if all(option.device != last for option in options):
        prices.append(f"{last} states no cycles, so it is not an option")
    return ", ".join(prices)


def describe_missing_cost(region: Region) -> str:
    name = region.sources[0] if region.sources else region.name
    return (
        f"cost, but the device '{region.device}' states no cycles for {region.anchor} ('{name}'); "
        "return them from its `estimate_cycles`, or build with `placement: order`"
    )
