"""The files that compilers open, as the compilers report them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firmwright.folders import TOP
from firmwright.toolchain import Build, find_compiler, load_platform, load_toolchain
from firmwright.toolchain.opened_files import (
    HEADERS,
    OpenedFiles,
    find_opened_files,
    list_included,
)

TEMPLATES = TOP / "templates"
OF_OTHER_SDKS = re.compile(r"^(hal|archi|kernel|drivers)/|^pulp\.h$|^c7x\.h$|^\{\{")
"""Headers of vendors' SDKs, all of whose files count, and a header of the project."""


def find_files(toolchain: str, platform: str, *headers: str) -> OpenedFiles:
    build = Build(load_toolchain(toolchain), load_platform(platform))
    compiler = find_compiler(build.toolchain, build.platform.architecture)
    return find_opened_files(build, compiler, headers)


def test_all_headers_of_templates_are_asked_for() -> None:
    included = re.compile(r"#[ ]*include <([^>]+)>")
    texts = (path.read_text("utf-8") for path in TEMPLATES.resolve().rglob("*.j2"))
    names = {name for text in texts for name in included.findall(text)}
    assert {name for name in names if not OF_OTHER_SDKS.match(name)} == {*HEADERS}


@pytest.mark.parametrize(
    ("toolchain", "platform", "expected"),
    [
        (
            "gcc",
            "host",
            "gcc cc1 as ld collect2 stdint.h libc.so.6 Scrt1.o libgcc.a libm.so libmpfr.so.6",
        ),
        ("clang", "host", "clang ld stdint.h libc.so.6 libgcc.a"),
        (
            "arm-none-eabi-gcc",
            "cortex-m4-bare",
            "arm-none-eabi-gcc cc1 as ld nano.specs stdint.h newlib.h libc_nano.a libm.a libgcc.a",
        ),
        (
            "riscv64-unknown-elf-gcc",
            "rv32-bare",
            "cc1 as ld picolibc.specs stdint.h libc.a libm.a libgcc.a",
        ),
        ("avr-gcc", "avr-atmega2560", "cc1 as ld avr/io.h crtatmega2560.o libc.a libm.a"),
        ("zig", "rv32-bare", "zig"),
    ],
)
@pytest.mark.needs("gcc", "clang", "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc", "avr-gcc")
def test_programs_headers_and_libraries_are_found(
    toolchain: str, platform: str, expected: str
) -> None:
    files = find_files(toolchain, platform).files
    for name in expected.split():
        assert any(f"/{path}".endswith(f"/{name}") for path in files), name
    assert not any("firmwright-probe" in path for path in files)


@pytest.mark.needs("gcc")
def test_header_of_the_users_own_sources_is_found(tmp_path: Path) -> None:
    (tmp_path / "own.c").write_text('#include <pthread.h>\n#  include "own.h"\n')
    names = list_included([tmp_path / "own.c", tmp_path / "missing.c"])
    assert names == ["own.h", "pthread.h"]
    found = find_files("gcc", "host", *names)
    assert any(path.endswith("/pthread.h") for path in found.files)
    without = find_files("gcc", "host")
    assert not any(path.endswith("/pthread.h") for path in without.files)


@pytest.mark.needs("gcc")
def test_linker_that_an_earlier_folder_has_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = find_files("gcc", "host")
    linker = tmp_path / "ld"
    linker.write_text('#!/bin/sh\nexec /usr/bin/ld "$@"\n')
    linker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = find_files("gcc", "host")
    assert str(linker) in found.files
    assert str(tmp_path) in found.locations
    assert str(linker) not in before.files
