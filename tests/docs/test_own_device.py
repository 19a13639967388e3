"""The device on the page about devices works without a change."""

from __future__ import annotations

import re
import sys

import pytest

from tests.e2e.conftest import ROOT, Repository

PAGE = ROOT / "docs" / "howto" / "own-device.md"
FILE = re.compile(r"```\w+\n(?:# |/\* )([\w/.-]+\.\w+)(?: \*/)?\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The files of the page, and the network that one of them writes."""
    repository = Repository(tmp_path_factory.mktemp("chip"))
    for name, text in FILE.findall(PAGE.read_text("utf-8")):
        (repository.folder / name).parent.mkdir(parents=True, exist_ok=True)
        repository.write(name, text)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.run(sys.executable, "make_net.py")
    return repository


def test_the_device_takes_one_sum_says_why_not_the_other_and_computes_it(chip: Repository) -> None:
    explained = chip.firmwright("explain", "net.yaml").stdout
    assert "npu: a sum of two tensors of one scale is one job of the NPU" in explained
    assert "npu: scale: its tensors have 2 scales; the NPU takes one for both and" in explained
    done = chip.doit("build", "recipe=net.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    run = chip.manifest("build/net/net-board.tar.gz")["run"]
    assert run["differences"] == 0
    (source,) = chip.folder.glob("build/net/board/sources/network/network.c")
    assert "fw_npu_wait(0u)" in source.read_text()


def test_its_results_are_wrong_without_the_wait(chip: Repository) -> None:
    jobs = chip.folder / "npu_jobs.py"
    text = jobs.read_text()
    chip.write("npu_jobs.py", text.replace('wait_function="fw_npu_wait"', "wait_function=None"))
    failed = chip.doit("build", "recipe=net.yaml")
    chip.write("npu_jobs.py", text)
    assert failed.returncode == 1
    assert "differ from the reference" in failed.stdout + failed.stderr


def test_a_mistake_is_told_as_the_page_says(chip: Repository) -> None:
    npu = chip.folder / "npu.py"
    text = npu.read_text()
    chip.write("npu.py", text.replace("place_sums(module)", "[place_sums(module)]"))
    failed = chip.firmwright("explain", "net.yaml")
    chip.write("npu.py", text)
    assert failed.returncode == 1
    assert "npu.py:8: place: returned a list; expected a Placement (npu:NPU)" in failed.stderr
