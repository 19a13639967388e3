"""Defines an artifact: a file that one stage writes and other stages read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, Protocol, TypeVar

from firmwright.created_folders import INDEX_FILE
from firmwright.errors import to_printable

from .freshness import read_identity

T = TypeVar("T")

NETWORK_STAGE = "network"
"""A placeholder for the stage that writes the network to be compiled."""

LOWERED_STAGE = "lowered"
"""A placeholder for the stage that writes the regions to be lowered."""

ARRAYS = "arrays"
MODULE = "tvm:IRModule"
PATH = "pathlib:Path"

KEPT_RECORDS = 64
"""The number of records that a process keeps, because stages read records repeatedly."""


class Folders(Protocol):
    def folder(self, stage: str, /) -> Path: ...


class Stages(Folders, Protocol):
    """The interface of a job that knows which stages apply."""

    def has_stage(self, stage: str, /) -> bool: ...


@dataclass(frozen=True)
class Artifact(Generic[T]):
    """A file that a stage writes into its folder.

    ``kind`` is the type of the value that is read from the file:

    - "module:Class": a record of this class; the module is imported when the record is read
    - ``ARRAYS``: arrays by name (.npz)
    - ``MODULE``: a Relax module
    - ``PATH``: the path of the file, for a caller that reads the file. The path is the
      stage's folder if ``file`` is empty.
    """

    stage: str
    file: str
    kind: str

    def path(self, job: Folders) -> Path:
        return job.folder(self.stage) / self.file

    def read(self, job: Folders) -> T:
        """Return the value that the stage wrote. Raises UserError if the file is damaged."""
        result: T = read_file(self.path(job), self.kind)
        return result

    def find(self, job: Stages) -> T | None:
        """Return the value; None if the stage does not apply or did not write the file."""
        exists = job.has_stage(self.stage) and self.path(job).exists()
        return self.read(job) if exists else None

    def pack(self, job: Folders, prefix: str = "") -> dict[str, Path]:
        """Return a mapping from names below ``prefix`` in the bundle to the artifact's files."""
        path = self.path(job)
        if self.file:
            return {f"{prefix}{self.file}": path}
        files = sorted(p for p in path.rglob("*") if p.is_file() and p.name != INDEX_FILE)
        return {f"{prefix}{p.relative_to(path).as_posix()}": p for p in files}

    def write(self, folder: Path, value: T) -> None:
        write_file(folder / self.file, self.kind, value)


class FileList(Protocol):
    """A record that lists the files of a folder next to the record.

    Later stages read these files.
    """

    @property
    def folder(self) -> str: ...

    @property
    def files(self) -> tuple[str, ...]: ...


Listed = TypeVar("Listed", bound=FileList)


def pack_listed(artifact: Artifact[Listed], job: Folders) -> dict[str, Path]:
    """Return a mapping from names in the bundle to a record and the files that the record lists."""
    record = artifact.read(job)
    prefix = f"{artifact.stage}/{record.folder}"
    folder = job.folder(artifact.stage) / record.folder
    return artifact.pack(job) | {f"{prefix}/{name}": folder / name for name in record.files}


def read_file(path: Path, kind: str) -> Any:
    if kind == PATH:
        return path
    if kind == MODULE:
        import tvm  # noqa: F401  (names the classes of nodes)
        from tvm_ffi.serialization import from_json_graph_str

        # tvm.ir.load_json would parse and write the text again to convert files of old releases.
        return from_json_graph_str(path.read_text(encoding="utf-8"))
    if kind == ARRAYS:
        from firmwright.ir.array_files import read_arrays

        return read_arrays(path)
    return read_known_record(path, kind, *read_identity(path))


@lru_cache(KEPT_RECORDS)
def read_known_record(path: Path, kind: str, *_identity: int) -> Any:
    """Return a record that callers must not change, without reading an unchanged file again."""
    from firmwright.ir.records import read_record

    return read_record(path, resolve_name(kind))


def write_file(path: Path, kind: str, value: Any) -> None:
    if kind == MODULE:
        import tvm

        path.write_text(to_printable(tvm.ir.save_json(value)), encoding="utf-8")
        return
    from firmwright.ir.array_files import write_arrays
    from firmwright.ir.records import write_record

    if kind == ARRAYS:
        write_arrays(path, value)
    else:
        write_record(path, value)
