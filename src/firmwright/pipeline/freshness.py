"""Checks whether the result of a stage is still valid, because doit's checks have gaps.

doit's checkers accept an unchanged modification time and do not check targets. The checkers write
their state only when doit ends. In this module, a file is unchanged if all values that the file
system stores are equal, because a write always changes the change time. If the values differ, the
digests are compared. Results are checked like inputs. The state of a task is written before the
next task starts.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, TextIO

import msgspec
from doit.dependency import DatabaseException, FileChangedChecker, SqliteDB
from doit.task import Task

from firmwright.errors import UserError
from firmwright.system import find_file_limit, lock_file

from .differences import list_reasons
from .profile import count_time

MOST_REASONS = 5
FileState = Sequence[Any]
"""A file's size in bytes, modification and change time in ns, inode number and SHA-256."""


Identity = Sequence[int]
"""A file state without the digest, or an empty list if the file is missing."""


BEGUN = time.time_ns()
TICK, WHOLE_SECOND = 20_000_000, 1_000_000_000
"""Times in nanoseconds.

Clocks of file systems have steps of at most TICK, or of one or two seconds.
"""


def file_identity(status: os.stat_result) -> list[int]:
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def read_identity(path: str | Path) -> list[int]:
    return file_identity(os.stat(path))  # noqa: PTH116 (a Path would double the time)


def identify(paths: Iterable[str]) -> dict[str, Identity]:
    """Return the size, times and inode number of each file, or [] for an unreadable file."""
    identities: dict[str, Identity] = {}
    for path in paths:
        try:
            identities[path] = read_identity(path)
        except OSError:
            identities[path] = []
    return identities


def is_settled(identity: Identity) -> bool:
    """Return whether the last change of a file was before this process began.

    The difference is so large that a later change has a different time.
    """
    times = identity[1:3]
    return all(t + (TICK if t % WHOLE_SECOND else 2 * WHOLE_SECOND) < BEGUN for t in times)


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 of a file. A process reads an unchanged file only once."""
    with count_time("hashing"):
        return _read_digest(str(path), *read_identity(path))


@cache
def _read_digest(path: str, *_identity: int) -> str:
    total = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while block := stream.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def read_state(path: str | Path) -> list[Any]:
    return [*read_identity(path), file_digest(path)]


class ContentChecker(FileChangedChecker):  # type: ignore[misc]
    """A checker of doit that compares file dependencies by content."""

    def check_modified(self, file_path: str, file_stat: os.stat_result, state: list[Any]) -> bool:
        """Return whether the content differs.

        If the content is equal, the method updates the recorded times.
        """
        now = file_identity(file_stat)
        if now == state[:4]:
            return False
        if now[0] != state[0] or file_digest(file_path) != state[4]:
            return True
        state[:4] = now
        return False

    def get_state(self, dep: str, current_state: FileState | None) -> list[Any] | None:
        if current_state and read_identity(dep) == list(current_state[:4]):
            return None
        return read_state(dep)


def lock_folder(path: Path) -> TextIO:
    """Lock a build folder while the file is open, so that two builds do not run at once.

    Processes that a build forks also hold the lock until they end, because they may write into the
    folder. A message on stderr warns about file systems without locks, such as NFS without a lock
    service.
    """
    try:
        stream = path.open("w")
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}; choose another build folder with outdir=")
    try:
        lock_file(stream, wait=False)
    except BlockingIOError:
        print(f"waiting for another build in {path.parent}", file=sys.stderr, flush=True)
        lock_file(stream)
    except OSError as error:
        without = f"this file system has no locks ({error.strerror})"
        print(f"{path}: {without}; run one build at a time in {path.parent}", file=sys.stderr)
    return stream


DAMAGED = (DatabaseException, sqlite3.Error, ValueError)
"""The exceptions for a damaged state. The messages of sqlite3 may be undecodable."""

DISK_ERRORS = {
    "disk I/O error",
    "database or disk is full",
    "unable to open database file",
    "attempt to write a readonly database",
}
"""Messages of sqlite3 about a file that cannot be read or written.

These messages do not mean that the content is damaged. Error numbers exist only since Python 3.11.
"""


@contextmanager
def report_disk_errors(name: str) -> Iterator[None]:
    """End the program with one line if sqlite3 cannot read or write the file ``name``."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if str(error) not in DISK_ERRORS:
            raise
        size = find_file_limit()
        limit = "" if size is None else f" (files have at most {size} bytes)"
        sys.exit(
            f"{name}: the state of the build cannot be read or written: {error}{limit}; "
            "choose another build folder with outdir="
        )


class DurableDB(SqliteDB):  # type: ignore[misc]
    """doit's sqlite3 state.

    The state is written after every task, so a killed build keeps its results. Each row contains
    doit's record of a task as JSON text, and the digest of the text.
    """

    desc = "sqlite3, written after every task"

    def __init__(self, name: str, codec: Any, *, module_name: str | None = None) -> None:
        """Open the state, and replace a damaged file.

        The method waits while another build uses the file.
        """
        self.stored: dict[str, str] = {}
        """The digests of the rows in the file."""
        self.lock = lock_folder(Path(f"{name}.lock"))
        try:
            with report_disk_errors(name):
                self.open(name, codec, module_name)
        except DAMAGED:
            print(f"{name} is damaged: all stages run again", file=sys.stderr)
            try:
                for path in (Path(name), Path(f"{name}-journal")):
                    path.unlink(missing_ok=True)
                self.open(name, codec, module_name)
            except (*DAMAGED, OSError) as error:
                sys.exit(f"{name}: cannot be created again: {error}; remove it, or change outdir=")

    def _sqlite3(self, name: str) -> sqlite3.Connection:
        """Open the table like doit, but without sqlite's locks. firmwright locks the folder."""
        for kind in (list, dict):
            sqlite3.register_adapter(kind, self.codec.encode)
        sqlite3.register_converter("json", partial(read_json, self.codec))
        database = f"{Path(name).absolute().as_uri()}?vfs=unix-none"
        connection = sqlite3.connect(database, detect_types=sqlite3.PARSE_DECLTYPES, uri=True)
        connection.row_factory = sqlite3.Row
        # Do not sync. A killed process loses no data, and a check finds the damage of a power
        # failure. A sync after every stage needs more time than some stages.
        connection.execute("pragma synchronous = off")
        connection.execute(
            "create table if not exists doit (task_id text not null primary key, task_data json)"
        )
        return connection

    def open(self, name: str, codec: Any, module_name: str | None) -> None:
        """Open the file and check its pages. Raises an exception of DAMAGED if the check fails."""
        super().__init__(name, codec, module_name=module_name)
        (verdict,) = self._conn.execute("pragma quick_check(1)").fetchone()
        if verdict != "ok":
            raise DatabaseException(verdict)

    def _get_task_data(self, task_id: str) -> dict[str, Any]:
        try:
            with report_disk_errors(self.name):
                row = super()._get_task_data(task_id)
            digest, text = row or ["", ""]
            known: dict[str, Any] = read_json(self.codec, text.encode()) if row else {}
        except sqlite3.ProgrammingError:  # the database is closed
            raise
        except (TypeError, ValueError, sqlite3.Error):
            digest, text, known = "", "damaged", {}
        if text and digest != text_digest(text):
            print(
                f"{self.name}: the state of {task_id} is damaged: the stage runs again",
                file=sys.stderr,
            )
            return {}
        self.stored[task_id] = digest
        return known

    def set(self, task_id: str, dependency: str, value: Any) -> None:
        super().set(task_id, dependency, value)
        # doit sets this value last for a successful task. A group has no values, so its state is
        # written later.
        if dependency == "deps:" and self._cache[task_id].get("_values_:"):
            self._write([task_id])
            self._dirty.discard(task_id)

    def dump(self) -> None:
        """Write the states of all loaded tasks, because the checker changes loaded states."""
        self._write(sorted(self._cache))
        self._conn.close()
        self._dirty.clear()

    def _write(self, tasks: Iterable[str]) -> None:
        texts = [(t, self.codec.encode(self._cache[t])) for t in tasks if self._cache[t]]
        rows = [(task, [text_digest(text), text]) for task, text in texts]
        # A snapshot requires that the file stays unchanged if no task was run or forgotten.
        rows = [(task, row) for task, row in rows if self.stored.get(task) != row[0]]
        with self._tell_failure():
            if rows:
                self._conn.executemany("insert or replace into doit values (?,?)", rows)
            self._conn.commit()
            self.stored.update({task: digest for task, (digest, _) in rows})

    def remove(self, task_id: str) -> None:
        with self._tell_failure():
            super().remove(task_id)

    def remove_all(self) -> None:
        with self._tell_failure():
            super().remove_all()

    @contextmanager
    def _tell_failure(self) -> Iterator[None]:
        """End the program with one line if the state cannot be written."""
        try:
            with report_disk_errors(self.name):
                yield
        except sqlite3.Error as error:
            sys.exit(
                f"{self.name}: the finished stage cannot be recorded: {error}; choose another "
                "build folder with outdir="
            )


def read_json(codec: Any, data: bytes) -> Any:
    """Return decoded JSON. msgspec is faster than doit's codec, but needs names in UTF-8."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return codec.decode(data.decode())


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class UpToDateCheck:
    """A doit condition that is true if options and results are unchanged and no file was added.

    The text of the condition lists the differences, which `doit info` shows.
    """

    # doit reads the parameter names of each object. A stored signature is 20 times faster than
    # Python's inspection.
    __signature__ = Signature(
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("task", "values")]
    )

    def __init__(
        self, configuration: Mapping[str, Any], outputs: Callable[[], Iterable[str]]
    ) -> None:
        self.configuration = configuration
        self.outputs = outputs
        self.reasons: list[str] = []

    def __str__(self) -> str:
        more = len(self.reasons) - MOST_REASONS
        return "; ".join(self.reasons[:MOST_REASONS]) + (f"; and {more} more" if more > 0 else "")

    def __call__(self, task: Task, values: Mapping[str, Any]) -> bool:
        task.value_savers.append(self.record)
        self.reasons = [*self.find_reasons(values)]
        return not self.reasons

    def find_reasons(self, values: Mapping[str, Any]) -> Iterator[str]:
        recorded = values.get("outputs")
        if not recorded:
            yield "it has not run yet"
            return
        yield from list_reasons(values["configuration"], self.configuration)
        expected = {*self.outputs()}
        for path, state in recorded.items():
            status = read_status(path)
            if status is None:
                yield f"{path} is missing"
            elif path not in expected:  # the state was copied together with a build folder
                yield f"{path} is in another build folder"
            elif ContentChecker().check_modified(path, status, state):
                yield f"{path} was changed since the stage wrote it"
        if expected & recorded.keys():
            # For example, `make` writes files into the sources, and later stages would read these
            # files.
            yield from (
                f"{path} was not written by the stage"
                for path in sorted(expected - recorded.keys())
            )

    def record(self) -> dict[str, Any]:
        outputs = {path: read_state(path) for path in sorted(self.outputs())}
        return {"configuration": self.configuration, "outputs": outputs}


def read_status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 (a Path would double the time)
    except OSError:
        return None


class InputWatch:
    """Detects inputs that change while a stage reads them, before builds share the result."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.before = {p: read_identity(p) for p in paths}

    def check(self) -> None:
        for path, before in self.before.items():
            if not Path(path).exists() or read_identity(path) != before:
                raise UserError(f"{path} changed while it was being read; build again")
