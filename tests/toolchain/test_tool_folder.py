"""Compilers in a folder that an environment variable names: ARM64_GCC_PATH."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from firmwright.errors import UserError
from firmwright.toolchain import (
    Build,
    compile_object,
    find_compiler,
    link_firmware,
    load_platform,
    load_toolchain,
    makefile_variables,
)
from firmwright.toolchain.tool_folder import find_tool_folder

from .folders import GCC_NAME, arm64_gcc_folder
from .projects import render, write_project

ARM64 = load_toolchain("arm64-gcc")


@pytest.fixture
def gcc_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = arm64_gcc_folder(tmp_path / "gcc-arm")
    monkeypatch.setenv("ARM64_GCC_PATH", str(folder))
    return folder


@pytest.mark.parametrize("platform", ["am62a", "j721s2"])
def test_a_chips_program_is_built_by_both_ways_and_runs(
    platform: str, gcc_folder: Path, tmp_path: Path
) -> None:
    build = Build(ARM64, load_platform(platform))
    compiler = find_compiler(ARM64, build.platform.architecture)
    assert compiler.command == (str(gcc_folder / "bin" / f"{GCC_NAME}-gcc"),)
    project = tmp_path / "sources"
    sources = write_project(build, project)
    objects = [tmp_path / "objects" / f"{Path(name).stem}.o" for name in sources]
    for source, target in zip(sources, objects, strict=True):
        compile_object(build, compiler, project, source, target, tmp_path)
    elf = tmp_path / "firmware.elf"
    link_firmware(build, compiler, project, objects, elf, tmp_path)
    with elf.open("rb") as stream:
        assert ELFFile(stream)["e_machine"] == "EM_AARCH64"
    assert str(tmp_path) not in elf.with_suffix(".map").read_text()
    qemu, make = shutil.which("qemu-aarch64"), shutil.which("make")
    if qemu is None or make is None:
        pytest.skip("qemu-user and make are not installed")
    assert subprocess.run([qemu, elf], check=False).returncode == 0
    variables = {**makefile_variables(build, sources), "demo": False, "prefixes": ["network"]}
    makefile = render("project/Makefile.j2", **variables)
    (project / "Makefile").write_text(makefile)
    subprocess.run([make], cwd=project, check=True)
    assert (project / "firmware.elf").read_bytes() == elf.read_bytes()


def test_the_version_has_the_digest_of_the_folders_files(gcc_folder: Path) -> None:
    version = find_compiler(ARM64, "cortex-a53-linux").version
    linker = gcc_folder / "bin" / f"{GCC_NAME}-ld"
    linker.unlink()
    linker.write_text("another linker\n")
    other = find_compiler(ARM64, "cortex-a53-linux").version
    first, second = (text.partition(", sha256 ") for text in (version, other))
    assert first[0] == second[0]
    assert first[0].startswith(f"{GCC_NAME}-gcc ")
    assert first[2] != second[2]
    assert len(first[2]) == len(second[2]) == 16


def test_without_the_variable_the_message_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ARM64_GCC_PATH", raising=False)
    with pytest.raises(UserError) as caught:
        find_compiler(ARM64, "cortex-a72-linux")
    assert str(caught.value) == (
        f"ARM64_GCC_PATH is not set; set it to a folder with bin/{GCC_NAME}"
        f"-gcc, got by installing Arm GNU Toolchain, {GCC_NAME}; present instead, as 'toolchain:' "
        "in the recipe: zig"
    )


def test_what_is_half_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARM64_GCC_PATH", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / f"{GCC_NAME}-gcc").touch()
    with pytest.raises(UserError) as caught:
        find_compiler(ARM64, "cortex-a72-linux")
    assert str(caught.value) == (
        f"ARM64_GCC_PATH={tmp_path} has no file bin/{GCC_NAME}-as, bin/{GCC_NAME}-ld; set "
        "ARM64_GCC_PATH to the folder of the whole installation, or leave it unset"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"is not installed.*recipe: zig$"):  # nor suggested
        find_compiler(load_toolchain("gcc"), "cortex-a72-linux")


def test_a_folder_that_is_none_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_ROOT", str(tmp_path / "absent"))
    with pytest.raises(UserError, match=r"^SOME_ROOT=\S+absent is not a folder; set SOME_ROOT to"):
        find_tool_folder("SOME_ROOT", ["bin/tool"])
    monkeypatch.setenv("SOME_ROOT", "")
    assert find_tool_folder("SOME_ROOT", ["bin/tool"]) is None
