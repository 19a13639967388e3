"""The high half of a product on cores without an instruction for it, bit by bit."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from unicorn import UC_ARCH_ARM, UC_MODE_MCLASS, UC_MODE_THUMB, arm_const

from firmwright.codegen.templates import make_environment
from firmwright.emulator.typed_unicorn import open_engine
from firmwright.errors import UserError
from firmwright.toolchain import (
    Build,
    compile_object,
    find_compiler,
    load_platform,
    load_toolchain,
)

PLATFORM = Path(__file__).parent / "platforms" / "cortex-m0.yaml"

CODE, STACK, END = 0x10000, 0x20000, 0x30000
"""Addresses of the function, its stack, and the point to which it returns."""

EDGES = [0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFC, 0x12345678]
FACTORS = [0, 1, 0xFFFF, 0x10000, 0x40000000, 0x4000FFFF, 0x7FFF0000, 0x7FFFFFFF]

SOURCE = """#include <stdint.h>
{% from "c/layers/requantize.j2" import define_store with context %}
{{ define_store() }}

void run(int8_t *to, int32_t sum, int32_t multiplier);
void run(int8_t *to, int32_t sum, int32_t multiplier)
{
    store(to, sum, multiplier, 0, 1);
}
"""
"""A caller of the function, so that the compiler keeps it."""


@pytest.mark.parametrize("toolchain", ["zig", "arm-none-eabi-gcc"])
def test_a_high_product_is_made_of_halves(toolchain: str, tmp_path: Path, cache: Path) -> None:
    code, start = compile_function(toolchain, tmp_path, cache)
    engine = open_engine(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
    engine.mem_map(CODE, 0x10000)
    engine.mem_map(STACK, 0x10000)
    engine.mem_map(END, 0x1000)
    engine.mem_write(CODE, code)
    random = np.random.default_rng(0).integers(-(2**31), 2**31, (200, 2)).tolist()
    pairs = [*product([*EDGES, *(-x for x in EDGES), -(2**31)], FACTORS)]
    for a, b in [*pairs, *((a, abs(b) % 2**31) for a, b in random)]:
        engine.reg_write(arm_const.UC_ARM_REG_R0, a & 0xFFFFFFFF)
        engine.reg_write(arm_const.UC_ARM_REG_R1, b)
        engine.reg_write(arm_const.UC_ARM_REG_SP, STACK + 0x8000)
        engine.reg_write(arm_const.UC_ARM_REG_LR, END | 1)
        engine.emu_start(CODE + start | 1, END)
        assert engine.reg_read(arm_const.UC_ARM_REG_R0) == a * b >> 32 & 0xFFFFFFFF, (a, b)


def compile_function(toolchain: str, folder: Path, cache: Path) -> tuple[bytes, int]:
    """Return a section of code, and the offset of the function in it."""
    platform = load_platform(str(PLATFORM))
    build = Build(load_toolchain(toolchain), platform, ())
    try:
        compiler = find_compiler(build.toolchain, platform.architecture)
    except UserError as error:
        pytest.skip(str(error))
    given = {
        "output_type": "int8_t",
        "one_shift": True,
        "emulated": False,
        "float_scaled": False,
        "low": -128,
        "high": 127,
    }
    template = make_environment().from_string(SOURCE)
    (folder / "store.c").write_text(template.render(given))
    compile_object(build, compiler, folder, "store.c", folder / "store.o", cache)
    with (folder / "store.o").open("rb") as stream:
        elf = ELFFile(stream)
        (table,) = [s for s in elf.iter_sections() if isinstance(s, SymbolTableSection)]
        (symbol,) = [s for s in table.iter_symbols() if s.name == "multiply_high"]
        return elf.get_section(symbol["st_shndx"]).data(), symbol["st_value"] & ~1
