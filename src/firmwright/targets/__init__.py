"""Devices as plug-ins, found by the entry-point group ``firmwright.targets``."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    import tvm

    from firmwright.codegen.kernel import LoweredRegion
    from firmwright.partition.regions import Region

GROUP = "firmwright.targets"


class Target(Protocol):
    """What a device's package offers. Importing it may import tvm; listing names does not."""

    name: str
    reason: str
    """Why an operator may be placed here, as the explain table says it."""
    options: frozenset[str]
    """Names of the options that the target string may give this device."""

    def lower(self, region: Region, module: tvm.IRModule, rounding: str) -> LoweredRegion:
        """Turn a region into C and the constants that it reads.

        ``module`` holds the region's function, and the TIR functions that it may call;
        ``rounding`` names the rules by which real values become integers: "tflite" or "onnx".
        """


def target_names() -> tuple[str, ...]:
    """Return the names of the installed devices, sorted."""
    return tuple(sorted({p.name for p in entry_points(group=GROUP)}))


def load_target(name: str) -> Target:
    """Import the device of that name."""
    (point,) = entry_points(group=GROUP, name=name)
    return cast(Target, point.load())
