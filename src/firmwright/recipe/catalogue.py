"""The names that a recipe may use, and the checks against them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firmwright.documents.schema_check import Finding, quoted
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import did_you_mean
from firmwright.recipe.recipe import is_platform_file
from firmwright.recipe.target import read_target
from firmwright.targets import DeviceSpec
from firmwright.targets.device_options import Values, shown, takes


@dataclass(frozen=True)
class KnownDevice:
    """A device's options; a ``general`` one takes whatever operator it is given."""

    options: Mapping[str, Values]
    general: bool


@dataclass(frozen=True)
class Catalogue:
    """What is installed, by name; by platform, the toolchains and emulators, default first.

    ``platform_aliases`` has by other names of platforms their own, ``platform_hosts`` by platform
    the one that stands in for it.
    """

    platforms: Collection[str]
    toolchains: Collection[str]
    devices: Mapping[str, KnownDevice]
    platform_toolchains: Mapping[str, tuple[str, ...]]
    platform_emulators: Mapping[str, tuple[str, ...]]
    platform_aliases: Mapping[str, str] = field(default_factory=dict)
    platform_hosts: Mapping[str, str] = field(default_factory=dict)

    def platform_name(self, name: str) -> str:
        """Return the platform's own name for an alias of it; any other is itself."""
        return self.platform_aliases.get(name, name)

    def built_platform(self, platform: str, for_device: bool) -> str:
        """Return the platform whose toolchains and emulators serve: itself or its host."""
        return platform if for_device else self.platform_hosts.get(platform, platform)

    def as_data(self) -> list[Any]:
        """Return everything that may change what a recipe means, as plain data."""
        return [
            sorted(self.platforms),
            sorted(self.toolchains),
            sorted((n, options_data(d.options), d.general) for n, d in self.devices.items()),
            sorted((name, list(values)) for name, values in self.platform_toolchains.items()),
            sorted((name, list(values)) for name, values in self.platform_emulators.items()),
            sorted(self.platform_aliases.items()),
            sorted(self.platform_hosts.items()),
        ]


def options_data(options: Mapping[str, Values]) -> list[list[str]]:
    return sorted([name, shown(values)] for name, values in options.items())


def name_findings(data: Mapping[str, Any], catalogue: Catalogue) -> Iterator[Finding]:
    """Yield the names in ``data`` that do not exist, or that the platform does not list.

    What is of the wrong type is passed over: the schema has reported it.
    """
    platform = data.get("platform")
    platform = catalogue.platform_name(platform) if isinstance(platform, str) else ""
    if platform and not is_platform_file(platform) and platform not in catalogue.platforms:
        hint = did_you_mean(platform, [*catalogue.platforms, *catalogue.platform_aliases])
        yield Finding(("platform",), f"unknown platform {quoted(platform)}{hint}")
    elif data.get("compile_for_device") is False:
        if platform in catalogue.platforms and platform not in catalogue.platform_hosts:
            having = ", ".join(sorted(catalogue.platform_hosts))
            message = f"the platform {quoted(platform)} has no host to be built for instead"
            yield Finding(("compile_for_device",), f"{message}; platforms that have one: {having}")
        platform = catalogue.built_platform(platform, False)

    for key in ("target", "compare"):
        devices, mistakes = read_target(data.get(key), key)
        yield from mistakes
        yield from _device_findings(devices, catalogue.devices)
        if not mistakes and all(device.name in catalogue.devices for _, device in devices):
            yield from _order_findings(devices, catalogue.devices)

    listed = catalogue.platform_toolchains.get(platform)
    yield from _choice(
        data.get("toolchain"), ("toolchain",), catalogue.toolchains, platform, listed
    )

    run = data.get("run")
    emulator = run.get("emulator") if isinstance(run, Mapping) else None
    known = {name for names in catalogue.platform_emulators.values() for name in names}
    listed = catalogue.platform_emulators.get(platform)
    yield from _choice(emulator, ("run", "emulator"), known, platform, listed)


def _device_findings(
    devices: Sequence[tuple[Pointer, DeviceSpec]], known: Mapping[str, KnownDevice]
) -> Iterator[Finding]:
    for pointer, device in devices:
        if device.name not in known:
            hint = did_you_mean(device.name, known)
            yield Finding(pointer, f"unknown device {quoted(device.name)}{hint}")
            continue
        options = known[device.name].options
        for option, value in device.options:
            if option not in options:
                hint = did_you_mean(option, options) or "; it takes none"
                message = f"the device {quoted(device.name)} has no option {quoted(option)}{hint}"
                yield Finding(pointer, message)
            elif not takes(options[option], value):
                values = shown(options[option])
                message = f"the option {quoted(option)} of {quoted(device.name)} is {values}"
                yield Finding(pointer, f"{message}, not {quoted(value)}")


def _order_findings(
    devices: Sequence[tuple[Pointer, DeviceSpec]], known: Mapping[str, KnownDevice]
) -> Iterator[Finding]:
    """A mix ends with a device that takes what is left, so that nothing is left behind it."""
    for place, (pointer, device) in enumerate(devices, 1):
        last, general = place == len(devices), known[device.name].general
        if last and not general:
            general_ones = [name for name, entry in sorted(known.items()) if entry.general]
            yield Finding(
                pointer,
                f"the device {quoted(device.name)} does not run every operator; end the mix with "
                f"one that does: {', '.join(general_ones)}",
            )
        if general and not last:
            message = f"the device {quoted(device.name)} takes every operator, so it goes last"
            yield Finding(pointer, message)


def _choice(
    name: Any,
    pointer: Pointer,
    known: Collection[str],
    platform: str,
    listed: tuple[str, ...] | None,
) -> Iterator[Finding]:
    kind = pointer[-1]
    if not isinstance(name, str):
        return
    if name not in known and name not in (listed or ()):
        yield Finding(pointer, f"unknown {kind} {quoted(name)}{did_you_mean(name, known)}")
    elif listed is not None and name not in listed:
        message = f"the platform {quoted(platform)} does not list the {kind} {quoted(name)}"
        yield Finding(pointer, f"{message}; it lists: {', '.join(listed)}")
