"""A reproducible tar archive: the same files give the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

COMPRESSION = 9


def write_archive(path: Path, folder: str, files: Mapping[str, bytes]) -> None:
    """Write files below one folder: sorted, owned by root, at time 0, with plain modes."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", COMPRESSION, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(files[name])
            entry.mode = 0o755 if name.endswith(".elf") else 0o644
            entry.mtime = 0
            archive.addfile(entry, io.BytesIO(files[name]))
