"""``-v`` and ``--log``: the programs that a command starts, its lines, and the log's file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firmwright import run_log
from firmwright.errors import UserError
from firmwright.progress import begin_task
from firmwright.run_log import FIRST_LINE, Request

LINE = "objects:net-host$ cd /tmp && true 'a b'\n"


@pytest.fixture(autouse=True)
def task() -> Iterator[None]:
    begin_task("objects:net-host")
    yield
    run_log.begin(Request())
    begin_task("")


def start() -> None:
    subprocess.run(["true", "a b"], cwd="/tmp", check=True)


def test_a_program_is_a_line_for_a_shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "x.log"
    run_log.begin(Request(verbose=True, file=log))
    start()
    run_log.begin(Request())
    start()
    assert (capsys.readouterr().err, log.read_text()) == (LINE, FIRST_LINE + LINE)


def test_a_log_alone_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "x.log"
    run_log.begin(Request(file=log))
    start()
    assert (capsys.readouterr().err, log.read_text()) == ("", FIRST_LINE + LINE)


def test_a_copy_of_the_process_writes_to_the_same_log(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    run_log.begin(Request(file=log))
    copy = os.fork()
    if not copy:
        start()
        os._exit(0)
    os.waitpid(copy, 0)
    run_log.note("an escape \x1b")
    assert log.read_text() == f"{FIRST_LINE}{LINE}an escape \\u001b\n"


def test_a_new_log_replaces_a_log_and_no_other_file(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("# log of firmwright 0.0.1\nold\n")
    run_log.begin(Request(file=log))
    assert log.read_text() == FIRST_LINE
    recipe = tmp_path / "net.yaml"
    recipe.write_text("model: net.onnx\n")
    with pytest.raises(UserError, match=r"net\.yaml: exists and is not a log; choose another"):
        run_log.begin(Request(file=recipe))
    assert recipe.read_text() == "model: net.onnx\n"
    with pytest.raises(UserError, match="cannot be written: No such file or directory"):
        run_log.begin(Request(file=tmp_path / "none" / "x.log"))


def test_an_error_of_a_command_is_in_its_log(tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text("model: none.onnx\nplatform: host\ntarget: c\n")
    done = subprocess.run(
        [sys.executable, "-m", "firmwright", "build", "net.yaml", "--log", "net.log"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("net.yaml:1:8: model: no such file")
    assert (tmp_path / "net.log").read_text() == FIRST_LINE + done.stderr
