"""How to call a compiler: the command, its flags by architecture, and how it links."""

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

    ``compile`` are the words behind the command that choose the C compiler. Without a C library
    (``libc``) the headers and functions in the project's ``freestanding/`` step in. Without a
    ``linker`` the compiler's driver links. ``runtime`` is the command, behind the compiler's own,
    that builds ``compiler_rt.o``, and ``runtime_flags`` choose the processor there; empty where
    the linker finds its own. ``files`` are those of the toolchain's folder that only this
    architecture needs, and ``since`` the first version that knows it; empty for all.
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
    """One compiler, as its YAML file describes it.

    The program is found on PATH, or in the folder of a ``python_module``, or where there is a
    ``variable`` of the environment, in the folder that it names; ``files`` lie there too, and so
    does the first word of ``strip``, which strips a module. ``output`` are the words behind the
    flags that name the object. In the words of the commands, ``{folder}`` stands for the
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
        """Return whether it builds for this architecture."""
        return architecture in self.architectures

    @property
    def reports_files(self) -> bool:
        """Whether the compiler has gcc's options, among them those that list the files it opens."""
        return self.output[:1] == ("-c",)

    def uses_script(self, architecture: str) -> bool:
        """Return whether it links by the board's linker script."""
        return any("{script}" in flag for flag in self.settings_for(architecture).link_flags)

    def settings_for(self, architecture: str) -> ArchitectureSettings:
        """Return what applies to this architecture; ``native`` is the machine we run on.

        Raises UserError when the toolchain does not know the architecture.
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
            f"it has them for: {known}"
        )


def toolchain_names() -> tuple[str, ...]:
    """Return the names of the toolchains that come with firmwright, sorted."""
    return TOOLCHAINS.names()


@keep_ready
def load_toolchain(name_or_path: str, relative_to: Path | None = None) -> Toolchain:
    """Return the toolchain of this name, or of a custom YAML file.

    Does not look for the compiler. Raises UserError for an unknown name, and for flags that claim
    the hard-float ABI for a CPU without floating-point unit; DiagnosticError, with file, line and
    column, for a file with errors.
    """
    data = TOOLCHAINS.load(name_or_path, relative_to)
    toolchain = msgspec.convert({**data, **data["command"]}, Toolchain)
    for name, settings in toolchain.architectures.items():
        for flags in (settings.flags, settings.runtime_flags):
            check_hard_float_flags(flags, f"toolchain '{toolchain.name}', {name}")
    return toolchain
