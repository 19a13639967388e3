"""A program for a core with more features than its core prints a message and ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firmwright.emulator import run_firmware
from firmwright.errors import UserError
from firmwright.toolchain import Qemu, load_platform
from tests.toolchain.folders import arm64_gcc_folder

from .conftest import BuildFirmware

DOTPROD = ("aarch64-dotprod-linux", "cortex-a53", "dot products (dotprod)")
I8MM = ("aarch64-i8mm-linux", "cortex-a76", "products of matrices (i8mm)")


@pytest.mark.needs("qemu-aarch64")
@pytest.mark.parametrize(("name", "core", "lacking"), [DOTPROD, I8MM])
def test_a_core_without_the_feature_ends_with_a_message(
    build: BuildFirmware,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    name: str,
    core: str,
    lacking: str,
) -> None:
    monkeypatch.setenv("ARM64_GCC_PATH", str(arm64_gcc_folder(tmp_path / "gcc")))
    elf = build("console.c", name, "arm64-gcc")
    platform = load_platform(name)
    given = b"\x01\x00\x00\x00\x07"
    assert run_firmware(elf, platform, "qemu-user", given, "main", 1000).exit_code == 7
    other = replace(platform, qemu=Qemu("qemu-aarch64", ("-cpu", core)))
    with pytest.raises(UserError, match=f"lacks a feature of platform {name} .*without it"):
        run_firmware(elf, other, "qemu-user", given, "main", 1000)
    assert f"has no {lacking}, which the program was compiled for." in capfd.readouterr().err
