"""Writes the archive of a bundle, and reads untrusted archives.

The reader trusts no content and writes no file. An archive is accepted only if
:func:`write_archive` writes equal bytes for its files. Therefore links, devices, different owners,
times and orders, and bytes after the end are rejected. Separate checks first find the usual
attacks, so that the message names the attack.
"""

from __future__ import annotations

import io
import os
import tarfile
import unicodedata
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from firmwright.errors import UserError
from firmwright.system import count_cores

MAX_PACKED_BYTES = 512 * 1024**2
MAX_UNPACKED_BYTES = 1024**3
MAX_RATIO = 100
"""The maximum number of unpacked bytes per packed byte. Padded firmware stays below this limit."""
SMALL_BYTES = 16 * 1024**2
"""The number of bytes that may be unpacked at any ratio: a small firmware may contain only zeros.
"""
MAX_ENTRIES = 10_000
MAX_DEPTH = 16
"""The maximum depth of nested folders."""
CHUNK_BYTES = 1024**2


class BrokenBundleError(UserError):
    """Raised if a file is damaged, was changed, or is not a bundle."""


def write_archive(path: Path, folder: str, files: Mapping[str, bytes]) -> None:
    """Write sorted files below one folder. The owner is root and the time is 0.

    The mode is 755 for .elf files and 644 for other files.
    """
    path.write_bytes(compress(pack_tar(folder, files)))


def pack_tar(folder: str, files: Mapping[str, bytes]) -> bytes:
    """Return the uncompressed archive. The bytes depend only on the folder and the files.

    The files are at the top of the archive if ``folder`` is ''.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(PurePosixPath(folder, name).as_posix())
            entry.size = len(files[name])
            entry.mode = 0o755 if name.endswith(".elf") else 0o644
            entry.mtime = 0
            archive.addfile(entry, io.BytesIO(files[name]))
    return content.getvalue()


def read_archive(content: bytes, shown: str) -> tuple[str, dict[str, bytes]]:
    """Return the archive's folder, and a mapping of names below the folder to contents.

    Messages name the archive ``shown``. Raises BrokenBundleError if :func:`write_archive` would
    write different bytes, or if the archive exceeds a limit of this module.
    """
    try:
        unpacked = unpack_gzip(content)
        files = read_tar(unpacked)
        folder, names = split_folder(files)
        kept = {name: files[f"{folder}/{name}"] for name in names}
        if pack_tar(folder, kept) != unpacked:
            raise BrokenBundleError(
                "the archive has the files of a bundle, but was not packed by firmwright: owners, "
                "times, modes or the order differ, or bytes follow its end"
            )
    except (BrokenBundleError, ValueError) as error:  # ValueError: the name is too long to pack
        raise BrokenBundleError(f"{shown}: {error}; fetch or build the bundle again") from None
    return folder, kept


def read_capped(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises BrokenBundleError if the path is not a file, or if the file is too large for a bundle.
    """
    if not path.is_file():  # a pipe or a device might never end
        state = "not a file" if path.exists() else "no such file"
        raise BrokenBundleError(f"{path}: {state}")
    try:
        with path.open("rb") as stream:
            # `read(n)` allocates n bytes first, so n is close to the file's size.
            size = os.fstat(stream.fileno()).st_size
            content = stream.read(min(size, MAX_PACKED_BYTES) + 1)
    except OSError as error:
        raise BrokenBundleError(f"{path}: {error.strerror}") from None
    if len(content) > MAX_PACKED_BYTES:
        raise BrokenBundleError(
            f"{path}: larger than {MAX_PACKED_BYTES:,} bytes, the maximum of an archive; check "
            "the path"
        )
    return content


def unpack_gzip(content: bytes) -> bytes:
    """Return the content of one gzip stream.

    Raises BrokenBundleError if bytes follow the stream.
    """
    unpacker = zlib.decompressobj(wbits=31)  # gzip with its header and checksum
    limit = min(MAX_UNPACKED_BYTES, max(SMALL_BYTES, MAX_RATIO * len(content)))
    unpacked = io.BytesIO()
    rest = content
    try:
        while not unpacker.eof:
            part = unpacker.decompress(rest, CHUNK_BYTES)
            rest = unpacker.unconsumed_tail
            if not part and not rest and not unpacker.eof:
                raise BrokenBundleError("truncated: the end of its compressed data is missing")
            unpacked.write(part)
            if unpacked.tell() > limit:
                raise BrokenBundleError(
                    f"{len(content):,} bytes unpack to more than {limit:,} bytes, the maximum"
                )
    except zlib.error as error:
        raise BrokenBundleError(f"not a .tar.gz archive, or damaged: {error}") from None
    if unpacker.unused_data:
        raise BrokenBundleError(f"{len(unpacker.unused_data):,} bytes follow the archive's end")
    return unpacked.getvalue()


def read_tar(content: bytes) -> dict[str, bytes]:
    """Map the checked names of the files in an uncompressed archive to their contents."""
    files: dict[str, bytes] = {}
    taken: set[str] = set()
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:", errors="strict") as archive:
            for entry in read_entries(archive):
                check_name(entry.name)
                # Some systems ignore case or compose letters. On these systems, two names with one
                # key are equal.
                key = unicodedata.normalize("NFC", entry.name).casefold()
                if key in taken:
                    raise BrokenBundleError(f"two entries are named {entry.name!r}")
                taken.add(key)
                stream = archive.extractfile(entry)
                assert stream is not None  # read_entries yields only files
                files[entry.name] = read_exactly(stream, entry)
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise BrokenBundleError(f"not a tar archive, or damaged: {error}") from None
    return files


def read_entries(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the entries. Raises BrokenBundleError if an entry is not a plain file."""
    for number, entry in enumerate(archive, 1):
        if number > MAX_ENTRIES:
            raise BrokenBundleError(f"it has more than {MAX_ENTRIES:,} entries, the maximum")
        if entry.type != tarfile.REGTYPE or entry.pax_headers:
            kind = "a link" if entry.issym() or entry.islnk() else "not a plain file"
            raise BrokenBundleError(f"the entry {entry.name!r} is {kind}; a bundle has only files")
        yield entry


def read_exactly(stream: IO[bytes], entry: tarfile.TarInfo) -> bytes:
    data = stream.read()
    if len(data) != entry.size:
        raise BrokenBundleError(
            f"truncated: {entry.name!r} has {len(data):,} of {entry.size:,} bytes"
        )
    return data


def check_name(name: str) -> None:
    """Raise BrokenBundleError if a name could leave the folder of the unpacked files."""
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or name[1:2] == ":":
        raise BrokenBundleError(f"the entry {name!r} has an absolute name, or a backslash")
    if any(part in ("", ".", "..") for part in parts):
        raise BrokenBundleError(f"the entry {name!r} has an empty part, '.' or '..' in its name")
    if not name.isprintable():
        raise BrokenBundleError(f"the entry {name!r} has characters that cannot be printed")
    if len(parts) > MAX_DEPTH:
        raise BrokenBundleError(f"the entry {name!r} is more than {MAX_DEPTH} folders deep")


def split_folder(files: Mapping[str, bytes]) -> tuple[str, list[str]]:
    """Return the only folder at the top, and the names of the files in the folder."""
    folders = {PurePosixPath(name).parts[0] for name in files}
    if len(folders) != 1 or any("/" not in name for name in files):
        names = ", ".join(sorted(folders))
        raise BrokenBundleError(f"expected one folder that contains all files; found {names}")
    (folder,) = folders
    return folder, [name.removeprefix(f"{folder}/") for name in files]


LEVEL = 5
"""The level of zlib. Level 6 needs 1.5 times as long and saves 1.4 % (bundle of DS-CNN)."""

PART_BYTES = 128 * 1024
WINDOW_BYTES = 32 * 1024
"""The maximum distance of a reference to earlier bytes in deflate (RFC 1951)."""

HEADER = bytes((0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255))
"""A gzip header (RFC 1952) with the method deflate and no name, time, or operating system."""


def compress(content: bytes) -> bytes:
    """Return the bytes as one gzip stream. Parallel threads compress its parts.

    The parts have equal sizes on every machine. Therefore the stream has equal bytes on every
    machine.
    """
    starts = range(0, len(content), PART_BYTES) or [0]
    with ThreadPoolExecutor(count_cores()) as pool:
        parts = pool.map(partial(deflate, content), starts)
        checksum = zlib.crc32(content).to_bytes(4, "little")
        return b"".join([HEADER, *parts, checksum, (len(content) % 2**32).to_bytes(4, "little")])


def deflate(content: bytes, start: int) -> bytes:
    """Return the compressed part from ``start`` on. The blocks end at a byte boundary."""
    end = start + PART_BYTES
    window = content[max(start - WINDOW_BYTES, 0) : start]
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=window)
    packed = packer.compress(content[start:end])
    return packed + packer.flush(zlib.Z_SYNC_FLUSH if end < len(content) else zlib.Z_FINISH)
