"""Small C projects for the tests of platforms and toolchains."""

from __future__ import annotations

import shutil
from importlib.resources import files
from pathlib import Path

import jinja2
import pytest

from firmwright.toolchain import Build, find_compiler, load_platform, load_toolchain
from firmwright.toolchain.build import LINKER_SCRIPT
from firmwright.toolchain.compilers import Compiler

# A program that needs the run-time library: 64-bit division, floats, memcpy, constant data.
PROGRAM = """
#include <math.h>
#include <stdint.h>
#include <string.h>

static const uint8_t constants[5] = {1, 2, 3, 4, 5};
static uint8_t copies[200];
uint64_t dividend = 1000000007u;
volatile float number = 2.0f;
volatile uint32_t result;
#ifndef REMARK
#define REMARK ""
#endif
const volatile char remark[] = REMARK;

int main(void)
{
    memcpy(copies, constants, sizeof constants);
    number = tanhf(number) * expf(number) + sqrtf(number);
    result = (uint32_t)(dividend / (copies[1] + 7u)) + (uint32_t)number + (uint32_t)remark[0];
    return 0;
}
"""

BARE_START = """
int main(void);
void start(void);
__attribute__((section(".text.start"))) void start(void)
{
    (void)main();
    for (;;) {
    }
}
"""

# Deliberately plain: the emulators test the boards' scripts.
BARE_SCRIPT = """
ENTRY(start)
SECTIONS
{
    . = %#x;
    .text : { KEEP(*(.text.start)) *(.text .text.*) }
    .rodata : ALIGN(16) { *(.rodata .rodata.* .srodata .srodata.*) . = ALIGN(16); }
    fw_data_load = .;
    . = %#x;
    .data : AT(fw_data_load) { *(.data .data.* .sdata .sdata.*) }
    .bss (NOLOAD) : ALIGN(16) { *(.bss .bss.* .sbss .sbss.* COMMON) }
    .stack (NOLOAD) : ALIGN(16) { . += 1024; }
    /DISCARD/ : { *(.ARM.exidx .ARM.exidx.* .ARM.extab .ARM.extab.* .eh_frame) }
}
"""


def render(template: str, **variables: object) -> str:
    """Render one of the package's templates as the code generator does."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    source = files("firmwright.templates").joinpath(*template.split("/"))
    return environment.from_string(source.read_text(encoding="utf-8")).render(variables)


def write_freestanding(project: Path) -> None:
    """Copy the headers and the mathematics into a project."""
    headers = project / "freestanding"
    headers.mkdir(parents=True)
    for name in ("string.h", "math.h"):
        (headers / name).write_text(render(f"freestanding/{name}.j2"))
    (headers / "fw_math.c").write_text(render("freestanding/fw_math.c.j2"))


def write_linker_script(project: Path, text: str) -> None:
    """Write a linker script into the project's folder for boards."""
    path = project / LINKER_SCRIPT
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def write_project(build: Build, project: Path) -> list[str]:
    """Write a small project for a build; return its sources."""
    project.mkdir(parents=True)
    (project / "main.c").write_text(PROGRAM)
    sources = ["main.c"]
    if not build.settings.libc:
        write_freestanding(project)
        sources.append("freestanding/fw_math.c")
    if build.platform.memories:
        origins = [build.platform.memories[name].origin for name in ("flash", "ram")]
        write_linker_script(project, BARE_SCRIPT % tuple(origins))
        (project / "start.c").write_text(BARE_START)
        sources.append("start.c")
    return sources


def load_build(platform_name: str, toolchain_name: str, *cflags: str) -> tuple[Build, Compiler]:
    """Return a build and its compiler; skip the test if the compiler is missing."""
    build = Build(load_toolchain(toolchain_name), load_platform(platform_name), cflags)
    toolchain = build.toolchain
    if not toolchain.python_module and shutil.which(toolchain.program) is None:
        pytest.skip(f"{toolchain.program} is not installed")
    return build, find_compiler(toolchain, build.platform.architecture)
