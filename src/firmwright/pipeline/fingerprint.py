"""The digest of the files that a tool opens, kept for all builds of a user.

To find these files, the tool runs; to digest them, they are read. Both happen again only if a file
or a folder that decides has changed: its size, times or inode differ.
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
"""In the user's cache: a file for each question."""

VARIABLES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME")
"""Of the environment, those by which programs and their libraries are found."""


@dataclass(frozen=True)
class Fingerprint:
    """``digest`` identifies everything that a tool opens, on any machine.

    As long as the ``watched`` files and folders are as they were, so is the digest.
    """

    digest: str
    watched: Mapping[str, Identity]

    def holds(self) -> bool:
        """Return whether nothing of it has changed."""
        return identify(self.watched) == self.watched


KNOWN: dict[str, Fingerprint] = {}
"""Those that this process has looked at, by the digest of the question."""


def find_fingerprint(question: Sequence[str], look: Callable[[], OpenedFiles]) -> Fingerprint:
    """Return the fingerprint of a tool; ``look`` finds the files if no kept fingerprint holds.

    ``question`` has everything that decides which files these are, next to files themselves.
    """
    stated = [os.environ.get(name, "") for name in VARIABLES]
    key = text_digest(json.dumps([*question, *stated]))
    cache = find_cache_folder()
    place = cache / FOLDER / f"{key}.json" if cache else None
    kept = KNOWN.get(key) or (read_kept(place) if place else None)
    if kept is None or not kept.holds():
        kept = make_fingerprint(look())
        if place and all(map(is_settled, kept.watched.values())):
            write_checked(place, json.dumps(asdict(kept)).encode())
    KNOWN[key] = kept
    return kept


def make_fingerprint(opened: OpenedFiles) -> Fingerprint:
    """Digest files by their names and contents, in no order; of a path only the name counts."""
    watched = identify(sorted({*opened.files, *opened.places}))
    real = {os.path.realpath(path): Path(path).name for path in opened.files}
    lines = sorted({f"{name} {file_digest(path)}" for path, name in real.items()})
    text = "\n".join([*opened.facts, *lines])
    return Fingerprint(hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest(), watched)


def read_kept(place: Path) -> Fingerprint | None:
    """Return a kept fingerprint, None if there is none or if it is damaged."""
    content = read_checked(place)
    if content is None:
        return None
    with suppress(ValueError, TypeError):  # of another version
        return Fingerprint(**json.loads(content))
    return None
