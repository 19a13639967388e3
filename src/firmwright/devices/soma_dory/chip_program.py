"""Builds the C project for DIANA's chip as a program of this machine, on a model of the registers.

The build compiles all files of the project, but the program reads its samples from the console of
an ordinary program. If ``DORY_HAL`` names a folder, the build compiles DORY's driver from this
folder. Otherwise, the build compiles a stand-in that follows diana-driver.md. If ``PULP_SDK_HOME``
names the SDK, the headers of the registers are from the SDK.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from firmwright.codegen.templates import find_templates, make_environment, render
from firmwright.errors import UserError
from firmwright.toolchain import Build, compile_project, find_compiler, link_firmware
from firmwright.toolchain.compilers import Compiler
from firmwright.toolchain.project_folders import FOLDERS, list_sources

DRIVER, SDK = "DORY_HAL", "PULP_SDK_HOME"
"""Environment variables that name the user's sources."""

FOLDER = "soma_dory/chip_check"
CONSOLE = "boards/posix/fw_hal.c.j2"
BOARD_SUPPORT = "fw_hal.c"

DRIVER_SOURCES = (
    "dory.c",
    "digital_conv_2d.c",
    "digital_depthwise_conv_2d.c",
    "digital_element_wise_sum.c",
    "digital_fully_connected.c",
    "encoders_instruction_memory.c",
    "utils.c",
)
"""The files of ``DORY_HAL`` that the digital core needs."""

FLAGS = ("-std=gnu99", "-fno-pie")
"""Flags of the project and the model. The driver assumes that addresses of L2 have 32 bits."""
DRIVER_FLAGS = ("-w", "-Wno-int-conversion", "-Wno-implicit-function-declaration")
"""Flags of the user's driver, which passes pointers as integers."""


def build_program(source: Path, build: Build, scratch: Path, cache: Path) -> tuple[Path, Compiler]:
    """Compile and link a project with the driver and the model, and return the program.

    ``build`` is for a host with the chip's accelerator. Raises UserError if a file of the user's
    driver is missing. Raises ToolError if a compiler rejects a file.
    """
    project = scratch / "project"
    shutil.copytree(source, project)
    write_templates(FOLDER, scratch, {"platform": build.platform})
    (scratch / "console.c").write_text(render(make_environment(), CONSOLE, {}), encoding="utf-8")
    driver = copy_driver(scratch)
    compiler = find_compiler(build.toolchain, build.platform.architecture)
    strict = replace(build, cflags=FLAGS, include=list_headers())
    theirs = replace(
        strict, cflags=(*strict.cflags, *(DRIVER_FLAGS if DRIVER in os.environ else ()))
    )

    def compile_files(build: Build, files: list[Path]) -> list[Path]:
        sources = [file.relative_to(scratch).as_posix() for file in files]
        return compile_project(build, compiler, scratch, scratch / "objects", cache, sources)

    sources = [project / name for name in list_sources(project)]
    objects = compile_files(strict, [*sources, scratch / "console.c", *list_c(scratch / "model")])
    objects += compile_files(theirs, driver)
    # The chip's board support is compiled but not linked, because its console cannot read samples.
    linked = [o for o in objects if o.stem != Path(BOARD_SUPPORT).stem]
    program = scratch / "chip.elf"
    link = replace(build, cflags=("-no-pie",), include=())
    link_firmware(link, compiler, scratch, linked, program, cache)
    return program, compiler


def list_headers() -> tuple[str, ...]:
    """Return the header folders of the project, driver and SDK, relative to the scratch folder."""
    registers = "registers"
    if SDK in os.environ:
        registers = str(Path(os.environ[SDK], "install/include").resolve())
    return (*(f"project/{folder}" for folder in FOLDERS), "driver", "sdk", registers)


def copy_driver(scratch: Path) -> list[Path]:
    """Replace the stand-in with the user's driver, if it exists, and return the driver's
    sources."""
    folder = scratch / "driver"
    if DRIVER in os.environ:
        shutil.rmtree(folder)
        folder.mkdir()
        home = Path(os.environ[DRIVER])
        for path in [*home.glob("include/*.h"), *(home / "src" / n for n in DRIVER_SOURCES)]:
            if not path.is_file():
                raise UserError(
                    f"{path}: no such file; set {DRIVER} to a folder with include/ and src/"
                )
            shutil.copy(path, folder)
    return list_c(folder)


def list_c(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.c"))


def write_templates(name: str, folder: Path, variables: dict[str, object]) -> None:
    for entry in find_templates(name)[0].iterdir():
        if entry.is_dir():
            write_templates(f"{name}/{entry.name}", folder / entry.name, variables)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        text = render(make_environment(), f"{name}/{entry.name}", variables)
        (folder / entry.name.removesuffix(".j2")).write_text(text, encoding="utf-8", newline="\n")
