"""The variations of the second build need programs that some machines lack."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from firmwright.bundle.archive import write_archive
from firmwright.cluster.order import run_build
from firmwright.errors import UserError
from firmwright.rebuild import reproduce
from firmwright.rebuild.reproduce import install_wheel, read_result, runs, write_all_differences
from tests.hammer.campaign import list_processes


def test_programs_that_vary_a_build_are_tried_first() -> None:
    assert runs(("env",))
    assert not runs(("false",))  # like unshare without permission
    assert not runs(("firmwright-no-such-program",))


def test_a_wheel_is_another_installation(tmp_path: Path) -> None:
    pytest.importorskip("setuptools.command.bdist_wheel", reason="needs setuptools 70.1")
    place = install_wheel(tmp_path)
    asked = "import firmwright; print(firmwright.__file__)"
    environment = os.environ | {"PYTHONPATH": str(place)}
    done = subprocess.run(
        [sys.executable, "-c", asked], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(place / "firmwright" / "__init__.py")
    assert [*place.glob("firmwright-*.dist-info/sboms")]


def test_a_wheel_is_not_made_of_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "IS_CHECKOUT", False)
    with pytest.raises(UserError, match="not an editable installation"):
        install_wheel(tmp_path)


@pytest.mark.needs("diffoscope")
def test_all_differences_are_written_where_a_program_can(tmp_path: Path) -> None:
    archives = [tmp_path / name for name in ("first.tar.gz", "second.tar.gz")]
    for path, content in zip(archives, (b"one\ntwo\n", b"one\nzwei\n"), strict=True):
        write_archive(path, "digits", {"notes.txt": content})
    (found,) = write_all_differences(tmp_path, *archives)
    text = (tmp_path / "differences.txt").read_text("utf-8")
    assert found.endswith("differences.txt")
    assert "digits/notes.txt" in text
    assert {"-two", "+zwei"} <= {line.strip("│ ") for line in text.splitlines()}


def test_builds_without_a_bundle_are_not_the_same(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"did not write net-host.tar.gz, so no files can"):
        read_result(tmp_path / "net-host.tar.gz")


def test_a_build_is_run_by_what_varies_it(tmp_path: Path) -> None:
    wrapper = ("sh", "-c", 'echo varied "$@" >&2; exit 1', "sh")
    with pytest.raises(UserError, match=r"varied .*tasks.programs build .*recipe=x.yaml"):
        run_build(["recipe=x.yaml"], tmp_path, wrapper=wrapper)


SLOW_NETWORK = """\
import os, pathlib, time

def network():
    pathlib.Path("started").write_text(str(os.getsid(0)))
    time.sleep(600)
"""
SLOW_RECIPE = "model: {python: 'slow:network'}\ntarget: c\nplatform: host\n"
BUILDER = """\
from pathlib import Path
from firmwright.cluster.order import run_build
run_build(["recipe=slow.yaml"], Path.cwd())
"""


def test_a_build_ends_with_its_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_NETWORK)
    (tmp_path / "slow.yaml").write_text(SLOW_RECIPE)
    started = tmp_path / "started"
    with subprocess.Popen([sys.executable, "-c", BUILDER], cwd=tmp_path) as builder:
        wait_for(lambda: started.exists() and started.read_text() != "")
        builder.kill()
    wait_for(lambda: not list_processes(int(started.read_text())))


def wait_for(condition: Callable[[], bool], seconds: int = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
