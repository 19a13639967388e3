"""The partition stage's result (file ``partition/partition.json``)."""

from __future__ import annotations

from dataclasses import dataclass

from firmwright.models.interface import Tensor


@dataclass(frozen=True)
class Refusal:
    """Why a device of the mix did not take an operator: its rule, and what breaks it."""

    device: str
    rule: str
    sentence: str


@dataclass(frozen=True)
class Region:
    """A group of operators that runs as one function on one device.

    ``name`` is a C identifier and the name of its Relax function in ``partition/module.json``.
    ``inputs`` and ``outputs`` name tensors of the partition. A ``view`` only gives its input's
    bytes another shape and needs no code. ``macs`` counts multiply-accumulates. ``dequantized``
    names those inputs that carry in float what was computed from quantised values. ``refusals``
    are those that the region's anchor met with devices earlier in the mix.
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
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class Partition:
    """Regions in execution order over named tensors; every tensor is written once."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    regions: tuple[Region, ...]

    @property
    def macs(self) -> int:
        return sum(region.macs for region in self.regions)
