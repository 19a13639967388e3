"""The Python interface makes the command line's bundle, and writes its messages."""

from __future__ import annotations

import pytest

import firmwright
from firmwright.errors import UserError

from .conftest import Repository


def test_build_returns_the_bundle(
    copy_of_built: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(copy_of_built.folder)
    path = copy_of_built.folder / "build/digits/digits-rv32-bare.tar.gz"
    before = path.stat().st_mtime_ns
    bundle = firmwright.build("digits.yaml")
    assert bundle.path.samefile(path)
    assert path.stat().st_mtime_ns == before  # the build of the command line was up to date
    assert bundle.manifest["run"]["mismatches"] == 0
    assert bundle.files["firmware.elf"].startswith(b"\x7fELF")
    with pytest.raises(UserError, match="unknown platform 'rv32-bear'; did you mean 'rv32-bare'"):
        firmwright.build("digits.yaml", platform="rv32-bear")
