"""Defines the device ``ethos_u``: Arm's Ethos-U with Vela as its compiler.

Every build reads this file, so it imports neither TVM nor numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from firmwright.device import Target
from firmwright_ethos_u.hardware import HARDWARE, MEMORY_MODES

if TYPE_CHECKING:
    import tvm

    from firmwright.device import Context, LoweredRegion, Placement, Region


class EthosU(Target):
    """The accelerator; chains of int8 convolutions run on it."""

    name = "ethos_u"
    reason = "Vela compiles the chain of convolutions that it is part of"
    packages = ("ethos-u-vela",)

    @property
    def options(self) -> Mapping[str, tuple[str, ...]]:
        """Return the accelerators and memory modes."""
        return {"accelerator": tuple(HARDWARE), "memory": tuple(MEMORY_MODES)}

    def place(self, module: tvm.IRModule, context: Context, /) -> Placement:
        """Return the chains of convolutions that break no rule."""
        from firmwright_ethos_u.placement import place_convolutions

        return place_convolutions(module, context)

    def lower(self, region: Region, module: tvm.IRModule, context: Context, /) -> LoweredRegion:
        """Compile a region with Vela."""
        from firmwright_ethos_u.regions import lower_region

        return lower_region(region, module, context)


ETHOS_U = EthosU()
