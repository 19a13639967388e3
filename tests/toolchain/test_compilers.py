"""The search for compilers, and the message if one is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firmwright.errors import UserError
from firmwright.toolchain import find_compiler, load_toolchain

from .projects import load_build


def test_zig_has_its_own_version_and_that_of_clang() -> None:
    _, compiler = load_build("rv32-bare", "zig")
    assert compiler.version == "zig 0.17.0 (clang 22.1.8)"
    assert Path(compiler.folder, "lib/compiler_rt.zig").is_file()


def test_gcc_is_called_by_its_name() -> None:
    _, compiler = load_build("host", "gcc")
    assert compiler.command == ("gcc",)
    assert compiler.version.startswith("gcc ")


def test_a_missing_program_names_its_packages_and_what_is_there_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError) as caught:
        find_compiler(load_toolchain("riscv64-unknown-elf-gcc"), "rv32imc")
    assert str(caught.value) == (
        "riscv64-unknown-elf-gcc is not installed; get it by "
        "'apt-get install gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf'; "
        "present instead, as 'toolchain:' in the recipe: zig"
    )


def test_a_missing_python_module_names_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    zig = replace(load_toolchain("zig"), python_module="no_such_module")
    with pytest.raises(UserError) as caught:
        find_compiler(zig, "cortex-m4f")
    assert str(caught.value) == (
        "the Python module no_such_module is not installed; get it by "
        "'python -m pip install ziglang'"
    )


def test_a_program_that_does_not_run_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "gcc"
    broken.write_text("#!/bin/sh\necho broken installation; exit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(UserError, match=r"the compiler does not run: gcc -dumpfullversion: .*3"):
        find_compiler(load_toolchain("gcc"), "native")
