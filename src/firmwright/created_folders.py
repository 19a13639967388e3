"""Marks the folders that firmwright created: a build removes and replaces only marked folders.

There are two kinds of folders. Each kind has a separate marker. A *claimed* folder, such as the
build folder of a recipe, has ``.firmwright``. Builds add folders and files to this folder. The
folder is removed after all other files. A folder of *results*, such as the folder of a stage, has
``stage.json``, the list of all files that a build wrote to the folder. These files are replaced or
removed together. Other files stay.

The marker is the first file that is written and the last file that is removed. Therefore the next
build does not treat the folder of a killed build as a folder of the user. An empty marker is
ignored, because it is from a killed build.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from firmwright.errors import UserError

MARKER = ".firmwright"
HEADER = "# firmwright created this folder, and replaces or removes its results in it.\n"
OWNER = "recipe: "
"""The prefix of the recipe's path in a marker. The path is relative to the folder."""

INDEX_FILE = "stage.json"
"""The list of a stage's files with their digests. Later stages depend on this list."""

ALL = "*"
"""The entry of an index which states that firmwright wrote all files of the folder, as in an
unfinished stage.
"""

ORIGINS_FILE = "origins.json"
"""The origins of the results of stages, next to the manifest of the bundle."""

UNLISTED = frozenset((INDEX_FILE, ORIGINS_FILE, f".{ORIGINS_FILE}.partial"))
"""Files of a finished stage that its index does not list."""

MOST_SHOWN = 3
"""The maximum number of foreign files that a message names."""


def read_owner(folder: Path) -> str | None:
    """Return the recipe of a claimed folder: '' for several recipes, None for other folders."""
    try:
        text = (folder / MARKER).read_text("utf-8")
    except (OSError, ValueError):
        return None
    if not text.startswith(HEADER):
        return None
    return text.removeprefix(HEADER).removeprefix(OWNER).strip()


def list_foreign_entries(folder: Path) -> list[str]:
    """Return the sorted names in a folder, or [] if the folder is claimed.

    Raises UserError if the folder cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if e.name != MARKER or e.stat().st_size]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be read: {error.strerror}; check its permissions"
        ) from None
    # Read the marker after the names, because a build that claims the folder writes its marker
    # first.
    return sorted(names) if read_owner(folder) is None else []


def claim_folder(folder: Path, owner: str = "") -> None:
    """Create a folder with a marker. Raises UserError if the folder has foreign files.

    A claimed folder gets the owner ``owner`` if it is not ''.
    """
    if foreign := list_foreign_entries(folder):
        raise UserError(describe_foreign(folder, foreign))
    mark_folder(folder, owner)


def mark_folder(folder: Path, owner: str = "") -> None:
    """Create a folder and write its marker, even next to foreign files."""
    folder.mkdir(parents=True, exist_ok=True)
    known = read_owner(folder)
    if known is None:
        (folder / MARKER).write_text(format_marker(owner), "utf-8")
    elif owner not in ("", known):
        unfinished = folder / f"{MARKER}.{os.getpid()}"
        unfinished.write_text(format_marker(owner), "utf-8")
        unfinished.replace(folder / MARKER)


def format_marker(owner: str) -> str:
    return f"{HEADER}{OWNER}{owner}\n" if owner else HEADER


def release_folder(folder: Path) -> None:
    """Remove the marker of a claimed folder if the folder contains only the marker."""
    with suppress(OSError):
        if os.listdir(folder) == [MARKER] and read_owner(folder) is not None:  # noqa: PTH208
            (folder / MARKER).unlink()


def describe_foreign(folder: Path, foreign: Sequence[str]) -> str:
    """Return the message about the foreign files in a folder, or about a file in its place."""
    names = "this" if foreign == ["."] else shorten(foreign)
    return f"{folder}: no build of this version wrote {names}; move it elsewhere or remove it"


def shorten(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(names[:MOST_SHOWN]) + more


def begin_results(unfinished: Path) -> Path:
    """Return an empty folder for results, in a folder that contains only firmwright's files.

    The marker is outside the returned folder, because a stage reads all files of its folder. Raises
    UserError if the outer folder has foreign files.
    """
    remove_folder(unfinished)
    mark_all(unfinished)
    folder = unfinished / "results"
    folder.mkdir()
    return folder


def mark_all(folder: Path) -> None:
    """Create a folder for firmwright's files. The files of an existing folder are kept.

    Raises UserError if the folder has foreign files.
    """
    if ALL not in read_listed(folder):
        remove_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / INDEX_FILE).write_text(json.dumps({"files": ALL}), "utf-8")


def finish_results(results: Path, digests: dict[str, str], folder: Path) -> None:
    """Write the index of a folder of results, and replace the earlier folder with this folder.

    Raises UserError if the earlier folder has foreign files.
    """
    (results / INDEX_FILE).write_text(format_index(digests), "utf-8")
    remove_folder(folder)
    results.rename(folder)


def format_index(digests: Mapping[str, str]) -> str:
    return json.dumps({"files": digests}, indent=1) + "\n"


def remove_folder(folder: Path) -> None:
    """Remove a folder of results.

    Raises UserError before any removal if the folder has foreign files.
    """
    refuse_foreign_files(folder)
    remove_created_files(folder)


def refuse_foreign_files(folder: Path) -> None:
    """Raise UserError if a folder of results has files that no build wrote."""
    if foreign := list_foreign_files(folder):
        raise UserError(describe_foreign(folder, foreign))


def list_foreign_files(folder: Path) -> list[str]:
    """Return the sorted files of a folder that no build wrote, relative to the folder.

    A link or a file in place of the folder is listed as ``.``.
    """
    if folder.is_symlink() or not folder.is_dir():
        return ["."] if os.path.lexists(folder) else []
    files = list_files(folder)
    # Read the index after the files, because a build writes its marker first.
    listed = read_listed(folder)
    return [name for name in files if not ({name, ALL} & listed) and not is_cut(folder, name)]


def remove_created_files(folder: Path) -> None:
    """Remove the files that builds wrote to a folder, and the folders that become empty."""
    if folder.is_symlink() or not folder.is_dir():
        return
    foreign = set(list_foreign_files(folder))
    created = [name for name in list_files(folder) if name not in foreign]
    with suppress(OSError):  # the file belongs to another user, or is already removed
        for name in sorted(created, key=lambda name: name == INDEX_FILE):
            (folder / name).unlink(missing_ok=True)
        for parent, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):
                Path(parent).rmdir()


def list_files(folder: Path) -> list[str]:
    """Return all files and links below a folder, sorted. Links are not followed."""
    return sorted(path.relative_to(folder).as_posix() for path in walk(folder))


def walk(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        paths = [Path(parent, name) for name in (*files, *folders)]
        yield from (path for path in paths if path.is_symlink() or not path.is_dir())


def read_listed(folder: Path) -> frozenset[str]:
    """Return the files that the index of a folder lists, or an empty set without a valid index."""
    index = folder / INDEX_FILE
    try:
        listed = json.loads(b"" if index.is_symlink() else index.read_bytes())["files"]
        return UNLISTED | ({ALL} if listed == ALL else {*{**listed}})
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return frozenset()


def is_cut(folder: Path, name: str) -> bool:
    """Return whether a file is the index that a killed build began to write."""
    return name == INDEX_FILE and not (folder / name).lstat().st_size


def remove_results(
    folders: list[Path], list_targets: Callable[[], list[Path]], dryrun: bool
) -> None:
    """Remove the files that builds wrote, and print the paths of removed and remaining files."""
    targets = list_targets()
    for path in (*folders, *targets):
        foreign = list_foreign_files(path) if path in folders else []
        if os.path.lexists(path) and foreign != ["."]:
            print(f"  {'would remove' if dryrun else 'removed'} {path}", flush=True)
        for name in foreign:
            print(f"  no build wrote {path / name}, so it stays", flush=True)
    if dryrun:
        return
    for folder in folders:
        remove_created_files(folder)
    for target in targets:
        target.unlink(missing_ok=True)
    for parent in {folder.parent for folder in folders}:
        remove_empty(parent)


def remove_empty(folder: Path) -> None:
    """Remove a folder and its empty parents, up to the build root."""
    for existing in (folder, *folder.parents):
        release_folder(existing)
        try:
            existing.rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # the folder is not empty
            return
