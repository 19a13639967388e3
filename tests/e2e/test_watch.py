"""`firmwright watch` builds after each change, in copies of one process with imported modules."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

from firmwright.folders import PACKAGE, TOP
from firmwright.pipeline.freshness import identify
from firmwright.system import FolderChanges
from firmwright.watch import (
    DIED,
    WAITING,
    BuildResult,
    WarmProcess,
    is_in_memory,
    list_changed_since,
    name_changed,
    wait_for_change,
)

from .conftest import Repository, ran

pytestmark = pytest.mark.fresh

LIMIT = 300
"""Seconds until a missing build fails the test."""


class Watcher:
    """A running `firmwright watch digits.yaml`."""

    def __init__(self, repository: Repository) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "firmwright.cli", "watch", "digits.yaml"],
            cwd=repository.folder, env=repository.environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.bundle = repository.folder / "build/digits/digits-rv32-bare.tar.gz"

    def read_build(self) -> str:
        """Return the output until the process waits for a change."""
        assert self.process.stdout
        timer = Timer(LIMIT, self.process.kill)
        timer.start()
        lines = []
        for line in self.process.stdout:
            if WAITING in line:
                break
            lines.append(line)
        timer.cancel()
        assert self.process.poll() is None, "".join(lines)
        return "".join(lines)

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(LIMIT)


@pytest.fixture
def watcher(copy_of_built: Repository) -> Iterator[Watcher]:
    with_process = Watcher(copy_of_built)
    yield with_process
    with_process.process.kill()
    with_process.process.communicate()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_changes_are_built_as_by_any_other_build(
    copy_of_built: Repository, watcher: Watcher
) -> None:
    recipe = (copy_of_built.folder / "digits.yaml").read_text()
    watcher.read_build()
    copy_of_built.write("digits.yaml", recipe + "cflags: [-Os]\n")
    printed = watcher.read_build()
    assert printed.startswith("changed: digits.yaml\n")
    assert ran(printed) == ["sources", "objects", "firmware", "run", "stats", "bundle"]
    copy_of_built.write("digits.yaml", recipe + "cflags: [-Os]\nrounding: onnx\nseed: 3\n")
    printed = watcher.read_build()
    assert "digits.yaml:6:1: seed: unknown key" in printed
    copy_of_built.write("digits.yaml", recipe + "cflags: [-Os]\nbatch: 2\n")
    assert "kernels" in ran(watcher.read_build())
    # The parent process has now imported TVM for all later copies.
    assert "libtvm" in Path(f"/proc/{watcher.process.pid}/maps").read_text()
    copy_of_built.write("digits.yaml", recipe + "cflags: [-Os]\nbatch: 3\n")
    assert "kernels" in ran(watcher.read_build())
    assert watcher.end() == 0
    watched = digest(watcher.bundle)
    copy_of_built.build("recipe=digits.yaml", "outdir=elsewhere")
    assert digest(copy_of_built.folder / "elsewhere/digits-rv32-bare.tar.gz") == watched


def test_wrong_words_end_it(copy_of_built: Repository) -> None:
    done = copy_of_built.run(sys.executable, "-m", "firmwright.cli", "watch", "digit.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "recipe=digit.yaml: no such recipe; did you mean 'digits'?\n"


def test_change_during_a_build_is_seen(tmp_path: Path) -> None:
    old, new, folder = tmp_path / "old", tmp_path / "new", tmp_path / "folder"
    old.touch()
    begun = old.stat().st_ctime_ns + 1
    new.touch()
    while new.stat().st_ctime_ns < begun:  # the clock of a file system ticks slowly
        new.touch()
    folder.mkdir()
    paths = [str(p) for p in (old, new, folder, tmp_path / "missing")]
    assert list_changed_since(begun, {}, identify(paths)) == [str(new)]


def test_change_since_the_last_look_is_seen_whatever_its_time(tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.touch()
    folder.mkdir()
    paths = [str(file), str(folder)]
    before = identify(paths)
    file.write_text("changed")
    Path(folder, "new").touch()
    assert list_changed_since(time.time_ns(), before, identify(paths)) == [str(file)]


def test_change_is_seen_once_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    before = identify([str(file)])
    file.write_text("changed")
    with FolderChanges() as alarm:
        assert wait_for_change(before, alarm) == identify([str(file)]) != before


def test_alarm_rings_at_a_change_beside_a_path(tmp_path: Path) -> None:
    file, long = tmp_path / "file", 60.0
    file.touch()
    with FolderChanges() as alarm:
        alarm.listen_beside([str(file), str(tmp_path / "missing/file")])
        begun = time.monotonic()
        Timer(0.1, lambda: file.write_text("changed")).start()
        alarm.sleep(long)
        assert time.monotonic() - begun < long / 2


def test_without_an_alarm_it_sleeps(tmp_path: Path) -> None:
    with FolderChanges():
        pass  # its module is now imported; the import needs a file descriptor
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        alarm = FolderChanges()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    alarm.listen_beside([str(tmp_path)])
    begun = time.monotonic()
    alarm.sleep(0.1)
    assert time.monotonic() - begun >= 0.1


def test_copy_that_dies_knows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def die() -> BuildResult:
        signal.raise_signal(signal.SIGKILL)
        return BuildResult((), ["a"])

    with WarmProcess(die) as copy:
        assert copy.build() == BuildResult((), ())
    assert capsys.readouterr().err == f"{DIED}\n"


def test_copy_without_a_word_ends_with_its_owner() -> None:
    with WarmProcess(lambda: BuildResult((), ["a"])):
        pass


def test_copy_ends_at_ctrl_c(capfd: pytest.CaptureFixture[str]) -> None:
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with WarmProcess(lambda: BuildResult((), ["a"])) as copy:
            status = Path(f"/proc/{copy.process}/stat")
            while status.read_text().rpartition(")")[2].split()[0] != "S":  # it sleeps
                time.sleep(0.01)
            os.kill(copy.process, signal.SIGINT)
            assert copy.build() == BuildResult((), ())
    finally:
        signal.signal(signal.SIGINT, ignored)
    assert "KeyboardInterrupt" not in capfd.readouterr().err


def test_mistake_in_a_copy_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> BuildResult:
        raise RuntimeError("what no one thought of")

    with WarmProcess(fail) as copy:
        assert copy.build() == BuildResult((), ())
    assert "what no one thought of" in capfd.readouterr().err


def test_changed_files_are_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kws.yaml").touch()
    assert name_changed([".", str(tmp_path), "kws.yaml", str(tmp_path / "kws.yaml")]) == "kws.yaml"
    assert name_changed([".", str(tmp_path)]) == "."


def test_custom_code_is_in_memory_and_a_template_is_not() -> None:
    assert is_in_memory(str(PACKAGE / "errors.py"))
    assert is_in_memory(str(TOP / "tasks/dodo.py"))
    assert not is_in_memory(str(TOP / "templates/network/network.c.j2"))
    assert not is_in_memory(str(TOP / "recipes/digits.yaml"))
