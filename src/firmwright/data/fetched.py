"""Data files that a recipe names by digest: fetched once into the build folder's cache."""

from __future__ import annotations

import hashlib
from pathlib import Path

from firmwright.data.sources import DataFile
from firmwright.errors import UserError
from firmwright.models.fetch import MIRROR_VARIABLE, download, from_mirror


def fetched_file(file: DataFile, cache: Path) -> Path:
    """Return a file with the content of that digest: cached, from a mirror folder, or downloaded.

    Raises UserError where nobody has it.
    """
    assert file.sha256 is not None
    kept = cache / "data" / file.sha256
    if kept.is_file() and hashlib.sha256(kept.read_bytes()).hexdigest() == file.sha256:
        return kept
    data = from_mirror(file.shown, file.sha256)
    if data is None and file.url is None:
        raise UserError(
            f"{file.shown}: no folder in {MIRROR_VARIABLE} holds the file with sha256 "
            f"{file.sha256}, and the recipe states no `url` for it"
        )
    if data is None:
        data = download(file.url or "", file.sha256, "the file")
    kept.parent.mkdir(parents=True, exist_ok=True)
    unfinished = kept.with_suffix(".partial")
    unfinished.write_bytes(data)
    unfinished.replace(kept)
    return kept
