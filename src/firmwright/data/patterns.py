"""Finds the files that a pattern of a recipe names, within limits for the search.

``*``, ``?`` and ``[...]`` match within a name, but not hidden names; ``**`` matches any number of
folders. The search skips hidden folders, build folders, virtual environments and links.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath

from firmwright.created_folders import read_owner
from firmwright.errors import UserError

WILDCARDS = "*?["

MOST_ENTRIES = 100_000
"""The maximum number of files and folders that a pattern may search."""


def find_matches(pattern: str, start: Path) -> list[Path]:
    """Return the sorted files that a pattern matches, from a folder on.

    Raises UserError if the pattern is absolute, leaves the git repository, or has to search more
    than MOST_ENTRIES files and folders.
    """
    path = PurePath(os.path.normpath(pattern))
    if path.is_absolute():
        advice = "a pattern starts at the recipe's folder; a single folder may be absolute"
        raise UserError(f"the pattern '{pattern}' is absolute; {advice}")
    refuse_leaving(pattern, path, start)
    return sorted(set(FileSearch(pattern).match(start, path.parts)))


def refuse_leaving(pattern: str, path: PurePath, start: Path) -> None:
    """Raise UserError if a pattern leads out of the git repository that contains a folder."""
    folder = Path(os.path.realpath(start))
    levels = path.parts.count("..")
    top = next((p for p in (folder, *folder.parents) if (p / ".git").exists()), None)
    if top and levels > len(folder.relative_to(top).parts):
        advice = "copy or link the files into it, or name a single folder without a pattern"
        raise UserError(f"the pattern '{pattern}' leaves the git repository; {advice}")


class FileSearch:
    """Searches for a pattern, and counts the files and folders that it has seen."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.seen = 0

    def match(self, folder: Path, parts: Sequence[str]) -> Iterator[Path]:
        """Yield the files below a folder that match the parts of a pattern, with duplicates."""
        first, rest = parts[0], parts[1:]
        if first == "**":
            yield from self.match(folder, rest or ("*",))
            for entry in self.list_entries(folder):
                if is_searched(entry):
                    yield from self.match(folder / entry.name, parts)
        elif not any(c in first for c in WILDCARDS):
            yield from self.match_rest(folder / first, rest)
        else:
            for entry in self.list_entries(folder):
                hidden = entry.name.startswith(".") and not first.startswith(".")
                if not hidden and fnmatchcase(entry.name, first):
                    yield from self.match_rest(folder / entry.name, rest)

    def match_rest(self, path: Path, rest: Sequence[str]) -> Iterator[Path]:
        if rest:
            yield from self.match(path, rest)
        elif os.path.isfile(path):  # noqa: PTH113 (Path.is_file raises for a forbidden link)
            yield path

    def list_entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """Return the entries of a folder, or an empty list if it cannot be read."""
        try:
            with os.scandir(folder) as entries:
                listed = list(entries)
        except OSError:
            return []
        self.seen += len(listed)
        if self.seen > MOST_ENTRIES:
            raise UserError(
                f"the pattern '{self.pattern}' searches more than {MOST_ENTRIES:,} files and "
                "folders; begin it with the folder that has the files"
            )
        return listed


def is_searched(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
        return False
    return read_owner(Path(entry.path)) is None and not Path(entry.path, "pyvenv.cfg").exists()
