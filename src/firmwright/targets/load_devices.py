"""Loads devices: plug-ins of the entry-point group ``firmwright.targets``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoints
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from firmwright.plugins import find_plugins, load_plugin
from firmwright.targets import Context, Device, DeviceSpec, Target

if TYPE_CHECKING:
    from firmwright.toolchain import Platform

ENTRY_POINT_GROUP = "firmwright.targets"


def load_mix(
    specs: Sequence[DeviceSpec],
    platform: Platform,
    rounding: str,
    fuse_layers: bool = True,
    custom: Mapping[str, Target] = MappingProxyType({}),
    batch: int = 1,
) -> tuple[Device, ...]:
    """Import the devices of a target string, in its order. ``custom`` are the recipe's devices."""

    def device(spec: DeviceSpec, rest: Device | None) -> Device:
        context = Context(platform, rounding, spec.options, fuse_layers, rest, batch)
        return Device(custom.get(spec.name) or load_target(spec.name), context)

    *offered, last = specs
    rest = device(last, None)
    return (*(device(spec, rest) for spec in offered), rest)


def target_names() -> tuple[str, ...]:
    return tuple(sorted(find_targets().names))


def load_target(name: str) -> Target:
    """Import an installed device. The results of devices of other packages are checked.

    Raises UserError if the package of the device is incomplete.
    """
    (point,) = find_targets().select(name=name)
    target = cast(Target, load_plugin(point))
    if type(target).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return target
    from firmwright.targets.custom import guard_installed

    assert point.dist is not None
    return cast(Target, guard_installed(target, point.dist.name))


def find_targets() -> EntryPoints:
    return find_plugins(ENTRY_POINT_GROUP)
