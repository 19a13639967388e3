"""The package of a new device: it installs, its test passes, and wrong names are rejected."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firmwright.cli import main

PIP = ("pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--no-compile")


def test_the_package_installs_and_its_test_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "device", "acme_npu"]) == 0
    assert "cd firmwright-acme-npu && " in capsys.readouterr().out
    package, site = tmp_path / "firmwright-acme-npu", tmp_path / "site"
    # The options of this run do not exist in the package.
    own = {**os.environ, "PYTHONPATH": str(site), "PYTEST_ADDOPTS": ""}
    for command in (
        (*PIP, "--target", str(site), "."),
        ("pytest", "-q", f"--basetemp={tmp_path / 't'}"),
    ):
        words = [sys.executable, "-m", *command]
        done = subprocess.run(
            words, cwd=package, env=own, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert main(["new", "device", "acme_npu"]) == 1
    assert "firmwright-acme-npu already exists; remove it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("My-NPU", "'My-NPU' cannot name a device; use a C identifier in lower case, such as"),
        ("while", "'while' cannot name a device; use a C identifier"),
        ("none", "'none' cannot name a device; use a C identifier"),
        ("npu_", "'npu_' cannot name a device; use a C identifier"),
        ("hal", "firmwright has templates with the name 'hal'; choose another name"),
        ("report", "firmwright has templates with the name 'report'; choose another name"),
        ("tidl", "the device 'tidl' is already installed; choose another name"),
    ],
)
def test_names_that_cannot_name_a_device_are_rejected(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "device", name]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
