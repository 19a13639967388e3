"""The codes of docs/reference/exit-codes.md are the codes of the commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doit import doit_cmd, loader

from firmwright import cli
from tests.quality.test_repository import ROOT

PAGE = ROOT / "docs/reference/exit-codes.md"
MISSING = {
    "diff": "a.tar.gz b.tar.gz",
    "fleet": "a.yaml",
    "image": "a.tar.gz --image-version 1.0.0 --slot 1KiB",
    "inspect": "a.tar.gz",
    "matrix": "a.yaml",
    "push": "a.tar.gz registry.example/a:1",
    "rebuild": "a.tar.gz",
    "show": "a.yaml",
    "sign": "a.tar.gz",
    "verify-bundle": "a.tar.gz --policy policy.yaml",
}
"""Commands that end with code 2 for a missing file, and their arguments."""


def read_commands(column: int) -> set[str]:
    """Return the commands whose code in a column of the second table has a meaning."""
    rows = [line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines()]
    table = [row for row in rows if len(row) == 6 and row[1].startswith(" `")]
    named = [row[1] for row in table if row[column + 2].strip()]
    return {name for cell in named for name in re.findall("`([a-z-]+)`", cell)}


@pytest.mark.parametrize("command", MISSING)
def test_a_missing_file(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loader, "initial_workdir", None)  # the commands set both
    monkeypatch.setattr(doit_cmd, "_CMDLINE_VARS", None)
    assert command in read_commands(2)
    assert cli.main([command, *MISSING[command].split()]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_table_has_all_these_commands() -> None:
    others = {"explain", "export", "info", "pull", "vendor"}  # these need a recipe or a server
    assert read_commands(2) - others == {*MISSING}
