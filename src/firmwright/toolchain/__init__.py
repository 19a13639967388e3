"""Loads the platforms that run a firmware and the toolchains that compile and link the firmware.

YAML files in ``toolchains/`` describe platforms and toolchains, and each new description is a new
file. :mod:`firmwright.toolchain.flash_images` writes the images of the linked firmware.
"""

from __future__ import annotations

from firmwright.toolchain.build import (
    Build,
    compile_object,
    compile_project,
    link_firmware,
    make_host_build,
)
from firmwright.toolchain.compilers import (
    Compiler,
    compiler_folder,
    explain_missing_compiler,
    find_compiler,
)
from firmwright.toolchain.makefile import makefile_variables
from firmwright.toolchain.platforms import (
    Memory,
    Platform,
    Qemu,
    load_platform,
    platform_names,
    to_host_platform,
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
    "compile_object",
    "compile_project",
    "compiler_folder",
    "explain_missing_compiler",
    "find_compiler",
    "link_firmware",
    "load_platform",
    "load_toolchain",
    "make_host_build",
    "makefile_variables",
    "platform_names",
    "to_host_platform",
    "toolchain_names",
]
