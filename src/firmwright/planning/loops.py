"""Finds repeated calls, such as the steps of a recurrent layer, and converts them to loops.

Calls repeat if they call one function with equal constants and matching tensors. Two tensors match
if they are equal, are parts of one tensor, or have one role in two repetitions. Buffers are placed
as if all repetitions ran at the same time, so all repetitions use the same buffers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from firmwright.ir.kernels import Kernel, Kernels, describe
from firmwright.ir.regions import Partition
from firmwright.planning.arena import Buffer, align, sort_by_offset
from firmwright.planning.overwritten_inputs import share_pointers
from firmwright.planning.schedule import Schedule

MAX_CALLS = 64
"""The maximum number of calls per repetition to try."""

MIN_TIMES = 3
"""The minimum number of repetitions. Fewer repetitions need less code as calls."""

Slice = tuple[str, int]
"""The buffer or tensor that contains a tensor, and the byte at which the tensor begins."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of ``times`` repetitions of ``calls`` calls.

    ``first`` is the number of the first call, and views are not counted.
    """

    first: int
    calls: int
    times: int

    @property
    def end(self) -> int:
        return self.first + self.calls * self.times


@dataclass(frozen=True)
class Call:
    """A call of the schedule: step, function, constants and the locations of tensors."""

    step: int
    function: Hashable
    slices: tuple[Slice, ...]


@dataclass(frozen=True)
class Repetition:
    """The differences between a call's tensors and the tensors one repetition later.

    A difference with True is the distance in bytes within one buffer or tensor. A difference with
    False is the distance in steps to the step that writes the buffer.
    """

    moves: tuple[tuple[bool, int], ...]


def find_loops(calls: Sequence[Call], buffers: Mapping[str, Buffer]) -> tuple[Loop, ...]:
    """Return the loops, in order, that leave the fewest calls.

    Loops are not nested. If a loop could begin at several calls, it begins at the call before which
    the fewest bytes are in use. At that call, a step of a recurrent layer passes only its state to
    the next step.
    """
    kept = count_kept(calls, buffers)
    lengths = range(1, min(MAX_CALLS, len(calls) // MIN_TIMES) + 1)
    compared = {
        n: [compare(*pair, buffers) for pair in zip(calls, calls[n:], strict=False)]
        for n in lengths
    }
    alike = {n: repetitions for n, repetitions in compared.items() if any(repetitions)}
    loops = []
    at = 0
    while at < len(calls):
        fits = (fit_loop(repetitions, n, at) for n, repetitions in alike.items())
        best = max(fits, key=count_saved, default=None)
        if best is None or best.times < MIN_TIMES:
            at += 1
        else:
            alternatives = range(best.first, best.first + best.spare + 1)
            first = min(alternatives, key=lambda number: (kept[number], -number))
            loops.append(Loop(first, best.calls, best.times))
            at = loops[-1].end
    return tuple(loops)


def count_kept(calls: Sequence[Call], buffers: Mapping[str, Buffer]) -> list[int]:
    """Return per call the number of earlier written bytes that this or a later call reads."""
    changes = Counter[int]()
    for buffer in buffers.values():
        changes[buffer.first + 1] += buffer.bytes
        changes[buffer.last + 1] -= buffer.bytes
    kept = [*accumulate(changes[step] for step in range(calls[-1].step + 1))] if calls else []
    return [kept[call.step] for call in calls]


@dataclass(frozen=True)
class Fit:
    """A loop that may begin with its first call, or up to ``spare`` calls later."""

    first: int
    calls: int
    times: int
    spare: int


def count_saved(fit: Fit) -> tuple[bool, int, int]:
    return fit.times >= MIN_TIMES, fit.calls * (fit.times - 1), -fit.calls


def fit_loop(alike: Sequence[Repetition | None], calls: int, first: int) -> Fit:
    """Return the longest loop with ``calls`` calls per repetition that begins at ``first``."""
    end = first
    while end < len(alike) and alike[end] is not None:
        if end >= first + calls and alike[end] != alike[end - calls]:
            break
        end += 1
    times, spare = divmod(end - first, calls)
    return Fit(first, calls, times + 1, spare)


def compare(call: Call, later: Call, buffers: Mapping[str, Buffer]) -> Repetition | None:
    """Return the differences between two calls, or None if the later call is not a repetition."""
    if call.function != later.function:
        return None
    moves = []
    for (one, begin), (other, later_begin) in zip(call.slices, later.slices, strict=True):
        if one == other:
            moves.append((True, later_begin - begin))
        elif begin == later_begin and may_share(buffers.get(one), buffers.get(other)):
            moves.append((False, buffers[other].first - buffers[one].first))
        else:
            return None
    return Repetition(tuple(moves))


def may_share(one: Buffer | None, other: Buffer | None) -> bool:
    return bool(one and other and (one.bytes, one.memory) == (other.bytes, other.memory))


def list_calls(
    partition: Partition, kernels: Kernels, schedule: Schedule, slices: Mapping[str, Slice]
) -> list[Call]:
    """Return the calls in order. A call that waits or that starts a job never repeats."""
    functions = find_functions(partition, kernels, slices)
    kernel_of = {kernel.region: kernel for kernel in kernels.kernels}
    calls = []
    for number, step in enumerate(schedule.steps):
        if kernel := kernel_of.get(step.region):
            alone = kernel.wait_function or step.waits or step.events
            weights = tuple(p.tensor for p in kernel.weights)
            function = number if alone else (functions[step.region], weights)
            calls.append(Call(number, function, tuple(list_slices(kernel, slices))))
    return calls


def list_slices(kernel: Kernel, slices: Mapping[str, Slice]) -> Iterator[Slice]:
    for parameter in (*kernel.inputs, *kernel.outputs, *kernel.scratch):
        yield slices[parameter.tensor]


@dataclass(frozen=True)
class Folded:
    """Buffers for a placement in which all repetitions of a loop run at the same time.

    ``parts`` maps each buffer of the schedule to the folded buffer that contains it, and to the
    byte offset in the folded buffer.
    """

    buffers: list[Buffer]
    parts: dict[str, Slice]
    unfolded: Sequence[Buffer]

    def unfold(self, placed: Sequence[Buffer]) -> list[Buffer]:
        """Return the schedule's buffers at their offsets in the placed buffers.

        The buffers of states do not change.
        """
        wholes = {b.name: b for b in placed}
        folded = {whole for whole, _ in self.parts.values()}
        buffers = [b for b in placed if b.name not in folded]
        for buffer in self.unfolded:
            whole, begin = self.parts[buffer.name]
            if home := wholes.get(whole):
                buffers.append(replace(buffer, memory=home.memory, offset=home.offset + begin))
        return sort_by_offset(buffers)


def fold_loops(
    loops: Sequence[Loop], calls: Sequence[Call], buffers: Sequence[Buffer], steps: int
) -> Folded:
    """Join the buffers that have one role in all repetitions.

    Joined buffers share their bytes, or they are next to each other. A joined buffer has the steps
    of the first repetition.
    """
    time = fold_time(loops, calls, steps)
    folded: list[Buffer] = []
    parts: dict[str, Slice] = {}
    for row in group_roles(loops, calls, buffers):
        stride = 0 if is_one_by_one(row) else align(row[0].bytes)
        spans = [time[b.first : b.last + 1] for b in row]
        first, last = min(int(s.min()) for s in spans), max(int(s.max()) for s in spans)
        size = stride * (len(row) - 1) + row[0].bytes
        folded.append(replace(row[0], bytes=size, first=first, last=last))
        parts.update((b.name, (row[0].name, stride * i)) for i, b in enumerate(row))
    return Folded(folded, parts, buffers)


def fold_time(loops: Sequence[Loop], calls: Sequence[Call], steps: int) -> npt.NDArray[np.int64]:
    """Return for each step the corresponding step in the first repetition of the loop."""
    time = np.arange(steps)
    for loop in loops:
        for number in range(loop.first + loop.calls, loop.end):
            begin = calls[number].step
            end = calls[number + 1].step if number + 1 < loop.end else begin + 1
            time[begin:end] = calls[loop.first + (number - loop.first) % loop.calls].step
    return time


def group_roles(
    loops: Sequence[Loop], calls: Sequence[Call], buffers: Sequence[Buffer]
) -> list[list[Buffer]]:
    """Return groups of the buffers that have one role in all repetitions, sorted by first step."""
    row_of = {b.name: [b] for b in buffers}
    for loop in loops:
        for one, other in list_successors(loop, calls):
            small, large = sorted((row_of[one], row_of[other]), key=len)
            if small is not large:
                large.extend(small)
                row_of.update((b.name, large) for b in small)
    rows = {id(row): sorted(row, key=lambda b: b.first) for row in row_of.values()}
    return list(rows.values())


def list_successors(loop: Loop, calls: Sequence[Call]) -> Iterator[tuple[str, str]]:
    """Yield pairs of the buffers that have one role in a repetition and in the next repetition."""
    for number in range(loop.first, loop.end - loop.calls):
        later = calls[number + loop.calls]
        for (one, _), (other, _) in zip(calls[number].slices, later.slices, strict=True):
            if one != other:
                yield one, other


def is_one_by_one(row: Sequence[Buffer]) -> bool:
    return all(b.last < after.first for b, after in pairwise(row))


def keep_small_loops(
    loops: Sequence[Loop], calls: Sequence[Call], buffers: Sequence[Buffer]
) -> tuple[Loop, ...]:
    """Return the loops whose buffers need no more memory than the calls' buffers.

    In such a loop, the buffers of one role are in use one after the other, or all at once.
    """
    large = {
        b.name
        for row in group_roles(loops, calls, buffers)
        if not is_one_by_one(row) and min(b.last for b in row) < max(b.first for b in row)
        for b in row
    }
    return tuple(
        loop
        for loop in loops
        if large.isdisjoint(name for pair in list_successors(loop, calls) for name in pair)
    )


def find_shared_functions(
    partition: Partition, kernels: Kernels, locations: Mapping[str, object]
) -> dict[str, str]:
    owners = find_functions(partition, kernels, locations)
    return {region: owner for region, owner in owners.items() if region != owner}


def find_functions(
    partition: Partition, kernels: Kernels, locations: Mapping[str, object]
) -> dict[str, str]:
    """Return for each region with a kernel the first region whose function it can call.

    A kernel that starts a job has a separate function, because its arguments may still be in use
    after the call.
    """
    devices = {region.name: region.device for region in partition.regions}
    first: dict[Hashable, str] = {}
    owners = {}
    for kernel in kernels.kernels:
        called = share_pointers(kernel, locations)
        owner = first.setdefault((devices[kernel.region], describe(called)), kernel.region)
        owners[kernel.region] = kernel.region if kernel.wait_function else owner
    return owners
