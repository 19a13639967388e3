"""What would let a network run faster: changes that lift rules, and what devices suggest.

A change comes from the rule that a layer breaks, what it saves from the cost models of the devices.
It is about the layer's own work: data that moves from device to device is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import tvm

from firmwright.ir.regions import Change, Partition, Region
from firmwright.ir.relax import list_constants
from firmwright.ir.tensors import Tensor
from firmwright.report.advice import Advice
from firmwright.report.estimates import US_DECIMALS, estimate_work_us
from firmwright.targets import Device
from firmwright.toolchain.platforms import Timing


@dataclass(frozen=True)
class Estimator:
    """What regions take on the devices of a mix: in microseconds where the platform has timing."""

    tensors: Mapping[str, Tensor]
    module: tvm.IRModule
    timing: Timing | None

    @property
    def unit(self) -> str:
        return "us" if self.timing else "cycles"

    def estimate(
        self, region: Region, device: Device, changes: Sequence[Change] = ()
    ) -> float | None:
        """Return what a region takes on a device, None where that is not known."""
        if self.timing is None:
            return device.estimate_cycles(region, self.module, changes)
        engine = self.timing.engines.get(device.name)
        if engine is None:
            return None
        ports = [self.tensors[name] for name in (*region.inputs, *region.outputs)]
        weights = sum(constant.nbytes for constant in list_constants(self.module[region.name]))
        return estimate_work_us(region.macs, ports, weights, engine)


def advise(
    partition: Partition, module: tvm.IRModule, mix: Sequence[Device], timing: Timing | None
) -> tuple[Advice, ...]:
    """Return what would save something, most first, and then what may.

    ``module`` has the regions' functions.
    """
    estimator = Estimator({tensor.name: tensor for tensor in partition.tensors}, module, timing)
    found = [
        advice
        for region in partition.regions
        if not (region.view or region.moves)
        for advice in (*lift_rules(region, mix, estimator), *speed_up(region, mix, estimator))
        if advice.saves is None or advice.saves > 0
    ]

    def same_change(advice: Advice) -> tuple[str, str, bool, bool]:
        return advice.change, advice.device, advice.moves, advice.saves is None

    merged = [merge(list(each)) for _, each in groupby(sorted(found, key=same_change), same_change)]
    return tuple(sorted(merged, key=lambda advice: -(advice.saves or 0)))


def merge(found: Sequence[Advice]) -> Advice:
    """Return one advice for layers with the same change."""
    known = [advice.saves for advice in found if advice.saves is not None]
    layers = tuple(layer for advice in found for layer in advice.layers)
    return replace(found[0], layers=layers, saves=sum(known) if known else None)


def lift_rules(region: Region, mix: Sequence[Device], estimator: Estimator) -> Iterator[Advice]:
    """Yield for each device that refused a region what would let it take the region."""
    now = estimator.estimate(region, find_device(region, mix))
    for device in mix:
        broken = [r for r in region.refusals if r.device == device.name]
        if not broken or not all(violation.changes for violation in broken):
            continue
        changes = tuple(dict.fromkeys(str(c) for violation in broken for c in violation.changes))
        then = estimator.estimate(region, device, [c for v in broken for c in v.changes])
        saves = None if now is None or then is None else now - then
        yield make_advice("; ".join(changes), region, device, saves, estimator)


def speed_up(region: Region, mix: Sequence[Device], estimator: Estimator) -> Iterator[Advice]:
    """Yield what a region's own device suggests for it."""
    device = find_device(region, mix)
    now = estimator.estimate(region, device)
    cycles = device.estimate_cycles(region, estimator.module)
    if not now or not cycles:
        return
    for suggestion in device.suggest(region, estimator.module):
        saves = now * (1 - suggestion.cycles / cycles)
        yield make_advice(suggestion.change, region, device, saves, estimator)


def find_device(region: Region, mix: Sequence[Device]) -> Device:
    return next(device for device in mix if device.name == region.device)


def make_advice(
    change: str, region: Region, device: Device, saves: float | None, estimator: Estimator
) -> Advice:
    layer = region.sources[0] if region.sources else region.name
    moves = device.name != region.device
    digits = None if estimator.unit == "cycles" else US_DECIMALS
    rounded = None if saves is None else round(saves, digits)
    return Advice(change, (layer,), device.name, moves, rounded, estimator.unit)
