"""Describes the layers of a network for a report: device, reason and cost of each layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from firmwright.ir.kernels import Cycles, Kernel, Kernels, StoredWeights
from firmwright.ir.regions import Partition, Region, RuleViolation
from firmwright.ir.tensors import Operator
from firmwright.planning.arena import Buffer
from firmwright.planning.schedule import Schedule, ScheduleStep, find_dependencies
from firmwright.quantize.quantization_record import LayerAccuracy
from firmwright.report.estimates import LayerEstimate
from firmwright.report.layer_memories import LayerMemories
from firmwright.report.timeline import TimedLayer, Timeline

QUANTIZED = "_QuantizeLinear"
"""The suffix of a tensor's name in the name of the operator that quantizes the tensor."""


@dataclass(frozen=True, slots=True)
class CodeLines:
    """The lines of a file of the C project, numbered from 1. Both ends are included."""

    file: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class LayerTime:
    """The time at which a layer runs: from ``start`` to ``end``. ``end`` is excluded.

    The unit is the unit of the report's total. The cost model of the layer's device computes the
    ``modelled`` cycles. ``counted`` is the processor's part, in instructions or cycles.
    """

    start: int
    end: int
    modelled: Cycles | None
    counted: int

    @property
    def length(self) -> int:
        """Return the length of the layer's work, also if it runs in parallel to other layers."""
        return self.counted + (self.modelled_cycles or 0)

    @property
    def modelled_cycles(self) -> int | None:
        return self.modelled.total if self.modelled else None

    @property
    def origin(self) -> str:
        parts = {"modelled": self.modelled is not None, "processor": self.counted > 0}
        return " + ".join(name for name, is_part in parts.items() if is_part) or "none"


@dataclass(frozen=True, slots=True)
class LayerSize:
    """Bytes: activations that a layer reads and writes, its weights, and scratch memory."""

    reads: int
    writes: int
    weights: int
    scratch: int

    @property
    def moved(self) -> int:
        """Return the bytes of activations and weights. Each byte is moved once."""
        return self.reads + self.writes + self.weights


@dataclass(frozen=True, slots=True)
class LayerTurn:
    """A layer's step in the schedule, and the buffers of its results.

    ``step`` counts from 0 and includes views, like the steps of the ``buffers``. Before the step,
    the processor calls the ``waits`` to wait for devices.
    """

    step: int
    waits: tuple[str, ...]
    buffers: tuple[Buffer, ...]

    def __str__(self) -> str:
        """Return text such as ``step 3, after npu_wait; 64 bytes at 128 of ram, until step 5``."""
        after = f", after {' and '.join(self.waits)}" if self.waits else ""
        lies = (
            f"; {b.bytes:,} bytes at {b.offset:,} of {b.memory}, until step {b.last}"
            for b in self.buffers
        )
        return f"step {self.step}{after}{''.join(lies)}"


@dataclass(frozen=True, slots=True)
class ReportedLayer:
    """A region that runs. The number counts from 1 in order of execution.

    ``sources`` are the names of its operators in the model. ``operators`` are their kinds after the
    rewrites. ``results`` are the model's names of its results. ``shape`` is the shape of the first
    result. ``macs`` are the multiply-accumulates of one inference. ``size`` is in bytes.

    ``reason`` and ``refusals`` are the reasons for its ``device``. ``form`` is the form of its C
    code. ``float_operators`` are the operators that compute floats. The layer's code replaces the
    result of the closed tool ``stand_in``, which is None for other layers. ``memories`` exist if
    the platform has several memories to choose from. ``stored`` is the size of its weights, if any.

    ``follows`` are the numbers of the layers whose results it reads. ``turn`` is its step in the
    schedule and the positions of its results. ``time`` is None if no instructions were counted. In
    this case, ``estimated_us`` has microseconds if the platform states the timing.
    """

    number: int
    name: str
    device: str
    kind: str
    sources: tuple[str, ...]
    operators: tuple[str, ...]
    results: tuple[str, ...]
    reason: str
    refusals: tuple[RuleViolation, ...]
    form: str
    stand_in: str | None
    float_operators: tuple[str, ...]
    follows: tuple[int, ...]
    turn: LayerTurn
    macs: int
    size: LayerSize
    shape: tuple[int, ...]
    time: LayerTime | None
    estimated_us: float | None
    accuracy: LayerAccuracy | None
    code: CodeLines | None
    memories: LayerMemories | msgspec.UnsetType = msgspec.UNSET
    stored: StoredWeights | msgspec.UnsetType = msgspec.UNSET

    @property
    def title(self) -> str:
        """Return the layer's first name in the model, or else the region's name."""
        return self.sources[0] if self.sources else self.name

    @property
    def length(self) -> int | None:
        """Return the length of the layer's work in the unit of the total, or None if unknown."""
        return self.time.length if self.time else None

    @property
    def snr(self) -> float | None:
        """Return the SNR in dB against the float network's result, or None if there is no SNR."""
        return self.accuracy.signal.snr if self.accuracy else None

    @property
    def lost(self) -> float | None:
        """Return the SNR of the layer's worst input minus the SNR of the result, in dB."""
        return self.accuracy.lost if self.accuracy else None


@dataclass(frozen=True)
class LayerFacts:
    """The records of stages about a network's layers; None or empty if a stage did not run.

    ``operators`` are the operators of the model. ``code`` has the lines of each region's function.
    ``memories`` has the memories of each region's parts.
    """

    partition: Partition
    kernels: Kernels
    schedule: Schedule
    buffers: Sequence[Buffer]
    timeline: Timeline | None
    estimates: Sequence[LayerEstimate]
    accuracy: Sequence[LayerAccuracy]
    operators: Sequence[Operator]
    code: Mapping[str, CodeLines]
    memories: Mapping[str, LayerMemories]


def describe_layers(facts: LayerFacts) -> tuple[ReportedLayer, ...]:
    """Return the regions that run, in order of execution, without views."""
    regions = {region.name: region for region in facts.partition.regions if not region.view}
    order = [step.region for step in facts.schedule.steps if step.region in regions]
    number = {name: position for position, name in enumerate(order, 1)}
    reads, turns = find_dependencies(facts.partition), find_turns(facts)
    kernels = {kernel.region: kernel for kernel in facts.kernels.kernels}
    times = {layer.name: layer for layer in facts.timeline.layers} if facts.timeline else {}
    estimates = {layer.name: layer.cost.microseconds for layer in facts.estimates}
    accuracy = {layer.layer: layer for layer in facts.accuracy}
    tensors_of = map_results(facts.operators)
    bytes_of = {tensor.name: tensor.bytes for tensor in facts.partition.tensors}
    shapes = {tensor.name: tensor.shape for tensor in facts.partition.tensors}
    return tuple(
        ReportedLayer(
            number=number[name],
            name=name,
            device=region.device,
            kind=region.anchor,
            sources=region.sources,
            operators=region.operators,
            results=find_results(region, tensors_of),
            reason=region.reason,
            refusals=region.refusals,
            form=kernels[name].note or "",
            stand_in=kernels[name].stand_in,
            float_operators=tuple(map(str, kernels[name].float_operators)),
            follows=tuple(sorted(number[other] for other in reads[name])),
            turn=turns[name],
            macs=region.macs,
            size=measure(region, kernels[name], bytes_of),
            shape=shapes[region.outputs[0]],
            time=read_time(times.get(name)),
            estimated_us=None if name in times else estimates.get(name),
            accuracy=next((accuracy[s] for s in region.sources if s in accuracy), None),
            code=facts.code.get(name),
            memories=facts.memories.get(name, msgspec.UNSET),
            stored=kernels[name].stored or msgspec.UNSET,
        )
        for name, region in ((name, regions[name]) for name in order)
    )


def find_turns(facts: LayerFacts) -> dict[str, LayerTurn]:
    """Map the name of each region to its step in the schedule and the buffers of its results."""
    roots, regions = facts.partition.view_roots, {r.name: r for r in facts.partition.regions}
    buffers = {buffer.name: buffer for buffer in facts.buffers}

    def find(number: int, step: ScheduleStep) -> LayerTurn:
        written = {roots[name]: None for name in regions[step.region].outputs}
        lying = tuple(buffers[name] for name in written if name in buffers)
        return LayerTurn(number, tuple(wait.function for wait in step.waits), lying)

    return {step.region: find(n, step) for n, step in enumerate(facts.schedule.steps)}


def map_results(operators: Sequence[Operator]) -> dict[str, tuple[str, ...]]:
    """Map the names of operators to the tensors that they compute, and tensors to themselves."""
    tensors = {name: (name,) for operator in operators for name in operator.results}
    return tensors | {operator.name: operator.results for operator in operators}


def find_results(region: Region, tensors_of: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the model's names of the tensors that a region's operators compute.

    An operator that quantization added has the name of the tensor that it reads.
    """
    names = (n for s in region.sources for n in (s, s.removesuffix(QUANTIZED)))
    return tuple(dict.fromkeys(tensor for name in names for tensor in tensors_of.get(name, ())))


def measure(region: Region, kernel: Kernel, bytes_of: Mapping[str, int]) -> LayerSize:
    return LayerSize(
        reads=sum(bytes_of[name] for name in region.inputs),
        writes=sum(bytes_of[name] for name in region.outputs),
        weights=sum(weight.bytes for weight in kernel.weights),
        scratch=sum(scratch.bytes for scratch in kernel.scratch),
    )


def read_time(layer: TimedLayer | None) -> LayerTime | None:
    if layer is None:
        return None
    return LayerTime(layer.start, layer.end + 1, layer.modelled, layer.counted.amount)
