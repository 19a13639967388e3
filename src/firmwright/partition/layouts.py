"""Inserts the fewest transforms between the plain layout and a device's layout.

Regions of a device with a special layout read and write that layout. The network's inputs and
outputs are plain. Some regions of other devices support both layouts. The layout of these regions
is the layout with the lowest cost over the whole graph. The writer of a tensor decides the tensor's
layout. All readers that need the other layout share one transform. So a tensor costs at most one
transform, and the choice with the minimum total cost is a minimum cut.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from firmwright.errors import UserError
from firmwright.ir.nodes import Function, IRModule
from firmwright.ir.regions import TRANSFORM, Partition, Region, make_move_region
from firmwright.ir.relax import set_functions
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.targets.memory_layout import Layout

DEVICE, PLAIN = "the device's layout", "the plain layout"


def insert_transforms(
    module: IRModule, partition: Partition, device: str, layout: Layout, fallback: str
) -> tuple[IRModule, Partition]:
    """Insert the fewest transforms between the regions of ``device`` and all other regions.

    The choice that moves the fewest bytes is used if several choices need equally few transforms.
    Functions of other regions in the layout have its shapes. Functions of the device's regions keep
    the plain shapes. ``fallback`` runs the transforms. ``device`` generates their C code. If the
    layout allows no transforms, all tensors that are connected to a region of the device are in the
    layout. Inputs and outputs of the network are included. Raises UserError if a connected region
    cannot use the layout.
    """
    native = {r.name for r in partition.regions if r.device == device}
    if not native:
        return module, partition
    others = (r.name for r in partition.regions if r.name not in native)
    flexible = convert_functions(module, others, layout)
    if layout.allows_transforms:
        inside = choose_layout_regions(partition, native, flexible, layout)
        insertion = TransformInserter(partition, inside, device, layout, fallback)
        for region in partition.regions:
            insertion.add(region)
        partition, functions = insertion.build_partition(), insertion.functions
    else:
        inside = find_connected(partition, native)
        refuse_inflexible(partition, inside - {*native, *flexible})
        partition, functions = spread_layout(partition, inside, layout), {}
    functions |= {name: flexible[name] for name in sorted(inside - native)}
    return set_functions(module, functions), partition


def convert_functions(
    module: IRModule, names: Iterable[str], layout: Layout
) -> dict[str, Function]:
    """Return the rewritten functions. Functions that do not support the layout are missing."""
    converted = {name: layout.convert_function(module[name]) for name in names}
    return {name: function for name, function in converted.items() if function is not None}


def add_storage(interface: ModelInterface, partition: Partition) -> ModelInterface:
    """Return the interface with the storage of the network's inputs and outputs.

    Raises UserError if a device would keep a state in its layout.
    """
    storage = {t.name: t.storage for t in partition.tensors}
    for state, names in zip(interface.states, partition.state_pairs, strict=True):
        if any(storage[name] for name in names):
            raise UserError(
                f"state '{state.tensor.name}' would have the layout of a device; expected the "
                "model's layout; remove `-layout_transform=0` from the target"
            )
    inputs, outputs = (
        # The states follow the inputs and outputs, so the longer lists are cut.
        tuple(replace(t, storage=storage[n]) for t, n in zip(tensors, names, strict=False))
        for tensors, names in (
            (interface.inputs, partition.inputs),
            (interface.outputs, partition.outputs),
        )
    )
    return replace(interface, inputs=inputs, outputs=outputs)


def find_connected(partition: Partition, native: Collection[str]) -> set[str]:
    """Return the names of the native regions and of all regions that tensors connect to them."""
    inside = set(native)
    before = 0
    while len(inside) > before:
        before = len(inside)
        reached = list_tensors(partition, inside)
        inside.update(
            r.name for r in partition.regions if not reached.isdisjoint((*r.inputs, *r.outputs))
        )
    return inside


def list_tensors(partition: Partition, regions: Collection[str]) -> set[str]:
    return {n for r in partition.regions if r.name in regions for n in (*r.inputs, *r.outputs)}


def refuse_inflexible(partition: Partition, names: Collection[str]) -> None:
    """Raise UserError if there are regions that need plain tensors."""
    if names:
        plain = [r for r in partition.regions if r.name in names]
        lines = [f"  {r.anchor} ('{', '.join(r.sources) or r.name}') on {r.device}" for r in plain]
        raise UserError(
            "layout transforms are off, but these operators read or write tensors in the layout "
            "of an accelerator; allow the transforms (layout_transform=1):\n" + "\n".join(lines)
        )


def spread_layout(partition: Partition, inside: Collection[str], layout: Layout) -> Partition:
    reached = list_tensors(partition, inside)
    tensors = tuple(to_layout(t, layout) if t.name in reached else t for t in partition.tensors)
    return replace(partition, tensors=tensors)


def choose_layout_regions(
    partition: Partition, native: Collection[str], flexible: Collection[str], layout: Layout
) -> set[str]:
    """Return the names of the regions whose tensors are in the device's layout.

    Tensors of ``native`` regions must be in the layout. Tensors of ``flexible`` regions may be in
    the layout.
    """
    edges: list[tuple[Node, Node, int]] = []
    for region in partition.regions:
        if region.name in native:
            edges.append((DEVICE, region.name, UNCUTTABLE))
        elif region.name not in flexible:
            edges.append((region.name, PLAIN, UNCUTTABLE))
    touching = find_touching(partition)
    # The layout may have no storage for tensors that only plain regions use, such as scalars.
    reached = list_tensors(partition, {*native, *flexible})
    moved = {t.name: to_layout(t, layout).bytes for t in partition.tensors if t.name in reached}
    one_more = sum(moved.values()) + 1
    for name, count in moved.items():
        # The only path through a tensor is one edge. The edge is cut if both sides use the tensor.
        entry, end = (name, "entry"), (name, "end")
        edges.append((entry, end, one_more + count))
        for node in touching[name]:
            edges += [(node, entry, UNCUTTABLE), (end, node, UNCUTTABLE)]
    side = find_source_side(edges, DEVICE, PLAIN)
    return {r.name for r in partition.regions if r.name in side}


def find_touching(partition: Partition) -> dict[str, list[str]]:
    """Return the regions that read or write each tensor. The program counts as a plain region."""
    touching: dict[str, list[str]] = defaultdict(list)
    for name in (*partition.inputs, *partition.outputs):
        touching[name].append(PLAIN)
    for region in partition.regions:
        for name in (*region.inputs, *region.outputs):
            touching[name].append(region.name)
    return touching


def to_layout(tensor: Tensor, layout: Layout) -> Tensor:
    return replace(tensor, storage=layout.storage(tensor.shape))


class TransformInserter:
    """Builds the partition region by region. ``functions`` are the functions of the transforms."""

    def __init__(
        self,
        partition: Partition,
        inside: Collection[str],
        device: str,
        layout: Layout,
        fallback: str,
    ) -> None:
        self.before, self.inside, self.device, self.layout = partition, inside, device, layout
        self.fallback = fallback
        self.made_inside = {n for r in partition.regions if r.name in inside for n in r.outputs}
        self.plain = {t.name: t for t in partition.tensors}
        self.moved: dict[str, str] = {}
        self.tensors = [self.plain[n] for n in partition.inputs]
        self.regions: list[Region] = []
        self.functions: dict[str, Function] = {}

    def add(self, region: Region) -> None:
        """Append the transforms that a region's inputs need, then the region.

        An output of the network becomes plain immediately, so that no buffer is kept for it.
        """
        inside = region.name in self.inside
        inputs = tuple(self.ensure_layout(name, inside) for name in region.inputs)
        self.regions.append(replace(region, inputs=inputs))
        tensors = [self.plain[name] for name in region.outputs]
        self.tensors += [to_layout(t, self.layout) if inside else t for t in tensors]
        for name in region.outputs:
            if name in self.before.outputs:
                self.ensure_layout(name, inside=False)

    def ensure_layout(self, name: str, inside: bool) -> str:
        """Return the name of a tensor in the requested layout.

        The tensor is transformed if needed.
        """
        if (name in self.made_inside) == inside:
            return name
        if name not in self.moved:
            self.moved[name] = self.append_transform(name, inside)
        return self.moved[name]

    def append_transform(self, name: str, inward: bool) -> str:
        plain = self.plain[name]
        region = f"{name.removesuffix('_result')}_to_{self.device if inward else 'plain'}"
        result = replace(plain, name=f"{region}_result")
        self.tensors.append(to_layout(result, self.layout) if inward else result)
        self.functions[region] = self.layout.make_transform(plain.shape, plain.dtype, inward)
        reason = "the next region reads another layout"
        moved = make_move_region(
            region, self.fallback, reason, TRANSFORM, read=name, result=result.name
        )
        self.regions.append(replace(moved, lowered_by=self.device))
        return result.name

    def build_partition(self) -> Partition:
        return replace(
            self.before,
            outputs=tuple(self.ensure_layout(name, inside=False) for name in self.before.outputs),
            tensors=tuple(self.tensors),
            regions=tuple(self.regions),
        )


Node = Hashable

UNCUTTABLE = 1 << 62
"""The cost of an edge that a cut must not contain."""


def find_source_side(
    edges: Iterable[tuple[Node, Node, int]], source: Node, sink: Node
) -> set[Node]:
    """Return the side of the cheapest cut between two nodes that contains the source.

    The cut with the smallest source side is used if several cuts are cheapest. ``edges`` are (from,
    to, cost). The cost of a cut is the sum of its edges from the source's side to the other side.
    """
    free: dict[Node, dict[Node, int]] = defaultdict(lambda: defaultdict(int))
    for start, end, cost in edges:
        free[start][end] += cost
        free[end][start] += 0
    while True:
        reached = search_breadth_first(free, source)
        if sink not in reached:
            return set(reached)
        path = [sink]
        while path[-1] != source:
            path.append(reached[path[-1]])
        steps = [(start, end) for end, start in pairwise(path)]
        flow = min(free[start][end] for start, end in steps)
        for start, end in steps:
            free[start][end] -= flow
            free[end][start] += flow


def search_breadth_first(free: Mapping[Node, Mapping[Node, int]], source: Node) -> dict[Node, Node]:
    """Return each node that can be reached over free edges, and the node before it on the path."""
    before = {source: source}
    waiting = deque([source])
    while waiting:
        node = waiting.popleft()
        for following, room in free[node].items():
            if room > 0 and following not in before:
                before[following] = node
                waiting.append(following)
    return before
