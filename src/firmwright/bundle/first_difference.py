"""Finds the first difference of two files and describes it in terms of their format."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from itertools import zip_longest
from pathlib import Path

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from firmwright.bundle.archive import BrokenBundleError, read_archive
from firmwright.report.difference import flatten

Explain = Callable[[bytes, bytes], str]


def find_difference(first: bytes, second: bytes, name: str) -> str:
    """Return the first difference (JSON path, section, line or byte), or '' for equal files.

    For an ``.npz``, the arrays are compared, because the archive differs between Python versions.
    """
    if first == second:
        return ""
    for suffix, explain in EXPLAIN.items():
        if name.endswith(suffix):
            try:
                return explain(first, second)
            except (ValueError, ELFError, BrokenBundleError):
                break  # the content does not fit the file's suffix: compare bytes
    return explain_text(first, second)


def explain_json(first: bytes, second: bytes) -> str:
    ours, theirs = flatten(json.loads(first)), flatten(json.loads(second))
    for position in [*ours, *theirs]:
        if ours.get(position) != theirs.get(position):
            return f"{position}: {ours.get(position)} and {theirs.get(position)}"
    return explain_text(first, second)


def explain_archive(first: bytes, second: bytes) -> str:
    _, ours = read_archive(first, "the first archive")
    _, theirs = read_archive(second, "the second archive")
    difference = find_first(ours, theirs)
    return f"in it {difference}" if difference else "the same files, compressed differently"


def explain_image(first: bytes, second: bytes) -> str:
    ours, theirs = (
        {s.name: s.data() for s in ELFFile(io.BytesIO(c)).iter_sections()} for c in (first, second)
    )
    for name, data in ours.items():
        if data != theirs.get(name):
            return f"section {name}, {explain_bytes(data, theirs.get(name, b''))}"
    return explain_bytes(first, second)


def explain_arrays(first: bytes, second: bytes) -> str:
    with (
        np.load(io.BytesIO(first), allow_pickle=False) as ours,
        np.load(io.BytesIO(second), allow_pickle=False) as theirs,
    ):
        for name in sorted({*ours, *theirs}):
            if name not in ours or name not in theirs:
                return f"array {name} is in only one of them"
            if ours[name].tobytes() != theirs[name].tobytes():
                return f"array {name}"
    return ""


def explain_text(first: bytes, second: bytes) -> str:
    try:
        ours, theirs = first.decode().splitlines(), second.decode().splitlines()
    except UnicodeDecodeError:
        return explain_bytes(first, second)
    for number, (a, b) in enumerate(zip_longest(ours, theirs, fillvalue=""), 1):
        if a != b:
            return f"line {number}: {a.strip()!r} and {b.strip()!r}"
    return explain_bytes(first, second)


def explain_bytes(first: bytes, second: bytes) -> str:
    same = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    position = min(len(first), len(second)) if same is None else same
    return f"byte {position:,} ({len(first):,} and {len(second):,} bytes)"


EXPLAIN: Mapping[str, Explain] = {
    ".json": explain_json,
    ".tar.gz": explain_archive,
    ".elf": explain_image,
    ".o": explain_image,
    ".npz": explain_arrays,
}


def find_first(first: Mapping[str, bytes], second: Mapping[str, bytes]) -> str:
    """Return the name of the first differing file and the position, or '' for equal files."""
    for name in sorted({*first, *second}):
        if name not in first or name not in second:
            return f"{name} is in only one of them"
        where = find_difference(first[name], second[name], name)
        if where:
            return f"{name}, {where}"
    return ""


def read_folder(folder: Path) -> dict[str, bytes]:
    """Map the relative paths of a folder's files, or the name of a single file, to the contents."""
    if folder.is_file():
        return {folder.name: folder.read_bytes()}
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def digest_files(files: Mapping[str, bytes]) -> str:
    """Return the digest of a single file, or one digest of the digests of several files."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    if len(digests) == 1:
        return next(iter(digests.values()))
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
