"""Symbol tables equal pyelftools' symbol tables, symbol by symbol."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_ST_INFO_BIND, ENUM_ST_INFO_TYPE, ENUM_ST_SHNDX
from elftools.elf.sections import SymbolTableSection

from firmwright.errors import UserError
from firmwright.toolchain.elf_symbols import read_symbols
from firmwright.toolchain.object_files import parse_object

from .test_object_files import compiled

SOURCE = """
int other(int); extern int missing; __attribute__((weak)) int maybe(int);
static int hidden[3] = {1, 2, 3}; int shown = 5; const char *text = "é";
static int twice(int a) { return hidden[a] + a; }
int start(int a) { return other(twice(a)) + missing + maybe(shown); }
"""


def describe(image: ELFFile) -> list[tuple[str, int, int, int, int, int]]:
    table = image.get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)
    return [
        (
            symbol.name,
            symbol["st_value"],
            symbol["st_size"],
            ENUM_ST_INFO_TYPE[symbol["st_info"]["type"]],
            ENUM_ST_INFO_BIND[symbol["st_info"]["bind"]],
            ENUM_ST_SHNDX.get(symbol["st_shndx"], symbol["st_shndx"]),
        )
        for symbol in table.iter_symbols()
    ]


@pytest.mark.parametrize(
    "target", ["x86_64-linux", "riscv32-freestanding", "thumb-freestanding-eabi", "mips-linux"]
)
def test_tables_of_both_widths_and_orders(tmp_path: Path, target: str) -> None:
    path = compiled(tmp_path, "object", SOURCE, "-target", target)
    with path.open("rb") as stream:
        image = ELFFile(stream)
        found = read_symbols(image)
        assert [tuple(symbol) for symbol in found] == describe(image)
    assert {"start", "twice", "other", "maybe"} <= {symbol.name for symbol in found}


def test_damaged_table_is_refused(tmp_path: Path) -> None:
    path = compiled(tmp_path, "object", SOURCE, "-target", "x86_64-linux")
    content = bytearray(path.read_bytes())
    with path.open("rb") as stream:
        names = ELFFile(stream).get_section_by_name(".strtab")
        assert names
        content[names["sh_offset"] + names["sh_size"] - 1] = ord("x")
    with pytest.raises(ELFError, match="damaged"):
        read_symbols(ELFFile(io.BytesIO(content)))
    with pytest.raises(UserError, match=r"object\.o is not an ELF object file"):
        parse_object("object.o", bytes(content))
