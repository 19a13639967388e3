"""Rejects firmware that is labeled as hard-float but computes floats in software.

Clang accepts a CPU without a floating-point unit for an ``eabihf`` target and prints no warning.
Zig's `-mcpu=cortex_m4` is such a CPU. Zig emits calls such as ``__aeabi_fadd`` and labels the
object as hard-float. The program's results are correct, so users would not notice that the program
is ten times too slow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from firmwright.errors import UserError

# Functions for single-precision arithmetic in software (ARM run-time ABI, IHI 0043, and GCC's
# names). Double precision is omitted, because cores with a single-precision FPU compute it in
# software.
SOFT_FLOAT_FUNCTIONS = frozenset(
    [f"__aeabi_{name}" for name in ("fadd", "fsub", "frsub", "fmul", "fdiv")]
    + [f"__{name}sf3" for name in ("add", "sub", "mul", "div")]
)

_EF_ARM_ABI_FLOAT_HARD = 0x400  # ELF for the Arm architecture, section "ELF header"


def check_hard_float_flags(flags: Sequence[str], where: str) -> None:
    """Raise UserError if zig's flags request hard-float for a Cortex-M without an FPU."""
    cpu = next((flag for flag in flags if flag.startswith("-mcpu=cortex_m")), None)
    claims_hard_float = any(re.search(r"eabihf|-mfloat-abi=hard", flag) for flag in flags)
    if cpu is None or not claims_hard_float or re.search(r"\+(vfp|fp_armv8|fpregs)", cpu):
        return
    raise UserError(
        f"{where}: '{cpu}' names no floating-point unit, but the flags select the hard-float ABI; "
        f"add the unit's feature, for example '{cpu}+vfp4d16sp', or use a soft-float target "
        "(eabi). Otherwise, the code computes floats in software"
    )


def check_float_abi(elf: Path) -> None:
    """Raise UserError if a linked hard-float ARM image contains soft-float arithmetic."""
    with elf.open("rb") as stream:
        names = find_soft_float_functions(stream)
    if names:
        raise UserError(
            f"{elf.name}: labelled hard-float, but the code computes floats in software "
            f"({', '.join(names)}); name the floating-point unit with -mfpu, or for `zig cc` as a "
            "feature of -mcpu (cortex_m4+vfp4d16sp). The compiler flags name a core without such a "
            "unit, or switch it off"
        )


def find_soft_float_functions(stream: BinaryIO) -> list[str]:
    """Return the sorted soft-float functions of a hard-float ARM image, or [] for other images."""
    from elftools.elf.elffile import ELFFile

    from firmwright.toolchain.elf_symbols import read_symbols

    image = ELFFile(stream)
    if image["e_machine"] != "EM_ARM" or not image["e_flags"] & _EF_ARM_ABI_FLOAT_HARD:
        return []
    return sorted({symbol.name for symbol in read_symbols(image)} & SOFT_FLOAT_FUNCTIONS)
