"""Estimates the time of an inference, and the bytes that pass between cores.

The platform states the speed of its devices. The build does not measure the speed. A layer's time
is the maximum of the time for multiply-accumulates and the time to move inputs, weights and
outputs. Cycles of a device's cost model replace the estimate. If a layer is not on the run
function's core, control and the layer's inputs and outputs cross to the layer's core and back. A
call of a run function on another core is also a crossing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firmwright.ir.kernels import Kernels
from firmwright.ir.regions import Partition
from firmwright.ir.tensors import Tensor
from firmwright.targets.timing import SIXTEEN_BIT_TYPES, US_DECIMALS, estimate_work_us
from firmwright.toolchain.platforms import Timing


@dataclass(frozen=True, slots=True)
class Cost:
    """An estimated cost.

    ``crossings`` is the number of times that control passes between cores. ``bytes`` is the size of
    the tensors that pass in these crossings. The microseconds are the times of the layers' work and
    of the calls.
    """

    crossings: int
    bytes: int
    work_us: float
    calls_us: float

    @property
    def microseconds(self) -> float:
        return self.work_us + self.calls_us


@dataclass(frozen=True)
class LayerEstimate:
    """A region and its estimated cost. ``sources`` names the region's operators in the model."""

    name: str
    device: str
    sources: tuple[str, ...]
    cost: Cost


def estimate_layers(
    partition: Partition,
    kernels: Kernels,
    timing: Timing,
    cores: Mapping[str, str],
    run_function: str,
) -> tuple[LayerEstimate, ...]:
    """Return the cost of each region, in order of execution, and of the run function's call.

    ``cores`` has the core of each device of the mix; '' is the processor. The last device runs the
    run function. Raises UserError if the platform does not state the speed of a device.
    """
    tensors = {tensor.name: tensor for tensor in partition.tensors}
    kernel_of = {kernel.region: kernel for kernel in kernels.kernels}
    running, core = list(cores.items())[-1]
    layers = []
    for region in partition.regions:
        if region.view:
            continue
        engine = timing.find_throughput(region.device)
        ports = [tensors[name] for name in (*region.inputs, *region.outputs)]
        kernel = kernel_of[region.name]
        weights = sum(weight.bytes for weight in kernel.weights)
        wide = any(weight.dtype in SIXTEEN_BIT_TYPES for weight in kernel.weights)
        work = estimate_work_us(region.macs, ports, weights, engine, kernel.cycles, wide)
        cost = make_cost(cores[region.device] != core, ports, work, timing)
        layers.append(LayerEstimate(region.name, region.device, region.sources, cost))
    ports = [tensors[name] for name in (*partition.inputs, *partition.outputs)]
    call = make_cost(core != "", ports, 0.0, timing)
    return (*layers, LayerEstimate(run_function, running, (), call))


def make_cost(called: bool, ports: Iterable[Tensor], work: float, timing: Timing) -> Cost:
    if not called:
        return Cost(0, 0, work, 0.0)
    return Cost(2, sum(t.bytes for t in ports), work, timing.call_us)


def sum_costs(costs: Iterable[Cost]) -> Cost:
    listed = list(costs)
    return Cost(
        crossings=sum(c.crossings for c in listed),
        bytes=sum(c.bytes for c in listed),
        work_us=round(sum(c.work_us for c in listed), US_DECIMALS),
        calls_us=round(sum(c.calls_us for c in listed), US_DECIMALS),
    )
