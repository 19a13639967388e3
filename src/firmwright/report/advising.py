"""Finds changes that speed up a network: changes that fulfill rules, and suggestions of devices.

A change fulfills the rule that a layer breaks, or replaces an operator that a device does not
support. The cost models of the devices compute the time that the change saves. This time is the
layer's work, without the transfers between devices. Slow layers and layers that fell back are
listed with the costs if no known change helps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import groupby
from typing import Any, Literal

from firmwright.ir.nodes import IRModule
from firmwright.ir.regions import (
    COST_RULE,
    Change,
    Partition,
    Region,
    Remedy,
    RuleViolation,
    Suggestion,
    Work,
)
from firmwright.ir.relax import list_bindings, list_constants
from firmwright.ir.tensors import Tensor
from firmwright.report.advice import Advice
from firmwright.targets import Device
from firmwright.targets.fact_context import FactContext, Facts, kind_of, make_fact_context
from firmwright.targets.facts import operator_facts
from firmwright.targets.rules import all_hold, read_rules
from firmwright.targets.timing import US_DECIMALS, estimate_work_us
from firmwright.toolchain.platforms import Timing

NOTHING = "only a smaller layer would be faster"
BOTTLENECK = 0.1
"""The minimum part of the network's time for which a layer is a bottleneck."""


@dataclass(frozen=True)
class AssignedNetwork:
    """Regions on the devices of a mix, and the costs in microseconds or cycles.

    ``module`` has the functions of the regions.
    """

    partition: Partition
    module: IRModule
    mix: Sequence[Device]
    timing: Timing | None

    @property
    def unit(self) -> str:
        return "us" if self.timing else "cycles"

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        return {tensor.name: tensor for tensor in self.partition.tensors}

    @cached_property
    def layers(self) -> Sequence[Region]:
        return [r for r in self.partition.regions if not (r.view or r.moves)]

    @cached_property
    def facts(self) -> FactContext:
        return make_fact_context(
            [b for r in self.layers for b in list_bindings(self.module[r.name])]
        )

    @cached_property
    def estimates(self) -> Mapping[str, tuple[int | None, Sequence[Suggestion]]]:
        """Return the cycles of each layer on its device, if known, and the device's suggestions.

        Both calls for a layer are adjacent, so that a device recognizes each layer only once.
        """
        estimates = {}
        for region in self.layers:
            device = self.device_of(region)
            cycles = device.estimate_cycles(region, self.module)
            estimates[region.name] = cycles, device.suggest(region, self.module) if cycles else ()
        return estimates

    @cached_property
    def cycles(self) -> Mapping[str, int | None]:
        return {name: cycles for name, (cycles, _) in self.estimates.items()}

    @cached_property
    def costs(self) -> Mapping[str, float | None]:
        """Return the cost of each layer on its device, or None for an unknown cost."""
        if self.timing is None:
            return self.cycles
        return {r.name: self.estimate(r, self.device_of(r)) for r in self.layers}

    @cached_property
    def crossings(self) -> Mapping[str, int]:
        """Return the number of each region's tensors that another device also uses."""
        roots = self.partition.view_roots
        users: dict[str, set[str]] = {}
        running = [region for region in self.partition.regions if not region.view]
        for region in running:
            for tensor in (*region.inputs, *region.outputs):
                users.setdefault(roots[tensor], set()).add(region.device)
        return {
            region.name: sum(
                len(users[tensor]) > 1
                for tensor in {roots[t] for t in (*region.inputs, *region.outputs)}
            )
            for region in running
        }

    def device_of(self, region: Region) -> Device:
        return next(device for device in self.mix if device.name == region.device)

    def estimate(
        self, region: Region, device: Device, changes: Sequence[Change] = ()
    ) -> float | None:
        """Return the cost of a region on a device, or None if the cost is unknown."""
        if self.timing is None:
            return device.estimate_cycles(region, self.module, changes)
        engine = self.timing.engines.get(device.name)
        if engine is None:
            return None
        ports = [self.tensors[name] for name in (*region.inputs, *region.outputs)]
        weights = sum(constant.nbytes for constant in list_constants(self.module[region.name]))
        return estimate_work_us(region.macs, ports, weights, engine)

    def find_ends(self, region: Region) -> set[End]:
        """Return whether a region reads only inputs of the network, and writes only outputs."""
        roots = self.partition.view_roots
        read, made = ({roots[t] for t in ts} for ts in (region.inputs, region.outputs))
        ends: dict[End, bool] = {
            "start": read <= {*self.partition.inputs},
            "end": made <= {roots[t] for t in self.partition.outputs},
        }
        return {end for end, holds in ends.items() if holds}

    def make_advice(
        self, change: str, region: Region, device: Device, saves: float | None, stays: bool = False
    ) -> Advice:
        """Return the advice for one region.

        The advice has the current cost if the saving is unknown.
        """
        return Advice(
            change,
            (region.sources[0] if region.sources else region.name,),
            device.name,
            moves=device.name != region.device,
            saves=self.round(saves),
            unit=self.unit,
            stays=stays,
            costs=self.round(self.costs[region.name]) if saves is None else None,
            crossings=self.crossings[region.name] if saves is None and region.refusals else 0,
        )

    def make_remark(self, change: str, region: Region) -> Advice:
        return self.make_advice(change, region, self.device_of(region), None, stays=True)

    def round(self, amount: float | None) -> float | None:
        digits = 0 if self.unit == "cycles" else US_DECIMALS
        return None if amount is None else round(amount, digits)


def advise(
    partition: Partition, module: IRModule, mix: Sequence[Device], timing: Timing | None
) -> tuple[Advice, ...]:
    """Return the changes that save time, largest saving first, then unknown savings, then notes.

    ``module`` has the functions of the regions.
    """
    network = AssignedNetwork(partition, module, mix, timing)
    spent = sum(cost or 0 for cost in network.costs.values())
    proposals: list[Advice] = []
    for region in network.layers:
        advice = [*lift_rules(region, network), *speed_up(region, network)]
        if not advice and (network.costs[region.name] or 0) >= BOTTLENECK * spent > 0:
            advice = [shrink(region, network)]
        proposals += advice

    merged = merge_alike(proposals)
    return tuple(sorted(merged, key=lambda a: (a.stays, -(a.saves or 0), -(a.costs or 0))))


def merge_alike(proposals: Sequence[Advice]) -> list[Advice]:
    """Return one advice for each change, and for each case of a known or unknown gain."""

    def same_change(advice: Advice) -> tuple[str, str, bool, bool, bool, bool]:
        unknown = advice.saves is None, advice.costs is None
        return advice.change, advice.device, advice.moves, advice.stays, *unknown

    return [
        merge(list(each)) for _, each in groupby(sorted(proposals, key=same_change), same_change)
    ]


def merge(proposals: Sequence[Advice]) -> Advice:
    """Return one advice for layers with equal changes."""

    def add(amounts: Sequence[float | None]) -> float | None:
        known = [amount for amount in amounts if amount is not None]
        return sum(known) if known else None

    return replace(
        proposals[0],
        layers=tuple(layer for advice in proposals for layer in advice.layers),
        saves=add([advice.saves for advice in proposals]),
        costs=add([advice.costs for advice in proposals]),
        crossings=sum(advice.crossings for advice in proposals),
    )


def lift_rules(region: Region, network: AssignedNetwork) -> Iterator[Advice]:
    """Yield the changes after which each rejecting device accepts a region.

    Yields a note if no changes are known for any device, or if all known changes cost time.
    """
    blocked: list[RuleViolation] = []
    costly: list[RuleViolation] = []
    lifted = False
    for device in network.mix:
        broken = [r for r in region.refusals if r.device == device.name and r.rule != COST_RULE]
        lifts = {v: v.changes or find_remedy(v, region, device, network) for v in broken}
        blocked += [violation for violation, lift in lifts.items() if not lift]
        if broken and all(lifts.values()):
            remedies = [lift for lift in lifts.values() if isinstance(lift, Remedy)]
            known = [c for lift in lifts.values() if isinstance(lift, tuple) for c in lift]
            changes: Sequence[Change] | RuleViolation = known
            if all(remedy.work == "same" for remedy in remedies):
                changes = device.complete_changes(region, network.module, known)
            if isinstance(changes, RuleViolation):
                blocked.append(replace(changes, device=device.name))
                continue
            advice = lift_broken(changes, remedies, region, device, network)
            if advice.saves is not None and advice.saves <= 0:
                costly += broken
                continue
            lifted = True
            yield advice
    if blocked and not lifted:
        yield network.make_remark(describe_block(blocked[0]), region)
    elif costly and not lifted:
        yield network.make_remark(describe_cost(costly[0]), region)


def lift_broken(
    changes: Sequence[Change],
    remedies: Sequence[Remedy],
    region: Region,
    device: Device,
    network: AssignedNetwork,
) -> Advice:
    """Return the advice after which a region fulfills all rules of a device."""
    changed = "; ".join(dict.fromkeys([*(r.change for r in remedies), *map(str, changes)]))
    works = {remedy.work for remedy in remedies}
    now = network.costs[region.name]
    if "none" in works:
        return network.make_advice(changed, region, network.device_of(region), now)
    then = None if "other" in works else network.estimate(region, device, changes)
    saves = None if now is None or then is None else now - then
    return network.make_advice(changed, region, device, saves)


def find_remedy(
    violation: RuleViolation, region: Region, device: Device, network: AssignedNetwork
) -> Remedy | None:
    """Return a remedy that fulfills a rule, or a substitute for the violating operator."""
    if violation.remedy or not violation.operator:
        return violation.remedy
    bindings = list_bindings(network.module[region.name])
    call = next((b.value for b in bindings if kind_of(b.value) == violation.operator), None)
    if call is None:
        return None
    facts = operator_facts(call, network.facts)
    return find_substitute(facts, device.target.operators, network.find_ends(region))


def describe_block(violation: RuleViolation) -> str:
    device, kind = violation.device, violation.operator
    if violation.rule == "operator":
        return f"no substitute is known for {kind}, which {device} does not have"
    return describe_rule(violation)


def describe_rule(violation: RuleViolation) -> str:
    device, rule = violation.device, violation.rule
    return f"{device} rejects the layer (rule '{rule}'), and no accepted form is known"


def describe_cost(violation: RuleViolation) -> str:
    device, rule = violation.device, violation.rule
    return f"{device} would accept a changed layer (rule '{rule}'), but would need more time"


def speed_up(region: Region, network: AssignedNetwork, shrinks: bool = False) -> Iterator[Advice]:
    """Yield the device's suggestions for a region.

    ``shrinks`` selects suggestions for smaller networks.
    """
    device, now = network.device_of(region), network.costs[region.name]
    cycles, suggestions = network.estimates[region.name]
    if not now or not cycles:
        return
    for suggestion in suggestions:
        saves = now * (1 - suggestion.cycles / cycles)
        if suggestion.shrinks == shrinks and saves > 0:
            yield network.make_advice(suggestion.change, region, device, saves)


def shrink(region: Region, network: AssignedNetwork) -> Advice:
    """Return the advice to reduce the work of a bottleneck that other changes do not improve.

    The network's outputs do not change.
    """
    proposals = [] if "end" in network.find_ends(region) else [*speed_up(region, network, True)]
    return proposals[0] if proposals else network.make_remark(NOTHING, region)


End = Literal["start", "end"]


@dataclass(frozen=True)
class Substitute:
    """A substitute for operators of some ``kinds``, on devices that support all of ``needs``.

    ``when`` has conditions on the operator's facts. ``at`` is the required position in the
    network, or None.
    """

    kinds: tuple[str, ...]
    change: str
    needs: tuple[str, ...] = ()
    when: dict[str, dict[str, Any]] = field(default_factory=dict)
    at: End | None = None
    work: Work = "other"


@cache
def read_substitutes() -> tuple[Substitute, ...]:
    return read_rules("firmwright.report", tuple[Substitute, ...], "substitutes.yaml")


def find_substitute(
    facts: Facts, operators: Collection[str], ends: Collection[End]
) -> Remedy | None:
    """Return the substitute for an operator with these facts on a device with ``operators``.

    ``ends`` states whether the operator reads the network's inputs, and whether it writes the
    network's outputs.
    """
    kind = facts["kind"]
    for known in read_substitutes():
        fits = kind in known.kinds and {*known.needs} <= {*operators}
        if fits and (known.at is None or known.at in ends) and all_hold(known.when, facts):
            return Remedy(known.change.format(kind=kind), known.work)
    return None
