"""Real builds of a fleet: the bundles of single builds, also where a worker dies."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from .conftest import Repository, new_repository

FLEET = """\
recipes: [digits.yaml, broken.yaml]
platforms: [host]
options: {samples: [1, 2]}
exclude: [{recipe: broken, samples: 2}]
"""


def start(repository: Repository, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "firmwright.cli", "fleet", *words],
        cwd=repository.folder, env=repository.environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def find_builds(fleet: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return the processes in which a fleet builds."""
    builds = []
    for process in psutil.Process(fleet.pid).children(recursive=True):
        try:
            if "firmwright.fleet.build_process" in process.cmdline():
                builds.append(process)
        except psutil.NoSuchProcess:
            continue
    return builds


def wait_for_build(fleet: subprocess.Popen[str]) -> psutil.Process:
    while not (builds := find_builds(fleet)):
        assert fleet.poll() is None
        time.sleep(0.05)
    return builds[0]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_fleet_survives_its_workers_and_a_broken_recipe(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    repository.write("fleet.yaml", FLEET)
    repository.write("broken.yaml", "model: digits.onnx\nrun: {inputs: none.npz}\n")
    fleet = start(repository, "--workers", "2")
    build = wait_for_build(fleet)
    worker = build.parent()
    assert worker is not None
    worker.kill()
    psutil.wait_procs([build], timeout=60)
    assert not build.is_running()  # it ends with its worker
    said = fleet.communicate()[0]
    assert fleet.returncode == 1, said
    assert "its worker died; another one gets it" in said
    assert "broken.yaml:2:15: run.inputs: no such file: 'none.npz'" in said
    assert said.endswith("2 of 3 built, 1 failed; build/fleet/fleet.html\n")

    results = json.loads((tmp_path / "build/fleet/fleet.json").read_text())["outcomes"]
    assert [outcome["exact"] for outcome in results] == ["exact", "exact", ""]
    repository.environment["FIRMWRIGHT_CACHE"] = ""
    for outcome, samples in zip(results, ("1", "2"), strict=False):
        repository.build("recipe=digits.yaml", "platform=host", f"samples={samples}")
        assert outcome["sha256"] == digest(tmp_path / "build/digits/digits-host.tar.gz")

    repository.write("broken.yaml", (tmp_path / "digits.yaml").read_text())
    done = repository.run(sys.executable, "-m", "doit", "fleet", "fleet=fleet.yaml", "workers=1")
    assert done.returncode == 0, done.stdout + done.stderr
    table = (tmp_path / "build/fleet/fleet.md").read_text()
    assert "| digits-host-samples-2 | exact |" in table
    assert table.count("|  |\n") == 2  # nothing is otherwise
    assert "| failed before, built now |" in table


def test_without_the_extra_the_command_names_it(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "repository")
    repository.write("fleet.yaml", "recipes: [digits.yaml]\n")
    package = tmp_path / "packages" / "distributed.py"
    package.parent.mkdir()
    package.write_text("raise ModuleNotFoundError('not here', name='distributed')\n")
    paths = [str(package.parent), os.environ.get("PYTHONPATH", "")]
    repository.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = repository.run(sys.executable, "-m", "firmwright.cli", "fleet")
    assert done.returncode == 2
    assert done.stderr == (
        "a fleet needs the package 'distributed': python -m pip install 'firmwright[fleet]'\n"
    )


@pytest.mark.parametrize(
    "words", [["--workers", "0"], ["--workers", "2", "--scheduler", "tcp://x"]]
)
def test_wrong_workers(tmp_path: Path, words: list[str]) -> None:
    repository = new_repository(tmp_path)
    repository.write("fleet.yaml", "recipes: [digits.yaml]\n")
    done = repository.run(sys.executable, "-m", "firmwright.cli", "fleet", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("workers=")
