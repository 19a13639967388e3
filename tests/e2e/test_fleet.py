"""Builds of a fleet equal single builds, also if a worker dies."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fleet.cluster import Cluster

from .conftest import Repository, new_repository

FLEET = """\
recipes: [digits.yaml, broken.yaml]
platforms: [rv32-bare]
options: {samples: [1, 2]}
exclude: [{recipe: broken, samples: 2}]
"""


def start(repository: Repository, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "firmwright.cli", "fleet", *words],
        cwd=repository.folder, env=repository.environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def wait_for_build(fleet: subprocess.Popen[str]) -> psutil.Process:
    """Return the first process of the fleet that builds a job: a copy in a separate session."""
    while True:
        assert fleet.poll() is None
        for child in psutil.Process(fleet.pid).children():
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                if os.getsid(child.pid) == child.pid and child.cmdline() == fleet.args:
                    return child
        time.sleep(0.05)


def read_results(repository: Repository, outdir: str) -> dict[str, dict[str, Any]]:
    content = json.loads((repository.folder / outdir / "fleet/fleet.json").read_text())
    return {outcome["job"]: outcome for outcome in content["outcomes"]}


def test_the_same_bundles_after_a_killed_build_and_from_a_cache_that_lies(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    repository.environment["FIRMWRIGHT_CACHE"] = str(tmp_path / "cache")
    repository.write("fleet.yaml", FLEET)
    repository.write("broken.yaml", "model: digits.onnx\nrun: {inputs: none.npz}\n")
    fleet = start(repository, "--workers", "1")
    wait_for_build(fleet).kill()
    said = fleet.communicate()[0]
    assert fleet.returncode == 1, said
    assert "the build was ended by SIGKILL: probably out of memory" in said
    assert "broken.yaml:2:15: run.inputs: no such file: 'none.npz'" in said
    assert said.endswith("1 of 3 built, 2 failed; build/fleet/fleet.html\n")
    fleet = start(repository, "--workers", "2")
    said = fleet.communicate()[0]
    assert said.endswith("2 of 3 built, 1 failed; build/fleet/fleet.html\n")
    results = read_results(repository, "build")
    assert [outcome["exact"] for outcome in results.values()] == ["exact", "exact", ""]

    repository.environment["FIRMWRIGHT_CACHE"] = ""
    repository.build("recipe=digits.yaml", "platform=rv32-bare", "samples=1")
    bundle = (tmp_path / "build/digits/digits-rv32-bare.tar.gz").read_bytes()
    assert results["digits-rv32-bare-samples-1"]["sha256"] == hashlib.sha256(bundle).hexdigest()

    for path in tmp_path.glob("cache/cas/*/*"):
        path.write_bytes(b"lie")
    repository.environment |= {
        "FIRMWRIGHT_CACHE": str(tmp_path / "cache"),
        "FIRMWRIGHT_CACHE_ROLE": "read",
    }
    with ExitStack() as stack:
        cluster = Cluster(stack, tmp_path)
        cluster.add("somebody's")
        words = ("recipe=digits.yaml", "platform=rv32-bare", "samples=1", "outdir=again")
        command = ("-m", "doit", "fleet", *words, f"scheduler={cluster.address}")
        done = repository.run(sys.executable, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    again = read_results(repository, "again")["digits-rv32-bare"]
    assert again["sha256"] == results["digits-rv32-bare-samples-1"]["sha256"]
    log = (tmp_path / "again/fleet/digits-rv32-bare/build.log").read_text()
    assert "the stage ran instead" in log


@pytest.mark.parametrize(
    ("number", "said"),
    [(signal.SIGINT, "interrupted"), (signal.SIGHUP, "ended by SIGHUP")],
)
def test_a_stopped_fleet_ends_with_all_that_it_started(
    tmp_path: Path, number: signal.Signals, said: str
) -> None:
    repository = new_repository(tmp_path)
    repository.environment["FIRMWRIGHT_CACHE"] = ""
    platforms = "[host, rv32-bare, cortex-m4-bare]"  # builds long enough for the signal
    repository.write("fleet.yaml", f"recipes: [digits.yaml]\nplatforms: {platforms}\n")
    fleet = start(repository)
    wait_for_build(fleet)
    processes = psutil.Process(fleet.pid).children(recursive=True)
    fleet.send_signal(number)
    output = fleet.communicate()[0]
    assert fleet.returncode == 128 + number
    first, second = output.splitlines()
    assert first == f"{said}; finished stages are kept"
    assert re.fullmatch(r"\d of 3 built, [1-3] not tried; build/fleet/fleet.html", second)
    _, left = psutil.wait_procs(processes, timeout=60)
    assert not left


def test_without_the_extra_the_command_names_it(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "repository")
    repository.write("fleet.yaml", "recipes: [digits.yaml]\n")
    package = tmp_path / "packages" / "distributed.py"
    package.parent.mkdir()
    package.write_text("raise ModuleNotFoundError('not here', name='distributed')\n")
    paths = [str(package.parent), os.environ.get("PYTHONPATH", "")]
    repository.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = repository.run(sys.executable, "-m", "firmwright.cli", "fleet", "--scheduler", "tcp://x")
    assert done.returncode == 2
    assert done.stderr == (
        "workers need the package 'distributed': python -m pip install 'firmwright[fleet]'\n"
    )


def test_a_wrong_cache_is_told_once_as_by_a_build(repository: Repository) -> None:
    repository.write("fleet.yaml", "recipes: [digits.yaml]\nplatforms: [host, rv32-bare]\n")
    repository.write("file", "")
    for place, message in (
        ("file", "is not a folder"),
        ("ftp://127.0.0.1:1/x", "cannot be opened"),
    ):
        repository.environment["FIRMWRIGHT_CACHE"] = place
        fleet = repository.run(sys.executable, "-m", "firmwright.cli", "fleet")
        assert (fleet.returncode, fleet.stdout) == (2, "")
        assert fleet.stderr.startswith(f"FIRMWRIGHT_CACHE: '{place}' {message}")
        assert repository.doit("build", "recipe=digits.yaml").stderr == fleet.stderr


def test_a_cache_that_cannot_be_reached_is_told_in_the_log(repository: Repository) -> None:
    repository.write("fleet.yaml", "recipes: [digits.yaml]\nplatforms: [host]\n")
    repository.environment["FIRMWRIGHT_CACHE"] = "http://127.0.0.1:1"
    fleet = repository.run(sys.executable, "-m", "firmwright.cli", "fleet")
    assert fleet.returncode == 0, fleet.stdout + fleet.stderr
    log = (repository.folder / "build/fleet/digits-host/build.log").read_text()
    assert "shared cache: http://127.0.0.1:1" in log


@pytest.mark.parametrize(
    "words", [["--workers", "0"], ["--workers", "2", "--scheduler", "tcp://x"]]
)
def test_wrong_workers(tmp_path: Path, words: list[str]) -> None:
    repository = new_repository(tmp_path)
    repository.write("fleet.yaml", "recipes: [digits.yaml]\n")
    done = repository.run(sys.executable, "-m", "firmwright.cli", "fleet", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("workers=")
