"""Clang's flags of each bare architecture match zig's flags of its run-time library."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from firmwright.toolchain import find_compiler, load_toolchain
from firmwright.toolchain.build import fill_folder
from firmwright.toolchain.compilers import run_compiler

ZIG = load_toolchain("zig")
BARE = [name for name, settings in ZIG.architectures.items() if settings.runtime]
SOURCE = """
#include <stdint.h>

int64_t scale(const int32_t *values, int count, int32_t factor);
int64_t scale(const int32_t *values, int count, int32_t factor)
{
    int64_t sum = 0;
    for (int i = 0; i < count; ++i) {
        sum += (int64_t)values[i] * factor / 3;
    }
    return sum;
}

float blend(float a, float b, double c);
float blend(float a, float b, double c)
{
    return a * b + (float)(c * a);
}

int read_unaligned(const char *bytes);
int read_unaligned(const char *bytes)
{
    int value;
    __builtin_memcpy(&value, bytes + 1, sizeof value);
    return value;
}

void *memcpy(void *, const void *, __SIZE_TYPE__);
void copy_four(char *to, const char *from);
void copy_four(char *to, const char *from) { memcpy(to, from, 4); }

#ifndef NDEBUG
int checked(int number);
int checked(int number) { return number; }
#endif
"""


def read_code(path: Path) -> dict[str, object]:
    """Return machine and flags of an object, its code, and the kinds of its relocations."""
    with path.open("rb") as stream:
        image = ELFFile(stream)
        found: dict[str, object] = {"machine": (image["e_machine"], image.elfclass)}
        for section in image.iter_sections():
            if isinstance(section, RelocationSection):
                kinds = [relocation["r_info_type"] for relocation in section.iter_relocations()]
                found[image.get_section(section["sh_info"]).name] = kinds, section.name
            elif section.name.startswith(".text.") or section["sh_type"] == "SHT_ARM_ATTRIBUTES":
                found[f"{section.name} itself"] = section.data()
        return found


# The run-time library of rv32imc_xcv is the library of rv32imc.
@pytest.mark.parametrize("architecture", sorted({*BARE} - {"rv32imc_xcv"}))
def test_clang_compiles_what_zig_compiles(
    architecture: str, tmp_path: Path, compiler_cache: Path
) -> None:
    compiler = find_compiler(ZIG, architecture)
    settings = ZIG.settings_for(architecture)
    (tmp_path / "x.c").write_text(SOURCE)
    clang = fill_folder((*settings.compile, *settings.flags), compiler.folder)
    for words, output in ((clang, "clang.o"), (("cc", *settings.runtime_flags), "zig.o")):
        command = (*compiler.command, *words, *ZIG.flags, "-c", "-o", output, "x.c")
        run_compiler(command, tmp_path, compiler_cache)
    assert read_code(tmp_path / "clang.o") == read_code(tmp_path / "zig.o")
    assert ".text.copy_four itself" in read_code(tmp_path / "zig.o")


def test_a_date_in_c_is_refused(tmp_path: Path, compiler_cache: Path) -> None:
    compiler = find_compiler(ZIG, "rv32imc")
    settings = ZIG.settings_for("rv32imc")
    (tmp_path / "x.c").write_text("extern const char built[];\nconst char built[] = __DATE__;\n")
    clang = fill_folder((*settings.compile, *settings.flags), compiler.folder)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run_compiler((*compiler.command, *clang, "-c", "x.c"), tmp_path, compiler_cache)
    assert "not reproducible" in caught.value.stdout
