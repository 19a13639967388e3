"""The names that a recipe may use, and the checks against them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firmwright.documents.schema_check import Finding, quote
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import did_you_mean
from firmwright.recipe.files import is_platform_file
from firmwright.recipe.target import read_target
from firmwright.targets import DeviceSpec
from firmwright.targets.device_options import OptionValues, accepts, format_values


@dataclass(frozen=True)
class KnownDevice:
    """A device's options; a ``general`` one takes whatever operator it is given."""

    options: Mapping[str, OptionValues]
    is_fallback: bool


@dataclass(frozen=True)
class Catalog:
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

    def resolve_platform(self, name: str) -> str:
        """Return the platform's own name for an alias of it; any other is itself."""
        return self.platform_aliases.get(name, name)

    def find_build_platform(self, platform: str, for_device: bool) -> str:
        """Return the platform whose toolchains and emulators serve: itself or its host."""
        return platform if for_device else self.platform_hosts.get(platform, platform)

    def to_data(self) -> list[Any]:
        """Return everything that may change what a recipe means, as plain data."""
        return [
            sorted(self.platforms),
            sorted(self.toolchains),
            sorted((n, options_to_data(d.options), d.is_fallback) for n, d in self.devices.items()),
            sorted((name, list(values)) for name, values in self.platform_toolchains.items()),
            sorted((name, list(values)) for name, values in self.platform_emulators.items()),
            sorted(self.platform_aliases.items()),
            sorted(self.platform_hosts.items()),
        ]


def options_to_data(options: Mapping[str, OptionValues]) -> list[list[str]]:
    return sorted([name, format_values(values)] for name, values in options.items())


def find_name_errors(data: Mapping[str, Any], catalogue: Catalog) -> Iterator[Finding]:
    """Yield the names in ``data`` that do not exist, or that the platform does not list.

    What is of the wrong type is passed over: the schema has reported it.
    """
    platform = data.get("platform")
    platform = catalogue.resolve_platform(platform) if isinstance(platform, str) else ""
    if platform and not is_platform_file(platform) and platform not in catalogue.platforms:
        hint = did_you_mean(platform, [*catalogue.platforms, *catalogue.platform_aliases])
        yield Finding(("platform",), f"unknown platform {quote(platform)}{hint}")
    elif data.get("compile_for_device") is False:
        if platform in catalogue.platforms and platform not in catalogue.platform_hosts:
            having = ", ".join(sorted(catalogue.platform_hosts))
            message = f"the platform {quote(platform)} has no host to be built for instead"
            yield Finding(("compile_for_device",), f"{message}; platforms that have one: {having}")
        platform = catalogue.find_build_platform(platform, False)

    for key in ("target", "compare"):
        devices, mistakes = read_target(data.get(key), key)
        yield from mistakes
        yield from _find_device_errors(devices, catalogue.devices)
        if not mistakes and all(device.name in catalogue.devices for _, device in devices):
            yield from _find_order_errors(devices, catalogue.devices)

    listed = catalogue.platform_toolchains.get(platform)
    yield from _find_choice_errors(
        data.get("toolchain"), ("toolchain",), catalogue.toolchains, platform, listed
    )

    run = data.get("run")
    emulator = run.get("emulator") if isinstance(run, Mapping) else None
    known = {name for names in catalogue.platform_emulators.values() for name in names}
    listed = catalogue.platform_emulators.get(platform)
    yield from _find_choice_errors(emulator, ("run", "emulator"), known, platform, listed)


def _find_device_errors(
    devices: Sequence[tuple[Pointer, DeviceSpec]], known: Mapping[str, KnownDevice]
) -> Iterator[Finding]:
    for pointer, device in devices:
        if device.name not in known:
            hint = did_you_mean(device.name, known)
            yield Finding(pointer, f"unknown device {quote(device.name)}{hint}")
            continue
        options = known[device.name].options
        for option, value in device.options.items():
            if option not in options:
                hint = did_you_mean(option, options) or "; it takes none"
                message = f"the device {quote(device.name)} has no option {quote(option)}{hint}"
                yield Finding(pointer, message)
            elif not accepts(options[option], value):
                values = format_values(options[option])
                message = f"the option {quote(option)} of {quote(device.name)} is {values}"
                yield Finding(pointer, f"{message}, not {quote(value)}")


def _find_order_errors(
    devices: Sequence[tuple[Pointer, DeviceSpec]], known: Mapping[str, KnownDevice]
) -> Iterator[Finding]:
    """A mix ends with a device that takes what is left, so that nothing is left behind it."""
    for place, (pointer, device) in enumerate(devices, 1):
        last, general = place == len(devices), known[device.name].is_fallback
        if last and not general:
            general_ones = [name for name, entry in sorted(known.items()) if entry.is_fallback]
            yield Finding(
                pointer,
                f"the device {quote(device.name)} does not run every operator; end the mix with "
                f"one that does: {', '.join(general_ones)}",
            )
        if general and not last:
            message = f"the device {quote(device.name)} takes every operator, so it goes last"
            yield Finding(pointer, message)


def _find_choice_errors(
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
        yield Finding(pointer, f"unknown {kind} {quote(name)}{did_you_mean(name, known)}")
    elif listed is not None and name not in listed:
        message = f"the platform {quote(platform)} does not list the {kind} {quote(name)}"
        yield Finding(pointer, f"{message}; it lists: {', '.join(listed)}")
