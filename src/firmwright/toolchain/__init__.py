"""Platforms and toolchains: what firmware runs on, and what compiles and links it.

Both are described by YAML files in ``toolchains/``; a new one is a new file.
Images of the linked firmware are the business of :mod:`firmwright.toolchain.image`.
"""

from __future__ import annotations

from firmwright.toolchain.build import Build, compile_object, host_build, link_firmware
from firmwright.toolchain.compilers import Compiler, compiler_folder, find_compiler
from firmwright.toolchain.makefile import makefile_variables
from firmwright.toolchain.module import compile_module, link_module, module_build
from firmwright.toolchain.platforms import (
    Memory,
    Platform,
    Qemu,
    load_platform,
    on_host,
    platform_names,
)
from firmwright.toolchain.toolchains import (
    ArchitectureSettings,
    Toolchain,
    load_toolchain,
    toolchain_names,
)

__all__ = [
    "ArchitectureSettings",
    "Build",
    "Compiler",
    "Memory",
    "Platform",
    "Qemu",
    "Toolchain",
    "compile_module",
    "compile_object",
    "compiler_folder",
    "find_compiler",
    "host_build",
    "link_firmware",
    "link_module",
    "load_platform",
    "load_toolchain",
    "makefile_variables",
    "module_build",
    "on_host",
    "platform_names",
    "toolchain_names",
]
