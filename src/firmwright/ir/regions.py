"""Describes the result of the partition stage (file ``partition/partition.json``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from firmwright.ir.tensors import Tensor

RAM = "ram"
"""The memory of the processor, which contains the network's inputs and outputs."""
COPY = "copy"
"""The anchor of regions that only copy a tensor to another memory."""
TRANSFORM = "layout_transform"
"""The anchor of regions that only change a tensor's layout."""
COST_RULE = "cost"
"""The rule for an operator that a device accepts but does not run (``placement: cost``)."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an operator: the quantity to change, its value, and the nearest accepted value.

    ``fact`` is the quantity's name in the rules, ``quantity`` is its name in words.
    """

    fact: str
    quantity: str
    found: Any = field(hash=False)  # lists have no hash
    wanted: Any = field(hash=False)

    def __str__(self) -> str:
        """Return a text such as ``strides [1, 2] → [1, 1]``."""
        return f"{self.quantity} {self.found} → {self.wanted}"


Work = Literal["same", "other", "none"]
"""The work of a region after a change. ``"same"`` means that the work is unchanged, so cost
models can compute its cycles. ``"other"`` means that the work differs. ``"none"`` means that the
change removes the region.
"""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A description of a change after which a rule holds, and the work after the change."""

    change: str
    work: Work = "same"


@dataclass(frozen=True)
class Suggestion:
    """A change of the model or of the build, and the cycles of a region after the change.

    The changed network computes less if ``shrinks`` is true. These changes are shown only if no
    other change improves the bottleneck.
    """

    change: str
    cycles: int
    shrinks: bool = False


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A rule of a device that an operator violates. The sentence has the offending value.

    ``device`` is the device's name in the mix. The device leaves this field empty. The operator
    satisfies the rule after all ``changes``, or after the ``remedy``. Without changes and a remedy,
    no solution is known. ``operator`` is the kind of the operator, or '' if the rule is about more
    than one operator.
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

    ``name`` is a C identifier and the name of the region's Relax function in
    ``partition/module.json``. ``device`` executes the region. ``lowered_by`` names the device that
    makes the C code, if it differs. ``inputs`` and ``outputs`` name tensors of the partition. A
    ``view`` needs no code. The output of a view is the bytes of its input from ``offset`` on, with
    another shape. The inputs of a view with several inputs are written one after the other into its
    output. ``macs`` is the number of multiply-accumulates. ``dequantized`` names the inputs that
    are floats computed from quantized values. ``refusals`` explain why the earlier devices in the
    mix did not accept the region's anchor. ``memory`` is the working memory of the device.
    ``repeats`` is the number of regions with equal operators, shapes and arrays of constants.
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
    repeats: int = 1

    @property
    def joins(self) -> bool:
        """Whether the region is a view whose inputs are parts of its output."""
        return self.view and len(self.inputs) > 1

    @property
    def moves(self) -> bool:
        """Whether the region only moves a tensor and represents no operator of the model."""
        return self.anchor in (COPY, TRANSFORM) and not self.sources


def make_move_region(
    name: str, device: str, reason: str, kind: str, read: str, result: str
) -> Region:
    """Return a region that only moves a tensor and does not represent an operator of the model.

    ``kind`` is the region's anchor. ``read`` and ``result`` name tensors.
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
    """Regions in execution order over named tensors. Every tensor is written once.

    ``tensor_memories`` has the memory of each tensor that is not in RAM. The last ``states`` inputs
    are kept between runs. The last ``states`` outputs are the next values.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    regions: tuple[Region, ...]
    tensor_memories: dict[str, str] = field(default_factory=dict)
    states: int = 0

    @property
    def state_pairs(self) -> tuple[tuple[str, str], ...]:
        """The tensors of each state: the value at the beginning of a run, and the next value."""
        count = self.states
        pairs = zip(self.inputs[len(self.inputs) - count :], self.outputs[-count:], strict=True)
        return tuple(pairs) if count else ()

    @property
    def view_roots(self) -> dict[str, str]:
        """The tensor that contains each tensor's bytes: itself, or a view's source or result."""
        return {name: root for name, (root, _) in self.view_locations.items()}

    @property
    def view_locations(self) -> dict[str, tuple[str, int]]:
        """The tensor that contains the bytes of each tensor, and the byte offset in that tensor."""
        locations = {tensor.name: (tensor.name, 0) for tensor in self.tensors}
        size = {tensor.name: tensor.bytes for tensor in self.tensors}

        def find(name: str) -> tuple[str, int]:
            whole, begin = locations[name]
            while locations[whole][0] != whole:
                whole, more = locations[whole]
                begin += more
            return whole, begin

        for region in self.regions:
            if region.view:
                (shown,) = region.outputs
                begin = 0
                for name in region.inputs if region.joins else ():
                    locations[find(name)[0]] = shown, begin
                    begin += size[name]
                if not region.joins:
                    locations[shown] = region.inputs[0], region.offset
        return {name: find(name) for name in locations}

    @property
    def macs(self) -> int:
        return sum(region.macs for region in self.regions)

    @property
    def copied_bytes(self) -> int:
        """The number of bytes that an inference copies from one memory to another."""
        copies = {
            name for region in self.regions if region.anchor == COPY for name in region.outputs
        }
        return sum(tensor.bytes for tensor in self.tensors if tensor.name in copies)
