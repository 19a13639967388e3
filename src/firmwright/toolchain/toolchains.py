"""Loads toolchains, which have a compile command, flags per architecture, and a link command."""

from __future__ import annotations

import platform as machine
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from firmwright.errors import UserError
from firmwright.toolchain.descriptions import DescriptionKind, keep_ready
from firmwright.toolchain.float_abi import check_hard_float_flags

TOOLCHAINS = DescriptionKind("toolchain", "", "toolchain.schema.json")


@dataclass(frozen=True)
class ArchitectureSettings:
    """The settings of a toolchain for one architecture.

    ``compile`` are the arguments after the command that select the C compiler. Without a C library
    (``libc``), the headers and functions in the project's ``freestanding/`` replace the library.
    Without a ``linker``, the compiler's driver links. ``runtime`` are the arguments after the
    compiler's command that build ``compiler_rt.o``, and ``runtime_flags`` select the processor.
    ``runtime`` and ``runtime_flags`` are empty if the linker finds a run-time library. ``files``
    are files of the toolchain's folder that only this architecture needs. ``since`` is the first
    version that supports the architecture, or empty if all versions support it.
    """

    compile: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    libc: bool = True
    linker: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
    runtime_flags: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    since: str = ""


@dataclass(frozen=True)
class Toolchain:
    """One compiler from a YAML file.

    The program is on PATH, or in the folder of a ``python_module``. If the toolchain has an
    environment ``variable``, the program is in the folder that the variable names. This folder also
    contains ``files`` and the program of ``strip``, the command that strips a module. ``output``
    are the arguments after the flags that name the object. In the commands, ``{folder}`` is the
    installation's folder.
    """

    name: str
    description: str
    packages: Mapping[str, tuple[str, ...]]
    versions: Mapping[str, tuple[str, ...]]
    program: str
    python_module: str = ""
    variable: str = ""
    files: tuple[str, ...] = ()
    output: tuple[str, ...] = ("-c", "-o", "{output}")
    strip: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    architectures: Mapping[str, ArchitectureSettings] = field(default_factory=dict)

    def knows(self, architecture: str) -> bool:
        return architecture in self.architectures

    @property
    def reports_files(self) -> bool:
        """Return whether the compiler has gcc's options, which can list opened files."""
        return self.output[:1] == ("-c",)

    def uses_script(self, architecture: str) -> bool:
        return any("{script}" in flag for flag in self.settings_for(architecture).link_flags)

    def settings_for(self, architecture: str) -> ArchitectureSettings:
        """Return the settings for an architecture.

        The architecture ``native`` is the machine that runs firmwright. Raises UserError if the
        toolchain does not support the architecture.
        """
        names = [architecture]
        if architecture == "native":
            names.insert(0, f"native-{sys.platform}-{machine.machine()}")
        for name in names:
            if name in self.architectures:
                return self.architectures[name]
        known = ", ".join(sorted(self.architectures))
        raise UserError(
            f"toolchain '{self.name}' has no settings for architecture '{architecture}'; "
            f"choose another toolchain, or one of: {known}"
        )


def toolchain_names() -> tuple[str, ...]:
    return TOOLCHAINS.names()


@keep_ready
def load_toolchain(name_or_path: str, relative_to: Path | None = None) -> Toolchain:
    """Return the toolchain of this name, or of a custom YAML file.

    The function does not search for the compiler. Raises UserError if the name is unknown, or if
    the flags request the hard-float ABI for a CPU without a floating-point unit. Raises
    DiagnosticError, which states file, line and column, if the file has errors.
    """
    data = TOOLCHAINS.load(name_or_path, relative_to)
    toolchain = msgspec.convert({**data, **data["command"]}, Toolchain)
    for name, settings in toolchain.architectures.items():
        for flags in (settings.flags, settings.runtime_flags):
            check_hard_float_flags(flags, f"toolchain '{toolchain.name}', {name}")
    return toolchain
