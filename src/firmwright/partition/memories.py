"""Which memory every tensor lies in, where devices do not reach all of them.

A platform says of an accelerator which ``memories`` it reaches; without that, it reaches what the
processor does. The processor reaches all of them, and its own is ``ram``, where the network's
inputs and outputs are. A tensor lies where its writer reaches it and most of its readers do. For
the others it is copied, by the device that takes the rest of the network, once for each memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import tvm
from tvm import relax

from firmwright.ir.regions import COPY, RAM, Partition, Region, make_move_region
from firmwright.ir.relax import set_functions
from firmwright.ir.tensors import Tensor
from firmwright.targets import Device

ReachableMemories = Mapping[str, Sequence[str]]
"""The memories that a device reaches, by its name, in the order of preference; all without one."""


def assign_memories(
    module: tvm.IRModule, partition: Partition, mix: Sequence[Device]
) -> tuple[tvm.IRModule, Partition]:
    """Give tensors their memories, and put copies in front of regions that do not reach theirs."""
    numbers = {d.name: d.context.platform.accelerators.get(d.name, {}) for d in mix}
    reach = {name: tuple(n["memories"]) for name, n in numbers.items() if "memories" in n}
    if not reach:
        return module, partition
    copying = CopyInserter(partition, choose_memories(partition, reach), reach, mix[-1].name)
    for region in partition.regions:
        copying.add(region)
    partition = copying.build_partition()
    return set_functions(module, copying.functions), partition


def choose_memories(partition: Partition, reach: ReachableMemories) -> dict[str, str]:
    """Return the memory of every tensor; a view is where the tensor is that it shows."""
    roots = partition.view_roots
    readers: dict[str, set[str]] = defaultdict(set)
    for region in partition.regions:
        for name in () if region.view else region.inputs:
            readers[roots[name]].add(region.device)
    every = list(dict.fromkeys([RAM, *(m for memories in reach.values() for m in memories)]))

    def count_copies(name: str, memory: str) -> int:
        away = [d for d in readers[name] if memory not in reach.get(d, every)]
        return len(away) + (name in partition.outputs and memory != RAM)

    chosen = dict.fromkeys(partition.inputs, RAM)
    for region in partition.regions:
        for name in () if region.view else region.outputs:
            reached = reach.get(region.device, every)
            chosen[name] = min(reached, key=partial(count_copies, name))
    return {name: chosen[root] for name, root in roots.items()}


class CopyInserter:
    """The partition with copies, region by region; ``functions`` are the copies'."""

    def __init__(
        self,
        partition: Partition,
        memory_of: Mapping[str, str],
        reach: ReachableMemories,
        copier: str,
    ) -> None:
        self.before, self.reach, self.copier = partition, reach, copier
        self.memory_of = dict(memory_of)
        self.tensors = {tensor.name: tensor for tensor in partition.tensors}
        self.copies: dict[tuple[str, str], str] = {}
        self.regions: list[Region] = []
        self.functions: dict[str, relax.Function] = {}

    def add(self, region: Region) -> None:
        """Append a region, and in front of it the copies of what it does not reach."""
        reached = None if region.view else self.reach.get(region.device)
        if reached:
            inputs = tuple(
                self.ensure_memory(name, reached, region.device) for name in region.inputs
            )
            names = dict(zip(region.inputs, inputs, strict=True))
            dequantized = tuple(names[name] for name in region.dequantized)
            region = replace(region, inputs=inputs, dequantized=dequantized, memory=reached[0])
        self.regions.append(region)

    def ensure_memory(self, name: str, memories: Sequence[str], reader: str) -> str:
        """Return a tensor in one of the memories: itself, a copy that there is, or a new one."""
        if self.memory_of[name] in memories:
            return name
        made = [self.copies[name, m] for m in memories if (name, m) in self.copies]
        return made[0] if made else self.append_copy(name, memories[0], reader)

    def append_copy(self, name: str, memory: str, reader: str) -> str:
        """Append the region that copies a tensor, and return the copy's name."""
        tensor, source = self.tensors[name], self.memory_of[name]
        region = f"{name.removesuffix('_result')}_to_{memory}"
        result = replace(tensor, name=f"{region}_result")
        self.tensors[result.name] = result
        self.memory_of[result.name] = memory
        self.copies[name, memory] = result.name
        self.functions[region] = make_copy_function(tensor)
        reason = f"{reader} does not reach {source}: {tensor.bytes:,} bytes to {memory}"
        self.regions.append(
            make_move_region(region, self.copier, reason, COPY, read=name, result=result.name)
        )
        return result.name

    def build_partition(self) -> Partition:
        """Return the partition, its outputs copied to where the program wants them."""
        outputs = tuple(
            self.ensure_memory(name, (RAM,), "the program") for name in self.before.outputs
        )
        elsewhere = {name: m for name, m in self.memory_of.items() if m != RAM}
        return replace(
            self.before,
            outputs=outputs,
            tensors=tuple(self.tensors.values()),
            regions=tuple(self.regions),
            memories=dict(sorted(elsewhere.items())),
        )


def make_copy_function(tensor: Tensor) -> relax.Function:
    """Return the function from a tensor to itself, elsewhere; one loop is enough for all axes."""
    shape = (tensor.elements,)
    read = relax.Var("read", relax.TensorType(shape, tensor.dtype))
    builder = relax.BlockBuilder()
    with builder.function(COPY, [read]):
        with builder.dataflow():
            copied = builder.emit_output(relax.op.reshape(read, shape))
        builder.emit_func_output(relax.Tuple([copied]))
    return builder.get()[COPY]
