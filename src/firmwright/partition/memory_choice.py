"""Chooses a memory for every tensor if some devices do not reach all memories.

A platform lists the ``memories`` that an accelerator reaches. The processor, and accelerators
without a list, reach all memories. The inputs and outputs of the network are in ``ram``. A tensor
is in a memory that its writer and most of its readers reach. For the other readers, the tensor is
copied once per memory. The first device that ``copies`` and reaches both memories makes the copy.
The fallback makes the copy if no such device exists.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import tvm
from tvm import relax

from firmwright.ir.regions import COPY, RAM, Partition, Region, make_move_region
from firmwright.ir.relax import set_functions
from firmwright.ir.tensors import Tensor
from firmwright.targets import Device

ReachableMemories = Mapping[str, Sequence[str]]
"""The memories that each device reaches, the preferred memory first. A device without a list
reaches all memories.
"""


def assign_memories(
    module: tvm.IRModule, partition: Partition, mix: Sequence[Device]
) -> tuple[tvm.IRModule, Partition]:
    """Choose the memories of the tensors. Inserts a copy if a region does not reach its input."""
    reach = find_reach(mix)
    if not reach:
        return module, partition
    copiers = list_copiers(mix)
    copying = CopyInserter(partition, choose_memories(partition, reach), reach, copiers)
    for region in partition.regions:
        copying.add(region)
    partition = copying.build_partition()
    return set_functions(module, copying.functions), partition


def find_reach(mix: Sequence[Device]) -> ReachableMemories:
    """Return the memories of each device that the platform limits to some memories."""
    platform = mix[-1].context.platform
    constant = {name for name, memory in platform.memories.items() if memory.read_only}
    numbers = {d.name: platform.accelerators.get(d.name, {}) for d in mix}
    return {
        name: tuple(memory for memory in n["memories"] if memory not in constant)
        for name, n in numbers.items()
        if "memories" in n
    }


def list_copiers(mix: Sequence[Device]) -> tuple[str, ...]:
    return (*(d.name for d in mix[:-1] if d.target.copies), mix[-1].name)


def choose_memories(partition: Partition, reach: ReachableMemories) -> dict[str, str]:
    """Return the memory of every tensor. A view is in the memory of its source."""
    roots = partition.view_roots
    readers: dict[str, set[str]] = defaultdict(set)
    for region in partition.regions:
        for name in () if region.view else region.inputs:
            readers[roots[name]].add(region.device)
    chosen = dict.fromkeys(partition.inputs, RAM)
    for region in partition.regions:
        for name in () if region.view else region.outputs:
            returned = name in partition.outputs
            chosen[name] = choose_memory(region.device, readers[name], returned, reach)
    return {name: chosen.get(root, RAM) for name, root in roots.items()}


def choose_memory(
    writer: str, readers: Collection[str], returned: bool, reach: ReachableMemories
) -> str:
    """Return the memory of a tensor that needs the fewest copies for its readers.

    ``writer`` and ``readers`` are devices. A ``returned`` tensor is also needed in RAM.
    """
    every = list(dict.fromkeys([RAM, *(m for memories in reach.values() for m in memories)]))

    def count_copies(memory: str) -> int:
        away = [d for d in readers if memory not in reach.get(d, every)]
        return len(away) + (returned and memory != RAM)

    return min(reach.get(writer, every), key=count_copies)


def find_copier(source: str, memory: str, reach: ReachableMemories, copiers: Sequence[str]) -> str:
    """Return the first device that copies and reaches both memories, or else the fallback."""
    *engines, fallback = copiers
    reached = ((name, reach.get(name, (source, memory))) for name in engines)
    return next((name for name, all_of in reached if {source, memory} <= {*all_of}), fallback)


class CopyInserter:
    """Builds the partition with copies, region by region. ``functions`` are functions of copies.

    ``copiers`` are the devices that copy. The last device reaches all memories.
    """

    def __init__(
        self,
        partition: Partition,
        memory_of: Mapping[str, str],
        reach: ReachableMemories,
        copiers: Sequence[str],
    ) -> None:
        self.before, self.reach, self.copiers = partition, reach, copiers
        self.memory_of = dict(memory_of)
        self.tensors = {tensor.name: tensor for tensor in partition.tensors}
        self.copies: dict[tuple[str, str], str] = {}
        self.regions: list[Region] = []
        self.functions: dict[str, relax.Function] = {}

    def add(self, region: Region) -> None:
        """Append copies of the inputs that a region does not reach, then the region."""
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
        if self.memory_of[name] in memories:
            return name
        made = [self.copies[name, m] for m in memories if (name, m) in self.copies]
        return made[0] if made else self.append_copy(name, memories[0], reader)

    def append_copy(self, name: str, memory: str, reader: str) -> str:
        tensor, source = self.tensors[name], self.memory_of[name]
        region = f"{name.removesuffix('_result')}_to_{memory}"
        result = replace(tensor, name=f"{region}_result")
        self.tensors[result.name] = result
        self.memory_of[result.name] = memory
        self.copies[name, memory] = result.name
        self.functions[region] = make_copy_function(tensor)
        reason = f"{reader} does not reach {source}: {tensor.bytes:,} bytes to {memory}"
        self.regions.append(
            make_move_region(
                region,
                find_copier(source, memory, self.reach, self.copiers),
                reason,
                COPY,
                read=name,
                result=result.name,
            )
        )
        return result.name

    def build_partition(self) -> Partition:
        """Return the partition. Network outputs in other memories are copied to RAM."""
        outputs = tuple(
            self.ensure_memory(name, (RAM,), "the program") for name in self.before.outputs
        )
        elsewhere = {name: m for name, m in self.memory_of.items() if m != RAM}
        return replace(
            self.before,
            outputs=outputs,
            tensors=tuple(self.tensors.values()),
            regions=tuple(self.regions),
            tensor_memories=dict(sorted(elsewhere.items())),
        )


def make_copy_function(tensor: Tensor) -> relax.Function:
    """Return a function that copies a tensor. The tensor has one axis, so one loop is enough."""
    shape = (tensor.elements,)
    read = relax.Var("read", relax.TensorType(shape, tensor.dtype))
    builder = relax.BlockBuilder()
    with builder.function(COPY, [read]):
        with builder.dataflow():
            copied = builder.emit_output(relax.op.reshape(read, shape))
        builder.emit_func_output(relax.Tuple([copied]))
    return builder.get()[COPY]
