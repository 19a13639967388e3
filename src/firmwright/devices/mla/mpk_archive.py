"""Reads the archive that SiMa's compiler packs, and checks all of its content.

The rules are from SiMa's reader, which rejects unknown content. The size limits are the limits of a
bundle, which are lower than SiMa's limits. A ``.lm`` file is a program for the MLA of the first
generation.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from firmwright.bundle.archive import (
    BrokenBundleError,
    check_name,
    read_capped,
    read_exactly,
    unpack_gzip,
)
from firmwright.bundle.bundle import read_json
from firmwright.errors import UserError

MAX_MEMBERS = 2048
MAX_JSON_BYTES = 32 * 1024**2
"""The limit for the sum of all JSON files of an archive."""
MAX_JSON_DEPTH = 64
BUILD_AGAIN = "build it again with SiMa's compiler"
PROGRAM_SUFFIXES = (".elf", ".lm", ".so")
SUFFIXES = (".json", ".yaml", *PROGRAM_SUFFIXES)
LOOK_ALIKES = "\uff0f\u2215\uff3c\uff0e\u2024\ufe52"
"""Characters that look like a slash, a backslash or a dot."""


def read_archive(path: Path) -> dict[str, bytes]:
    """Return the archive's files by their base names.

    Raises UserError if the archive is damaged, or contains an entry that is not a plain file of a
    known kind. Also raises UserError if the description (``*_mpk.json``) or a program is missing.
    """
    if not path.name.endswith(".tar.gz"):
        raise UserError(
            f"{path}: expected a name that ends with .tar.gz; name the archive of SiMa's compiler"
        )
    try:
        return parse_archive(unpack_gzip(read_capped(path)))
    except BrokenBundleError as error:
        raise UserError(f"{path}: {error}; {BUILD_AGAIN}") from None


def parse_archive(content: bytes) -> dict[str, bytes]:
    """Return the files of an uncompressed archive, with the checks of :func:`read_archive`.

    Raises BrokenBundleError if a check fails.
    """
    files = read_members(content)
    find_description(files)
    if not any(name.endswith(PROGRAM_SUFFIXES) for name in files):
        raise BrokenBundleError(f"the archive has no program ({', '.join(PROGRAM_SUFFIXES)})")
    return files


def read_members(content: bytes) -> dict[str, bytes]:
    """Check all files of an uncompressed archive, and return the files by base name."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:", errors="strict") as archive:
            for entry in read_entries(archive):
                name = PurePosixPath(entry.name).name
                if name in files:
                    raise BrokenBundleError(f"two files are named {name!r}")
                stream = archive.extractfile(entry)
                assert stream is not None  # read_entries yields only files
                files[name] = read_exactly(stream, entry)
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise BrokenBundleError(f"not a tar archive, or damaged: {error}") from None
    if sum(len(data) for name, data in files.items() if name.endswith(".json")) > MAX_JSON_BYTES:
        raise BrokenBundleError(
            f"the JSON files of the archive have more than {MAX_JSON_BYTES:,} bytes"
        )
    return files


def read_entries(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the plain files and skip folders.

    Raises BrokenBundleError if any other entry exists.
    """
    for number, entry in enumerate(archive, 1):
        if number > MAX_MEMBERS:
            raise BrokenBundleError(f"the archive has more than {MAX_MEMBERS:,} files")
        check_name(entry.name.removeprefix("./"))
        if any(character in entry.name for character in LOOK_ALIKES):
            raise BrokenBundleError(
                f"the file name {entry.name!r} has a character that looks like a slash or a dot"
            )
        if entry.isdir():
            continue
        # A file with holes can unpack to any size.
        if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or entry.issparse():
            raise BrokenBundleError(
                f"the entry {entry.name!r} is a link, a device or a sparse file"
            )
        if PurePosixPath(entry.name).suffix not in SUFFIXES:
            known = ", ".join(SUFFIXES)
            raise BrokenBundleError(
                f"the file {entry.name!r} has an unknown suffix; expected {known}"
            )
        yield entry


def find_description(files: Mapping[str, bytes]) -> str:
    """Return the name of the only ``*_mpk.json``.

    Raises BrokenBundleError if not exactly one exists.
    """
    names = [name for name in files if is_description(name)]
    if len(names) != 1:
        raise BrokenBundleError(f"the archive has {len(names)} files *_mpk.json; expected one")
    return names[0]


def is_description(name: str) -> bool:
    return name == "mpk.json" or name.endswith("_mpk.json")


def read_description(files: Mapping[str, bytes]) -> tuple[str, Any]:
    """Return the name and content of the only ``*_mpk.json``, without a check of its schema."""
    name = find_description(files)
    content = read_json(files[name], name)
    if find_depth(content) > MAX_JSON_DEPTH:
        raise BrokenBundleError(f"{name}: its JSON has more than {MAX_JSON_DEPTH} nested levels")
    return name, content


def find_depth(content: Any) -> int:
    depth, level = 0, [content]
    while level:
        parts = [list(c.values()) if isinstance(c, dict) else c for c in level]
        level = [inner for part in parts if isinstance(part, list) for inner in part]
        depth += 1
    return depth
