"""Records the files of a recipe's folder that its custom code reads.

A stage runs again if one of its inputs changes. The sources of the custom code are known before the
run. The files that the code opens are recorded during the run. A change of an unnamed file would
not start a stage, so firmwright rejects code that reads unnamed files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firmwright.errors import UserError
from firmwright.folders import PREFIXES

RECORDS: list[set[str]] = []
"""The real paths of the files that were opened for reading, as one set per active record."""

GUARDED: list[set[str]] = []
"""The files that the custom code opened in the current stage; empty outside of stages."""

OURS = tuple(map(os.path.realpath, PREFIXES))


def record_open(event: str, arguments: tuple[Any, ...]) -> None:
    if not RECORDS or event != "open" or not isinstance(arguments[0], str | bytes | os.PathLike):
        return
    writes_only = arguments[2] & (os.O_WRONLY | os.O_RDWR) == os.O_WRONLY
    if not writes_only:
        path = os.path.realpath(os.fsdecode(arguments[0]))
        for record in RECORDS:
            record.add(path)


sys.addaudithook(record_open)


@contextmanager
def record_reads() -> Iterator[set[str]]:
    """Yield a set, and add the path of each file that the block opens for reading."""
    opened: set[str] = set()
    RECORDS.append(opened)
    try:
        yield opened
    finally:
        RECORDS.pop()
        for guarded in GUARDED:
            guarded |= opened


@contextmanager
def guard_reads(
    folder: Path, known: Iterable[str | Path], outdirs: Iterable[Path]
) -> Iterator[None]:
    """Raise UserError if custom code of the block reads a file that is not an input of its stage.

    Only files of the recipe's ``folder`` are checked. Files in ``known`` are allowed. Files in the
    folders ``outdirs``, which firmwright itself writes, are also allowed.
    """
    opened: set[str] = set()
    GUARDED.append(opened)
    try:
        yield
    finally:
        GUARDED.pop()
    names = list_unknown(opened, folder, known, outdirs)
    if names:
        listed = ", ".join(names)
        raise UserError(
            f"the recipe's Python code reads {listed}, which the recipe does not list; add "
            f"`files: [{listed}]`, so that the build detects changes"
        )


def list_unknown(
    opened: Collection[str], folder: Path, known: Iterable[str | Path], outdirs: Iterable[Path] = ()
) -> list[str]:
    """Return the names of the ``opened`` files of ``folder`` that are not ``known``."""
    root = os.path.realpath(folder)
    allowed = {os.path.realpath(path) for path in known}
    without = (*OURS, *(os.path.realpath(path) for path in outdirs))
    inside = [path for path in sorted(opened) if is_recipe_file(path, root) and path not in allowed]
    return [
        Path(path).relative_to(root).as_posix()
        for path in inside
        if Path(path).is_file() and not any(Path(path).is_relative_to(each) for each in without)
    ]


def is_recipe_file(path: str, root: str) -> bool:
    """Return whether a file is in the recipe's folder, but not in its virtual environment."""
    real, environment = Path(path).resolve(), Path(sys.prefix).resolve()
    inside_environment = environment.is_relative_to(root) and real.is_relative_to(environment)
    return real.is_relative_to(root) and not inside_environment
