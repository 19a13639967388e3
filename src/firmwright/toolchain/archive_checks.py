"""Checks the user's archives in the link of a firmware, and finds missing symbols."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from firmwright.errors import UserError
from firmwright.toolchain.object_files import (
    MissingSymbol,
    find_missing_symbols,
    read_archive,
    read_object,
    select_linked_objects,
    suggest_symbol,
)


def check_machine(archive: Path, like: Path) -> None:
    """Raise UserError if the archive and the object file ``like`` are for different machines."""
    machine = read_object(like).machine
    for member in read_archive(archive):
        if member.machine != machine:
            raise UserError(
                f"{member.name} is for {member.machine}; the program is for {machine}: compile "
                "it again"
            )


def find_failed_symbols(
    output: str, objects: Sequence[Path], archives: Sequence[Path]
) -> list[MissingSymbol]:
    """Return the missing symbols that made a link fail, from the linker's output.

    Only the linker reads the C library, so the names come from the linker's output. The object
    files show which file needs each symbol, and similar symbols.
    """
    archived = [member for archive in archives for member in read_archive(archive)]
    missing_symbols = find_missing_symbols(
        select_linked_objects([read_object(path) for path in objects], archived)
    )
    tokens = set(re.findall(r"[\w.$]+", output))
    return [entry for entry in missing_symbols if entry.symbol in tokens]


def check_definitions(
    functions: Sequence[str], objects: Sequence[Path], archives: Sequence[Path], variable: str
) -> None:
    """Raise UserError if no object and no archive defines a function.

    The check is needed for loadables, because their linker accepts missing symbols, which the
    loader on the board resolves. The environment ``variable`` can add archives.
    """
    if not functions:
        return
    files = [read_object(path) for path in objects]
    files += [member for archive in archives for member in read_archive(archive)]
    defined = {symbol for file in files for symbol in file.defined}
    for function in functions:
        if function not in defined:
            raise UserError(
                f"the network calls '{function}', which is not defined in the loadable"
                f"{suggest_symbol(function, defined)}; add its source to `libraries`, or an "
                f"archive for the loadable in {variable}"
            )
