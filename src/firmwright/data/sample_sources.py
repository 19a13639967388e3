"""Defines a recipe's data sources for one input.

Task creators import this module, so it has few imports.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

import msgspec

from firmwright.errors import UserError

from .patterns import WILDCARDS, find_matches

KINDS = ("arrays", "raw", "pictures", "python")


class DataFile(msgspec.Struct, frozen=True):
    """One file, the files of a folder, or the files that match a pattern.

    ``path`` starts at the recipe's folder, or at the folder of an installed Python ``package``.
    Without ``path``, ``sha256`` names one file in a mirror folder or at ``url``. Messages use
    ``name``, or the name in ``url``.
    """

    path: str | None = None
    url: str | None = None
    sha256: str | None = None
    name: str | None = None
    package: str | None = None

    @property
    def display_name(self) -> str:
        url_name = PurePosixPath((self.url or "").partition("?")[0]).name
        return self.name or url_name or f"sha256:{(self.sha256 or '')[:16]}"


class Preprocess(msgspec.Struct, frozen=True):
    """The steps from a picture to an input, in this order.

    ``colour`` is RGB, BGR or grey. ``resize`` is (width, height), or the length of the shorter
    side. ``filter`` is a filter of Pillow. ``crop`` is the (width, height) of the middle part to
    keep. At the end, every channel is (pixel - mean) / std with pixels 0 to 255, in single
    precision. At the end, the axes are permuted to ``layout``.
    """

    colour: str = "RGB"
    resize: tuple[int, int] | int | None = None
    filter: str = "bilinear"
    crop: tuple[int, int] | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    layout: str = "NCHW"


class DataSource(msgspec.Struct, frozen=True):
    """The data of one input. ``kind`` is one of KINDS.

    ``arrays`` are ``.npy`` files with a leading sample axis. ``raw`` are files with the
    little-endian bytes of one sample. ``pictures`` are files that Pillow reads. ``python`` is a
    ``function`` ``module:function`` of a module next to the recipe. The function returns an array
    with a sample axis.
    """

    kind: str
    files: tuple[DataFile, ...] = ()
    function: str | None = None
    preprocess: Preprocess | None = None


def list_files(file: DataFile, folder: Path) -> list[Path]:
    """Return the sorted local files that an entry names; empty if no file matches.

    A folder means the files directly in the folder. Folders and patterns exclude hidden files.
    Raises UserError if a pattern searches too many files.
    """
    if file.path is None:
        return []
    start = find_folder(file, folder)
    if start is None:
        return []
    path = start / file.path
    if any(c in file.path for c in WILDCARDS):
        return find_matches(file.path, start)
    if path.is_dir():
        return sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
    return [path]


def find_folder(file: DataFile, folder: Path) -> Path | None:
    """Return the start of an entry's path: ``folder``, or the folder of its installed package.

    None if the package is not installed.
    """
    return folder if file.package is None else find_package_folder(file.package)


def find_package_folder(package: str) -> Path | None:
    """Return the folder of an installed package without importing it, or None."""
    spec = find_spec(package)
    locations = spec.submodule_search_locations if spec is not None else None
    return Path(locations[0]) if locations else None


def require_files(file: DataFile, folder: Path) -> list[Path]:
    """Return the local files that an entry names. Raises UserError if no file matches."""
    paths = list_files(file, folder)
    if not paths and file.path is not None:
        path = (find_folder(file, folder) or folder) / file.path
        reason = "the folder has no files" if path.is_dir() else "no file matches this pattern"
        raise UserError(f"{path}: {reason}")
    return paths


def module_file(function: str, folder: Path) -> Path:
    """Return the file of ``module:function``: ``a.b:f`` is ``a/b.py`` in the recipe's folder."""
    *packages, module = function.partition(":")[0].split(".")
    return folder.joinpath(*packages, f"{module}.py")


@dataclass(frozen=True)
class DataFolders:
    """The recipe's folder, where relative paths start, and a folder for fetched files."""

    folder: Path
    cache: Path
