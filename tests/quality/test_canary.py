"""The canary reports how a step ended, also if a signal ended it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .canary import try_step


@pytest.mark.parametrize(
    ("program", "succeeds", "report"),
    [
        ("print('fine')", True, "step: ok\n"),
        ("raise SystemExit('no such name')", False,
         "step: failed with exit code 1\n  no such name\n  from the log\n"),
        ("print('gone: tvm.x\\nother'); raise SystemExit(1)", False,
         "step: failed with exit code 1\n  gone: tvm.x\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", False,
         "step: ended by SIGSEGV\n  from the log\n"),
    ],
)  # fmt: skip
def test_the_end_of_a_step(
    program: str, succeeds: bool, report: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".libraries.log").write_text("from the log\n")
    assert try_step("step", tmp_path, "-c", program) == succeeds
    assert capsys.readouterr().out == report
