"""Code that is labelled hard-float but computes floats in software is rejected."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from firmwright.errors import UserError
from firmwright.toolchain import compile_object, link_firmware, load_toolchain
from firmwright.toolchain.float_abi import check_hard_float_flags

from .projects import load_build, write_project

HARD_FLOAT = "thumb-freestanding-eabihf"


@pytest.mark.parametrize("cpu", ["cortex_m4", "cortex_m7", "cortex_m55+mve", "cortex_m4-fp16"])
def test_a_cpu_without_floating_point_unit_is_refused(cpu: str) -> None:
    with pytest.raises(UserError) as caught:
        check_hard_float_flags(["-target", HARD_FLOAT, f"-mcpu={cpu}"], "here")
    assert str(caught.value).startswith(f"here: '-mcpu={cpu}' names no floating-point unit")


@pytest.mark.parametrize(
    "flags",
    [
        ["-target", HARD_FLOAT, "-mcpu=cortex_m4+vfp4d16sp"],
        ["-target", HARD_FLOAT, "-mcpu=cortex_m55+fp_armv8d16+fullfp16+mve_fp"],
        ["-target", "thumb-freestanding-eabi", "-mcpu=cortex_m4"],
        ["-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m+c"],
    ],
)
def test_other_flags_pass(flags: list[str]) -> None:
    check_hard_float_flags(flags, "here")


def test_a_toolchain_file_without_the_unit_is_refused(tmp_path: Path) -> None:
    text = (files("firmwright.toolchains") / "zig.yaml").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(text.replace("+vfp4d16sp]", "]"))
    with pytest.raises(UserError, match=r"^toolchain 'zig', cortex-m4f: '-mcpu=cortex_m4'"):
        load_toolchain("mine.yaml", relative_to=tmp_path)


def test_a_linked_image_is_refused(tmp_path: Path, compiler_cache: Path) -> None:
    build, compiler = load_build("cortex-m4-bare", "zig", "-mcpu=cortex-m4+nofp")
    project = tmp_path / "sources"
    objects = []
    for source in write_project(build, project):
        objects.append(tmp_path / f"{Path(source).stem}.o")
        compile_object(build, compiler, project, source, objects[-1], compiler_cache)
    with pytest.raises(UserError, match=r"^firmware.elf: labelled hard-float.*__aeabi_fmul"):
        link_firmware(build, compiler, project, objects, tmp_path / "firmware.elf", compiler_cache)
