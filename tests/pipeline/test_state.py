"""If doit's state is damaged, the affected tasks run again, and no traceback is printed."""

from __future__ import annotations

import random
import resource
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from doit.dependency import JSONCodec

from firmwright.pipeline.freshness import DurableDB

VALUE = {"outputs": {"x": [1, 2, 3, 4, "digest"]}}


def open_state(folder: Path) -> DurableDB:
    """Open a state and release its lock, which this process would hold until its end."""
    opened = DurableDB(str(folder / ".doit.db"), JSONCodec())
    opened.lock.close()
    return opened


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A closed state that knows two tasks."""
    written = open_state(tmp_path)
    for task in ("first", "second"):
        written.set(task, "_values_:", VALUE)
        written.set(task, "deps:", ["a"])
    written.dump()
    return tmp_path


def test_what_is_written_is_read(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read = open_state(state)
    assert [read.get(task, "_values_:") for task in ("first", "third")] == [VALUE, None]
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    "row", ["no JSON", "null", "[]", '["", "{}"]', '{"_values_:": 1}', "\udcff", None, 5]
)
def test_a_damaged_row_is_forgotten(
    state: Path, capsys: pytest.CaptureFixture[str], row: object
) -> None:
    with sqlite3.connect(state / ".doit.db") as table:
        content = row.encode("utf-8", "surrogateescape") if isinstance(row, str) else row
        table.execute("update doit set task_data = ? where task_id = 'first'", (content,))
    read = open_state(state)
    assert (read.get("first", "_values_:"), read.get("second", "_values_:")) == (None, VALUE)
    output = capsys.readouterr().err
    assert output == "" or "the state of first is damaged: the stage runs again" in output
    read.set("first", "deps:", ["b"])
    read.dump()


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_never_lies(state: Path, seed: int) -> None:
    path, draw = state / ".doit.db", random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 20, 200))):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    read = open_state(state)
    assert read.get("first", "_values_:") in (None, VALUE)
    read.set("first", "deps:", ["b"])
    read.dump()


def test_a_state_that_cannot_be_written_ends_the_build_in_words(state: Path) -> None:
    read = open_state(state)
    (state / ".doit.db").unlink()
    read.set("first", "_values_:", VALUE)
    with pytest.raises(SystemExit, match="cannot be read or written: "):
        read.set("first", "deps:", ["b"])


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Let writes beyond this size (bytes) fail, as after ``ulimit -f``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


TOO_LARGE = r"disk I/O error \(files have at most 4096 bytes\); choose another build folder"


def test_a_limit_of_file_size_is_not_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with limit_file_size(4096), pytest.raises(SystemExit, match=TOO_LARGE):
        open_state(tmp_path)
    assert not capsys.readouterr().err


def test_a_failed_write_keeps_the_old_state(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = open_state(state)
    failing.set("first", "_values_:", {"outputs": {}})
    with limit_file_size(4096), pytest.raises(SystemExit, match=TOO_LARGE):
        failing.set("first", "deps:", ["b"])
    del failing
    read = open_state(state)
    assert [read.get(task, "_values_:") for task in ("first", "second")] == [VALUE, VALUE]
    assert not capsys.readouterr().err


def test_a_rollback_that_fails_is_not_damage(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A killed build leaves a journal, and the next build restores the old pages from it."""
    path = state / ".doit.db"
    with closing(sqlite3.connect(path)) as table:
        table.execute("pragma cache_size = 1")
        table.execute("pragma cache_spill = 1")
        table.executemany(
            "insert into doit values (?, ?)", [(f"task {n}", 500 * "x") for n in range(100)]
        )
        for name in (".doit.db", ".doit.db-journal"):
            shutil.copyfile(state / name, state / f"{name}.copy")
    for name in (".doit.db", ".doit.db-journal"):
        (state / f"{name}.copy").rename(state / name)
    with limit_file_size(4096), pytest.raises(SystemExit, match=TOO_LARGE):
        open_state(state)
    with closing(sqlite3.connect(path)) as table:
        tasks = [task for (task,) in table.execute("select task_id from doit order by task_id")]
    assert tasks == ["first", "second"]
    assert not capsys.readouterr().err


@pytest.mark.parametrize("name", [".doit.db", ".doit.db.lock"])
def test_a_state_that_cannot_be_opened_ends_the_build_in_words(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(SystemExit, match="choose another build folder"):
        open_state(tmp_path)
