"""Finds the largest contents of a memory, which are symbols and sections without symbols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from elftools.elf.elffile import ELFFile

from firmwright.toolchain.elf_symbols import FUNCTION, OBJECT, read_symbols
from firmwright.toolchain.flash_images import Section, read_sections


def find_contributors(elf: Path, counts: Callable[[Section], bool]) -> list[tuple[str, int]]:
    """Return symbols and their numbers of bytes in the counted sections, the largest number first.

    A symbol within another symbol counts as part of the outer symbol. Bytes without a symbol have
    the name of the section.
    """
    with elf.open("rb") as stream:
        image = ELFFile(stream)
        sections = [section for section in read_sections(image) if counts(section)]
        symbols = sorted(find_symbols(image).items())
    taken = Counter[str]()
    for section in sections:
        reached, end = section.address, section.address + section.bytes
        unnamed = section.bytes
        for address, (size, name) in symbols:
            if reached <= address < end:  # an inner symbol counts as part of the outer symbol
                taken[name] += size
                unnamed -= size
                reached = address + size
        if unnamed > 0:
            taken[f"{section.name}, without a symbol"] += unnamed
    return sorted(taken.items(), key=lambda item: (-item[1], item[0]))


def find_symbols(image: ELFFile) -> dict[int, tuple[int, str]]:
    """Return the size and name of the largest symbol at each address."""
    symbols: dict[int, tuple[int, str]] = {}
    for symbol in read_symbols(image):
        if symbol.size and symbol.kind in (FUNCTION, OBJECT):
            # Arm marks Thumb code with an odd address.
            start = symbol.value & ~1 if symbol.kind == FUNCTION else symbol.value
            symbols[start] = max(symbols.get(start, (0, "")), (symbol.size, symbol.name))
    return symbols
