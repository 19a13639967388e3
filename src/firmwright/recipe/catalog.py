"""Checks the names in a recipe against the installed platforms, toolchains and devices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firmwright.documents.schema_check import Finding, quote
from firmwright.documents.yaml_text import Pointer
from firmwright.errors import did_you_mean
from firmwright.recipe.target import read_target
from firmwright.recipe.user_files import is_description_file
from firmwright.targets import DeviceSpec
from firmwright.targets.device_options import OptionValues, accepts, format_values
from firmwright.toolchain.descriptions import suggest_name


@dataclass(frozen=True)
class KnownDevice:
    """The options of a device. A fallback accepts every operator."""

    options: Mapping[str, OptionValues]
    is_fallback: bool


@dataclass(frozen=True)
class KnownPlatform:
    """The toolchains, emulators and aliases of a platform.

    The default is first. ``host`` is the platform that can replace this platform, or None.
    """

    toolchains: tuple[str, ...]
    emulators: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    host: str | None = None


@dataclass(frozen=True)
class Catalog:
    """The names and properties of the installed platforms, toolchains, devices and emulators.

    ``digest`` identifies the platforms if they are read only when they are used first.
    """

    platforms: Mapping[str, KnownPlatform]
    toolchains: Collection[str]
    devices: Mapping[str, KnownDevice]
    digest: str = ""
    emulators: Collection[str] = ()

    @property
    def decisive(self) -> tuple[Any, ...]:
        """All values that the check of a recipe depends on."""
        return (self.digest or self.platforms, self.toolchains, self.devices, self.emulators)

    def resolve_platform(self, name: str) -> str:
        if name in self.platforms:
            return name
        return next((n for n, p in self.platforms.items() if name in p.aliases), name)

    def find_build_platform(self, name: str, for_device: bool) -> tuple[str, KnownPlatform | None]:
        """Return the platform whose toolchains and emulators are used: the platform or its host.

        The second value is None for an unknown platform, such as a custom file.
        """
        platform = self.platforms.get(name)
        if platform and platform.host and not for_device:
            return platform.host, self.platforms.get(platform.host)
        return name, platform


FOREIGN_DEVICES = {
    "llvm": "the device c runs every operator: `target: c`, and `platform: host` for this machine",
    "cmsis-nn": "the device c has kernels for Cortex-M: `target: c`",
    "ethos-u": 'packages/ethos_u has the device: `target: "ethos_u, c"`',
}
FOREIGN_OPTIONS = {
    "mcpu": "the platform states the core, such as `platform: cortex-m4-bare`",
    "march": "the platform states the core, such as `platform: cortex-m4-bare`",
    "mtriple": "the platform states the core, such as `platform: cortex-m4-bare`",
    "mattr": "the platform states the core's features, such as `platform: cortex-m4-bare`",
}
"""The devices and options of TVM's target strings, with the counterpart in a recipe."""


def find_hint(hints: Mapping[str, str], name: str) -> str:
    return f"; {hints[name]}" if name in hints else ""


def find_name_errors(data: Mapping[str, Any], catalogue: Catalog) -> Iterator[Finding]:
    """Yield the names in ``data`` that do not exist, or that the platform does not list.

    Values of the wrong type are skipped, because the schema has reported them.
    """
    stated = data.get("platform")
    name = catalogue.resolve_platform(stated) if isinstance(stated, str) else ""
    for_device = data.get("compile_for_device") is not False
    yield from _find_platform_errors(name, for_device, catalogue.platforms)

    for key in ("target", "compare"):
        devices, mistakes = read_target(data.get(key), key)
        yield from mistakes
        yield from _find_device_errors(devices, catalogue.devices)
        if not mistakes and all(device.name in catalogue.devices for _, device in devices):
            yield from _find_order_errors(devices, catalogue.devices)

    name, platform = catalogue.find_build_platform(name, for_device)
    listed = platform.toolchains if platform else None
    toolchain = data.get("toolchain")
    if isinstance(toolchain, str) and not is_description_file(toolchain):
        known = catalogue.toolchains
        yield from _find_choice_errors(toolchain, ("toolchain",), known, name, listed)

    run = data.get("run")
    emulator = run.get("emulator") if isinstance(run, Mapping) else None
    if isinstance(emulator, str):
        known = catalogue.emulators
        listed = platform.emulators if platform else None
        yield from _find_choice_errors(emulator, ("run", "emulator"), known, name, listed)


def _find_platform_errors(
    name: str, for_device: bool, platforms: Mapping[str, KnownPlatform]
) -> Iterator[Finding]:
    if name and not is_description_file(name) and name not in platforms:
        aliases = [alias for entry in platforms.values() for alias in entry.aliases]
        hint = suggest_name(name, [*platforms, *aliases])
        yield Finding(("platform",), f"unknown platform {quote(name)}{hint}")
    elif not for_device and name in platforms and platforms[name].host is None:
        having = ", ".join(sorted(n for n, entry in platforms.items() if entry.host))
        message = f"the platform {quote(name)} has no key `host`"
        yield Finding(("compile_for_device",), f"{message}; platforms with this key: {having}")


def _find_device_errors(
    devices: Sequence[tuple[Pointer, DeviceSpec]], known: Mapping[str, KnownDevice]
) -> Iterator[Finding]:
    for pointer, device in devices:
        if device.name not in known:
            hint = find_hint(FOREIGN_DEVICES, device.name) or did_you_mean(device.name, known)
            yield Finding(pointer, f"unknown device {quote(device.name)}{hint}")
            continue
        options = known[device.name].options
        for option, value in device.options.items():
            if option not in options:
                hint = find_hint(FOREIGN_OPTIONS, option)
                hint = hint or did_you_mean(option, options) or "; it takes none"
                message = f"the device {quote(device.name)} has no option {quote(option)}{hint}"
                yield Finding(pointer, message)
            elif not accepts(options[option], value):
                values = format_values(options[option])
                message = f"the option {quote(option)} of {quote(device.name)} must be {values}"
                yield Finding(pointer, f"{message}, not {quote(value)}")


def _find_order_errors(
    devices: Sequence[tuple[Pointer, DeviceSpec]], known: Mapping[str, KnownDevice]
) -> Iterator[Finding]:
    """Yield the devices in a wrong position: only the last device must run every operator."""
    for position, (pointer, device) in enumerate(devices, 1):
        last, fallback = position == len(devices), known[device.name].is_fallback
        if last and not fallback:
            fallbacks = [name for name, entry in sorted(known.items()) if entry.is_fallback]
            yield Finding(
                pointer,
                f"the device {quote(device.name)} does not run every operator; end the mix with "
                f"one of these devices: {', '.join(fallbacks)}",
            )
        if fallback and not last:
            message = f"the device {quote(device.name)} runs every operator; move it to the end"
            yield Finding(pointer, message)


def _find_choice_errors(
    name: str,
    pointer: Pointer,
    known: Collection[str],
    platform: str,
    listed: tuple[str, ...] | None,
) -> Iterator[Finding]:
    kind = pointer[-1]
    if name not in known and name not in (listed or ()):
        suggest = suggest_name if kind == "toolchain" else did_you_mean
        yield Finding(pointer, f"unknown {kind} {quote(name)}{suggest(name, known)}")
    elif listed is not None and name not in listed:
        message = f"the platform {quote(platform)} does not list the {kind} {quote(name)}"
        yield Finding(pointer, f"{message}; it lists: {', '.join(listed) or 'none'}")
