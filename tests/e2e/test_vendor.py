"""A folder with all inputs of recipes, for builds without a network connection."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firmwright.rebuild.reproduce import runs

from .conftest import Repository

OFFLINE = ("unshare", "--map-root-user", "--net")


@pytest.fixture
def vendored(repository: Repository, tmp_path: Path) -> Path:
    (repository.folder / "parts").mkdir()
    repository.write("parts/base.yaml", "run: {inputs: ../inputs.npz, samples: 1}\n")
    repository.write("digits.yaml", "extends: parts/base.yaml\nmodel: digits.onnx\n")
    repository.write("small.yaml", "target: c\n")
    words = ("vendor", "digits.yaml:small.yaml", "--to", str(tmp_path / "vendored"))
    done = repository.firmwright(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("  firmwright build digits.yaml:small.yaml\n")
    assert repository.firmwright(*words, "--check").stdout == "complete\n"
    (tmp_path / "vendored/files/small.yaml").unlink()
    (tmp_path / "vendored/files/parts/base.yaml").write_text("")
    missing = repository.firmwright(*words, "--check")
    message = "differs: files/parts/base.yaml\nmissing: files/small.yaml\n"
    assert (missing.returncode, missing.stdout) == (1, message)
    assert repository.firmwright(*words).returncode == 0
    return tmp_path / "vendored"


def test_vendored_recipes_build_without_network(vendored: Path) -> None:
    if not runs(OFFLINE):
        pytest.skip("unshare cannot take the network away here")
    command = (sys.executable, "-m", "firmwright", "build", "digits.yaml:small.yaml")
    environment = {**os.environ, "FIRMWRIGHT_MIRROR": str(vendored / "mirror")}
    done = subprocess.run(
        [*OFFLINE, *command],
        cwd=vendored / "files", env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 samples exact" in done.stdout
