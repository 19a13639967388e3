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
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from firmwright.toolchain.opened_files import OpenedFiles

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
    place = user_cache_path("firmwright") / FOLDER / f"{key}.json"
    kept = KNOWN.get(key) or read_kept(place)
    if kept is None or not kept.holds():
        kept = make_fingerprint(look())
        if all(map(is_settled, kept.watched.values())):
            keep_fingerprint(kept, place)
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
    with suppress(OSError, ValueError, KeyError, TypeError):
        digest, _, text = place.read_text("utf-8").partition("\n")
        if digest == text_digest(text):
            known = json.loads(text)
            return Fingerprint(known["digest"], known["watched"])
    return None


def keep_fingerprint(found: Fingerprint, place: Path) -> None:
    """Keep a fingerprint if the user's cache can be written."""
    text = json.dumps({"digest": found.digest, "watched": found.watched})
    unfinished = place.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(f"{text_digest(text)}\n{text}", "utf-8")
        unfinished.replace(place)
