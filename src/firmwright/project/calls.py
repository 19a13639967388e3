"""Makes the calls of a network's run function as single calls or loops."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import PurePath
from types import MappingProxyType

from firmwright.codegen.names import c_identifier
from firmwright.ir.kernels import Kernel, Parameter
from firmwright.ir.regions import RAM, Region
from firmwright.ir.tensors import ELEMENT_BYTES, Tensor
from firmwright.planning.arena import Buffer
from firmwright.planning.loops import Loop
from firmwright.planning.overwritten_inputs import share_pointers
from firmwright.planning.plan import Input, Location, Output, Slot
from firmwright.planning.schedule import Wait
from firmwright.project.interface import Port
from firmwright.project.network import Network
from firmwright.project.selftest import LayerCheck, list_checks


@dataclass(frozen=True)
class KernelCall:
    """One call in the network's run function, and the waits of the call or of the job.

    ``number`` is the step of the plan, and ``layer`` counts only the calls, from 1. ``function``
    names the C function, which may be an equal function of another region. ``callers`` is the
    number of regions that call this region's function. ``only_calls`` states whether the function
    only calls functions of the kernel's files. ``command`` is the number of the call among the
    calls to another ``core``, from 1. ``checks`` are the layers whose checksums are computed before
    the call.
    """

    number: int
    layer: int
    region: Region
    kernel: Kernel
    function: str
    callers: int
    only_calls: bool
    waits: tuple[Wait, ...]
    events: tuple[Wait, ...]
    arguments: tuple[str, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    core: str
    command: int
    checks: tuple[LayerCheck, ...]


@dataclass(frozen=True)
class RepeatedCalls:
    """Calls that are repeated ``times`` times, in a loop if ``times`` is more than 1.

    ``strides`` maps C names to the distance by which each tensor moves per repetition. The unit is
    bytes of an arena, or elements of a buffer that the caller passes.
    """

    calls: tuple[KernelCall, ...]
    times: int = 1
    strides: dict[str, int] = field(default_factory=dict)


def make_kernel_calls(
    network: Network, inputs: list[Port], outputs: list[Port]
) -> list[KernelCall]:
    """Return one call per kernel. The arguments are C expressions."""
    kernels = {k.region: k for k in network.kernels.kernels}
    regions = {r.name: r for r in network.partition.regions}
    tensors = {t.name: t for t in network.partition.tensors}

    def pointer(parameter: Parameter) -> str:
        return emit_pointer(parameter, network.plan.locations[parameter.tensor], inputs, outputs)

    shared = network.plan.shared_functions
    callers = Counter(shared.get(kernel, kernel) for kernel in kernels)
    commands = Counter[str]()
    result: list[KernelCall] = []
    for number, step in enumerate(network.plan.schedule.steps):
        region = regions[step.region]
        if region.view:
            continue
        kernel = share_pointers(kernels[region.name], network.plan.locations)
        others = (kernel.definitions, kernel.functions, kernel.library_functions)
        only_calls = bool(kernel.files) and not any(others)
        kernel = add_prefix(kernel, network.c_prefix, network.shared.helpers)
        arguments = [pointer(p) for p in kernel.inputs]
        arguments += [f"{network.c_prefix}_{p.tensor}" for p in kernel.weights]
        arguments += [pointer(p) for p in (*kernel.outputs, *kernel.scratch)]
        core = network.cores.called_core(region.device)
        commands[core] += 1
        result.append(
            KernelCall(
                number=number,
                layer=len(result) + 1,
                region=region,
                kernel=kernel,
                function=f"{network.c_prefix}_{shared.get(region.name, region.name)}",
                callers=callers[region.name],
                only_calls=only_calls,
                waits=step.waits,
                events=step.events,
                arguments=tuple(arguments),
                inputs=tuple(tensors[n] for n in region.inputs),
                outputs=tuple(tensors[n] for n in region.outputs),
                core=core,
                command=commands[core],
                checks=list_checks(network.checks, result[-1].number + 1 if result else 0, number),
            )
        )
    return result


def emit_pointer(
    parameter: Parameter,
    location: Location,
    inputs: list[Port],
    outputs: list[Port],
    advance: str = "",
) -> str:
    """Return a C pointer to the tensor of a parameter, moved by the distance ``advance``."""
    where = emit_location(location, inputs, outputs, advance)
    return f"({parameter.c_type} *){where}" if isinstance(location, Slot) else where


def emit_location(
    location: Location, inputs: list[Port], outputs: list[Port], advance: str = ""
) -> str:
    """Return the C expression for a location in the caller's buffer or in an arena.

    ``advance`` is added to the location, in bytes of an arena or elements of the caller's buffer.
    """
    match location:
        case Input(index, offset):
            return emit_part(f"inputs->{inputs[index].member}", inputs[index], offset, advance)
        case Output(index, offset):
            return emit_part(f"outputs->{outputs[index].member}", outputs[index], offset, advance)
        case Slot(memory, offset):
            return f"&{arena_name(memory)}[{offset}{advance}]"


def emit_part(pointer: str, port: Port, offset: int, advance: str) -> str:
    elements = offset // ELEMENT_BYTES[port.tensor.dtype]
    return f"{pointer}{f' + {elements}' if elements else ''}{advance}"


def arena_name(memory: str) -> str:
    return "arena" if memory == RAM else f"arena_{c_identifier(memory)}"


def make_blocks(
    network: Network, calls: Sequence[KernelCall], inputs: list[Port], outputs: list[Port]
) -> list[RepeatedCalls]:
    """Return the calls in order, with loops for repeated calls.

    Loops do not contain calls to other cores, which are numbered, or layers with checksums.
    """
    blocks = []
    done = 0
    for loop in () if network.checks else network.plan.loops:
        if not any(call.core for call in calls[loop.first : loop.end]):
            blocks += [RepeatedCalls((call,)) for call in calls[done : loop.first]]
            blocks.append(make_loop(network, calls, loop, inputs, outputs))
            done = loop.end
    return blocks + [RepeatedCalls((call,)) for call in calls[done:]]


def make_loop(
    network: Network,
    calls: Sequence[KernelCall],
    loop: Loop,
    inputs: list[Port],
    outputs: list[Port],
) -> RepeatedCalls:
    """Return a loop whose strides are the distances between the first two repetitions."""
    locations, roots = network.plan.locations, network.partition.view_roots
    strides: dict[str, int] = {}

    def name_whole(parameter: Parameter, location: Location) -> str:
        match location:
            case Input(index):
                return inputs[index].member
            case Output(index):
                return outputs[index].member
            case Slot():
                return roots.get(parameter.tensor, parameter.tensor).removesuffix("_result")

    def pointer(parameter: Parameter, later: Parameter) -> str:
        location = locations[parameter.tensor]
        moved = locations[later.tensor].offset - location.offset
        if not moved:
            return emit_pointer(parameter, location, inputs, outputs)
        stride = abs(moved)
        if not isinstance(location, Slot):
            stride //= ELEMENT_BYTES[parameter.dtype]
        whole = name_whole(parameter, location)
        name = next(n for n in name_strides(whole) if strides.setdefault(n, stride) == stride)
        advance = f" {'+' if moved > 0 else '-'} {name} * step"
        return emit_pointer(parameter, location, inputs, outputs, advance)

    end = loop.first + loop.calls
    body = []
    for call, later in zip(calls[loop.first : end], calls[end:], strict=False):
        kernel, after = call.kernel, later.kernel
        given = [pointer(*pair) for pair in zip(kernel.inputs, after.inputs, strict=True)]
        results = (*kernel.outputs, *kernel.scratch), (*after.outputs, *after.scratch)
        made = [pointer(*pair) for pair in zip(*results, strict=True)]
        weights = call.arguments[len(given) : len(call.arguments) - len(made)]
        body.append(replace(call, arguments=(*given, *weights, *made)))
    return RepeatedCalls(tuple(body), loop.times, strides)


def name_strides(tensor: str) -> Iterator[str]:
    """Yield names for the strides of a tensor, which may have several strides."""
    yield f"{tensor}_stride"
    yield from (f"{tensor}_stride_{number}" for number in count(2))


def list_buffers(network: Network) -> list[Buffer]:
    """Return the buffers of all calls except later repetitions, which reuse buffers."""
    steps = [s.region for s in network.plan.schedule.steps]
    views = {region.name for region in network.partition.regions if region.view}
    numbers = [number for number, region in enumerate(steps) if region not in views]
    later = [
        range(numbers[loop.first + loop.calls], numbers[loop.end - 1] + 1)
        for loop in network.plan.loops
    ]
    return [b for b in network.plan.buffers if not any(b.first in span for span in later)]


NO_OWNERS: Mapping[str, str] = MappingProxyType({})


def add_prefix(kernel: Kernel, prefix: str, owners: Mapping[str, str] = NO_OWNERS) -> Kernel:
    """Return a kernel with the prefix in the names of files, functions and types.

    A file has the name of the function or the type that the file defines, and a header's guard has
    the name of the file. ``owners`` maps the stems of shared files to the prefixes of other
    networks. The kernel does not contain these files.
    """
    stems = {PurePath(file.name).stem: prefix for file in kernel.files}
    if not stems:
        return kernel
    stems |= {stem: owner for stem, owner in owners.items() if stem in stems}
    rename = make_rename(stems)
    unshared = (file for file in kernel.files if PurePath(file.name).stem not in owners)
    return replace(
        kernel,
        body=rename(kernel.body),
        definitions=rename(kernel.definitions) if kernel.definitions else None,
        headers=tuple(rename(header) for header in kernel.headers),
        files=tuple(replace(f, name=rename(f.name), text=rename(f.text)) for f in unshared),
    )


def make_rename(prefixes: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that adds the prefix to each whole word of a text that is a name."""
    guards = {f"{stem.upper()}_H": prefix.upper() for stem, prefix in prefixes.items()}
    named = {**prefixes, **guards}
    pattern = re.compile(rf"\b(?:{'|'.join(sorted(named))})\b")
    return lambda text: pattern.sub(lambda match: f"{named[match[0]]}_{match[0]}", text)
