"""What varies the second build: programs that are not on every machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.errors import UserError
from firmwright.pipeline.reproduce import runs
from firmwright.pipeline.separate_build import build_separately


def test_programs_that_vary_a_build_are_tried_first() -> None:
    assert runs(("env",))
    assert not runs(("false",))  # as unshare where it is not allowed
    assert not runs(("firmwright-no-such-program",))


def test_a_build_is_run_by_what_varies_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"code 1:\nvaried .*firmwright.cli build") as raised:
        words = ("sh", "-c", 'echo varied "$@"; exit 1', "sh")
        build_separately(tmp_path / "x.yaml", tmp_path, tmp_path / "build", wrapper=words)
    assert "x.yaml" in str(raised.value)
