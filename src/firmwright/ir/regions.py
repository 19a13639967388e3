"""The partition stage's result (file ``partition/partition.json``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from firmwright.ir.tensors import Tensor

RAM = "ram"
"""The processor's own memory, where the network's inputs and outputs are."""
COPY = "copy"
"""The anchor of regions that only copy a tensor to another memory."""
TRANSFORM = "layout_transform"
"""The anchor of regions that only change a tensor's layout."""


@dataclass(frozen=True, slots=True)
class Change:
    """What of an operator would have to change: a quantity as it is, and the nearest that passes.

    ``fact`` is the quantity's name in the rules, ``quantity`` that in words.
    """

    fact: str
    quantity: str
    found: Any = field(hash=False)  # lists have no hash
    wanted: Any = field(hash=False)

    def __str__(self) -> str:
        """Return e.g. ``strides [1, 2] → [1, 1]``."""
        return f"{self.quantity} {self.found} → {self.wanted}"


Work = Literal["same", "other", "none"]
"""What a region does after a change: as much as before, so that cost models tell what that takes;
something else; or nothing, for it is gone."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What lifts a rule and is no quantity, in words, and the work that is left."""

    change: str
    work: Work = "same"


@dataclass(frozen=True)
class Suggestion:
    """A change of the model or of the build, and the cycles that a region takes after it.

    After one that ``shrinks`` the network computes less. Only where it matters most is that told.
    """

    change: str
    cycles: int
    shrinks: bool = False


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A rule of a device that an operator breaks; the sentence has the value that breaks it.

    ``device`` is the device's name in the mix; the device itself leaves it empty. After all
    ``changes`` the rule holds, or after the ``remedy``; without either it is not known what would
    lift it. ``operator`` is the kind of what breaks the rule, '' where the rule is about more.
    """

    device: str = field(default="", kw_only=True)
    changes: tuple[Change, ...] = field(default=(), kw_only=True)
    remedy: Remedy | None = field(default=None, kw_only=True)
    operator: str = field(default="", kw_only=True)
    rule: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Region:
    """A group of operators that runs as one function on one device.

    ``name`` is a C identifier and the name of its Relax function in ``partition/module.json``.
    ``device`` executes it; ``lowered_by`` names the device that makes its C, if that is another.
    ``inputs`` and ``outputs`` name tensors of the partition. A ``view`` needs no code: it gives
    bytes of its input, from its ``offset`` on, another shape; or its inputs are written one behind
    the other where its output is. ``macs`` counts multiply-accumulates. ``dequantized``
    names those inputs that carry in float what was computed from quantized values. ``refusals``
    tell why the devices before it in the mix did not take the region's anchor. ``memory`` is where
    its device has its working memory.
    """

    name: str
    device: str
    reason: str
    anchor: str
    sources: tuple[str, ...]
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    macs: int
    view: bool
    dequantized: tuple[str, ...]
    refusals: tuple[RuleViolation, ...] = ()
    memory: str = RAM
    lowered_by: str = ""
    offset: int = 0

    @property
    def joins(self) -> bool:
        """Whether it is a view whose inputs lie in its output."""
        return self.view and len(self.inputs) > 1

    @property
    def moves(self) -> bool:
        """Whether it only moves a tensor, and is no operator of the model."""
        return self.anchor in (COPY, TRANSFORM) and not self.sources


def make_move_region(
    name: str, device: str, reason: str, kind: str, read: str, result: str
) -> Region:
    """Return a region that only moves a tensor, of no operator of the model.

    ``kind`` is its anchor, ``read`` and ``result`` name tensors.
    """
    return Region(
        name=name,
        device=device,
        reason=reason,
        anchor=kind,
        sources=(),
        operators=(kind,),
        inputs=(read,),
        outputs=(result,),
        macs=0,
        view=False,
        dequantized=(),
    )


@dataclass(frozen=True, slots=True)
class Partition:
    """Regions in execution order over named tensors; every tensor is written once.

    ``tensor_memories`` has the memories of the tensors that are not in RAM. The last ``states`` of
    the inputs are kept between runs; as many outputs at the end are their next values.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    regions: tuple[Region, ...]
    tensor_memories: dict[str, str] = field(default_factory=dict)
    states: int = 0

    @property
    def state_pairs(self) -> tuple[tuple[str, str], ...]:
        """The tensors of each state: the value that a run begins with, and the next one."""
        count = self.states
        pairs = zip(self.inputs[len(self.inputs) - count :], self.outputs[-count:], strict=True)
        return tuple(pairs) if count else ()

    @property
    def view_roots(self) -> dict[str, str]:
        """The tensor among whose bytes each tensor lies: itself, the source or result of a view."""
        return {name: root for name, (root, _) in self.view_places.items()}

    @property
    def view_places(self) -> dict[str, tuple[str, int]]:
        """The tensor among whose bytes each tensor lies, and the byte at which it begins."""
        places = {tensor.name: (tensor.name, 0) for tensor in self.tensors}
        size = {tensor.name: tensor.bytes for tensor in self.tensors}

        def find(name: str) -> tuple[str, int]:
            whole, begin = places[name]
            while places[whole][0] != whole:
                whole, more = places[whole]
                begin += more
            return whole, begin

        for region in self.regions:
            if region.view:
                (shown,) = region.outputs
                begin = 0
                for name in region.inputs if region.joins else ():
                    places[find(name)[0]] = shown, begin
                    begin += size[name]
                if not region.joins:
                    places[shown] = region.inputs[0], region.offset
        return {name: find(name) for name in places}

    @property
    def macs(self) -> int:
        return sum(region.macs for region in self.regions)

    @property
    def copied_bytes(self) -> int:
        """The bytes that an inference copies from one memory to another."""
        copies = {
            name for region in self.regions if region.anchor == COPY for name in region.outputs
        }
        return sum(tensor.bytes for tensor in self.tensors if tensor.name in copies)
