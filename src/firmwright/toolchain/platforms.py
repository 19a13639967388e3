"""Loads platforms, which have a processor, memories, a board and emulators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from firmwright.documents.quantities import parse_frequency, read_sizes
from firmwright.errors import UserError
from firmwright.toolchain.cycle_tables import (
    CycleBound,
    CycleTable,
    load_cycle_bounds,
    load_cycle_table,
)
from firmwright.toolchain.descriptions import DescriptionKind, keep_ready, resolve_description
from firmwright.toolchain.platform_checks import find_platform_errors

PLATFORMS = DescriptionKind(
    "platform",
    "platforms",
    "platform.schema.json",
    check=find_platform_errors,
    group="firmwright.platforms",
)


@dataclass(frozen=True)
class Memory:
    """One memory of the address map, its origin (address), and its size in bytes.

    ``cost`` is the cost of reading or writing a byte, relative to the platform's other memories.
    The cost is None if planning does not use the memory by default. A flash is always
    ``read_only``, even if the file does not state the key.
    """

    origin: int
    size: int
    cost: float | None = None
    read_only: bool = False
    wait_states: int = 0
    """The number of cycles in which the processor waits for an access."""
    fetch_bytes: int = 16
    """The number of bytes that an access with wait states provides."""
    data_origin: int | None = None
    """The address at which loads read a memory whose instructions are at ``origin``."""


@dataclass(frozen=True)
class Qemu:
    """The QEMU program and the arguments of this platform's machine."""

    program: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Throughput:
    """The speed of a device.

    ``macs_per_cycle`` and ``macs_per_cycle_16_bit`` are the multiply-accumulates of 8 and of 16
    bits that the device achieves in a cycle of ``clock_mhz``. ``bytes_per_cycle`` is the number of
    bytes that the device reads and writes in a cycle.
    """

    clock_mhz: float
    macs_per_cycle: float
    macs_per_cycle_16_bit: float
    bytes_per_cycle: float


@dataclass(frozen=True)
class Timing:
    """The engine of each device, and the microseconds of a call from one core to another core.

    ``unverified`` names the numbers that are assumed, not measured.
    """

    call_us: int | float  # reports print whole numbers like the file
    engines: Mapping[str, Throughput]
    unverified: tuple[str, ...]

    def find_throughput(self, device: str) -> Throughput:
        """Return the speed of a device.

        Raises UserError if the platform does not state the speed.
        """
        if device not in self.engines:
            raise UserError(
                f"timing: the platform states no engine for '{device}'; add it to its `timing`"
            )
        return self.engines[device]


@dataclass(frozen=True)
class Platform:
    """One platform from a YAML file, whose sizes are in bytes.

    ``memories`` is empty and ``stack`` is 0 if the operating system provides both. Without a memory
    ``flash``, code and constants are in RAM, and ``code`` is the RAM that planning reserves for
    code. ``accelerators`` maps devices to their properties from ``platform.schema.json``. The first
    toolchain and the first emulator are the default. ``board`` and ``toolchains`` are built-in
    names or paths of custom files.
    """

    name: str
    description: str
    architecture: str
    board: str
    toolchains: tuple[str, ...]
    emulators: tuple[str, ...]
    memories: Mapping[str, Memory] = field(default_factory=dict)
    stack: int = 0
    code: int = 0
    accelerators: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    qemu: Qemu | None = None
    aliases: tuple[str, ...] = ()
    modules: Mapping[str, str] = field(default_factory=dict)
    """A mapping from devices to the toolchains of the images that the devices' cores load."""
    host: str | None = None
    """The platform that replaces this platform if a recipe states ``compile_for_device: false``."""
    timing: Timing | None = None
    features: tuple[str, ...] = ()
    """The processor features for which the device ``c`` has special forms."""
    clock: int | None = None
    """The clock frequency of the processor in Hz, which a recipe may replace."""
    energy: float | None = None
    """The energy per clock cycle of the processor in pJ."""
    uf2_family: int | None = None
    """The chip's family in UF2 files if the chip's boot loader stores such files."""
    cycles: str | None = None
    """The table of the core's cycles per instruction: a built-in name, or the path of a file."""
    cycle_table: CycleTable | None = None
    """The content of the table."""
    cycle_bound: CycleBound | None = None
    """The minimum of the core's cycles if there is no table."""

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """A mapping from the platform's fields to their values as plain data.

        Callers must not change the mapping.
        """
        return asdict(self)

    @property
    def is_bare_metal(self) -> bool:
        """Return whether the firmware is flashed and not loaded by an operating system."""
        return bool(self.memories)

    @property
    def all_in_ram(self) -> bool:
        return "ram" in self.memories and "flash" not in self.memories

    @property
    def device_storage(self) -> dict[str, str]:
        """The constants' memory of each device that can read a ``read_only`` memory."""
        stored = {name for name, memory in self.memories.items() if memory.read_only}
        reached = {d: numbers.get("memories", ()) for d, numbers in self.accelerators.items()}
        candidates = {d: [name for name in names if name in stored] for d, names in reached.items()}
        return {device: names[0] for device, names in candidates.items() if names}

    @property
    def constants_memory(self) -> str:
        """The default memory of constants, and of the initial values of variables."""
        return "ram" if self.all_in_ram else "flash"


def platform_names() -> tuple[str, ...]:
    """Return the names of the platforms of firmwright and of installed packages, sorted."""
    return tuple(sorted({*PLATFORMS.names(), *PLATFORMS.installed_folders()}))


@keep_ready
def load_platform(name_or_path: str, relative_to: Path | None = None) -> Platform:
    """Return the platform of this name, or of a custom YAML file.

    A path is relative to ``relative_to``. Raises UserError if the name is unknown. Raises
    DiagnosticError, which states file, line and column, if the file has errors.
    """
    data = read_sizes(PLATFORMS.load(name_or_path, relative_to))
    folder = PLATFORMS.find_file(name_or_path, relative_to).parent
    data["board"] = resolve_description(data["board"], folder)
    if flash := data.get("memories", {}).get("flash"):
        flash["read_only"] = True
    data["toolchains"] = [resolve_description(name, folder) for name in data["toolchains"]]
    if "clock" in data:
        data["clock"] = parse_frequency(data["clock"])
    table = None
    if "cycles" in data:
        data["cycles"] = resolve_description(data["cycles"], folder)
        table = load_cycle_table(data["cycles"])
    modules = data.get("modules", {}).items()
    data["modules"] = {device: resolve_description(name, folder) for device, name in modules}
    numbers = data.get("accelerators", {})
    accelerators = {device: _find_numbers(device, entry) for device, entry in numbers.items()}
    platform = msgspec.convert({**data, "accelerators": accelerators}, Platform)
    bound = None if table else load_cycle_bounds().get(platform.architecture)
    return replace(platform, cycle_table=table, cycle_bound=bound)


def to_host_platform(platform: Platform) -> Platform:
    """Return a platform with the processor of the ``host`` and this platform's accelerators.

    Raises UserError if the platform has no host.
    """
    if platform.host is None:
        raise UserError(
            f"compile_for_device: the platform '{platform.name}' has no key `host:`; add it to "
            "the platform, or remove `compile_for_device`"
        )
    host = load_platform(platform.host)
    return replace(
        host,
        name=f"{platform.name}-{host.name}",
        description=f"{platform.description} Replaced by: {host.description}",
        accelerators=platform.accelerators,
        timing=platform.timing,
    )


def _find_numbers(device: str, entry: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an accelerator's properties, which may be in another platform."""
    if not isinstance(entry, str):
        return entry
    other = load_platform(entry)
    if device not in other.accelerators:
        raise UserError(
            f"accelerators: platform '{entry}' has no {device}; name a platform that has one"
        )
    return other.accelerators[device]
