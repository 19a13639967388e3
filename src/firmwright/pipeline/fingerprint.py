"""Computes the digest of the files that a tool opens, and stores the digest per user.

The tool must run to find these files, and the files are read for the digest. The run and the
reading are repeated only if the size, the times or the inode of a relevant file or folder change.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from firmwright.checked_file import read_checked, write_checked
from firmwright.toolchain.opened_files import OpenedFiles
from firmwright.user_folders import find_cache_folder

from .freshness import Identity, file_digest, identify, is_settled, text_digest

FOLDER = "tools"
"""The folder in the user's cache that contains one file per question."""

VARIABLES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME")
"""Environment variables that set the search paths of programs and libraries."""


@dataclass(frozen=True)
class Fingerprint:
    """A ``digest`` that identifies all files that a tool opens, on any machine.

    The digest is valid while the ``watched`` files and folders are unchanged.
    """

    digest: str
    watched: Mapping[str, Identity]

    def holds(self) -> bool:
        return identify(self.watched) == self.watched


KNOWN: dict[tuple[str, ...], Fingerprint] = {}
"""A mapping from question and environment to the fingerprint that this process has checked."""


def find_fingerprint(question: Sequence[str], look: Callable[[], OpenedFiles]) -> Fingerprint:
    """Return a tool's fingerprint.

    ``look`` finds the files if no stored fingerprint is valid. ``question`` contains all values,
    except the files, that determine the set of files.
    """
    key = (*question, *(os.environ.get(name, "") for name in VARIABLES))
    kept = KNOWN.get(key)
    if kept is not None and kept.holds():
        return kept
    cache = find_cache_folder()
    kept_file = cache / FOLDER / f"{text_digest(json.dumps(key))}.json" if cache else None
    kept = read_kept(kept_file) if kept_file and kept is None else None
    if kept is None or not kept.holds():
        kept = make_fingerprint(look())
        if kept_file and all(map(is_settled, kept.watched.values())):
            write_checked(kept_file, json.dumps(asdict(kept)).encode())
    KNOWN[key] = kept
    return kept


def make_fingerprint(opened: OpenedFiles) -> Fingerprint:
    """Return a fingerprint of file names and contents that does not depend on order and folders."""
    watched = identify(sorted({*opened.files, *opened.locations}))
    real = {os.path.realpath(path): Path(path).name for path in opened.files}
    lines = sorted({f"{name} {file_digest(path)}" for path, name in real.items()})
    text = "\n".join([*opened.facts, *lines])
    return Fingerprint(hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest(), watched)


def read_kept(kept_file: Path) -> Fingerprint | None:
    """Return a stored fingerprint, or None if it is missing or damaged."""
    content = read_checked(kept_file)
    if content is None:
        return None
    with suppress(ValueError, TypeError):  # another version wrote the file
        return Fingerprint(**json.loads(content))
    return None
