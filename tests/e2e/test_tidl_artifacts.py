"""What a build for TIDL leaves for TI's tools, in its folder and in the bundle."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import Repository, copy_of, new_repository

RECIPE = """\
model: digits.onnx
platform: am62a
compile_for_device: false
target: tidl, c
run: {inputs: inputs.npz, samples: 3}
"""
FOLDER = "digits_AM62A_host_tidl_noc7x"


@pytest.fixture(scope="module")
def tidl(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    repository = new_repository(tmp_path_factory.mktemp("tidl"))
    repository.environment.pop("TIDL_TOOLS_PATH", None)
    repository.write("digits.yaml", RECIPE)
    repository.build("recipe=digits.yaml")
    return repository


def test_the_bundle_has_what_the_tools_need_but_no_data_of_the_users(tidl: Repository) -> None:
    stem = "digits-am62a-host"
    bundle = f"build/digits/{stem}.tar.gz"
    with tarfile.open(tidl.folder / bundle) as archive:
        names = {m.name for m in archive.getmembers()}
    folder = f"{stem}/artifacts/{FOLDER}/tempDir"
    assert {
        f"{folder}/{name}"
        for name in ("subgraph0.onnx", "tidl_import_subgraph0.txt", "relay.nfo", "allowedNode.txt")
    } <= names
    assert not [name for name in names if "calib_raw_data" in name]
    manifest = tidl.manifest(bundle)
    artifacts = manifest["artifacts"]
    assert artifacts["folder"] == FOLDER
    assert artifacts["model"] == manifest["model"]["sha256"]
    assert artifacts["tools"] is None
    (region,) = artifacts["regions"]
    assert (region["bits"], region["prequantised"]) == (8, True)
    assert len(artifacts["samples"]) == artifacts["frames"] == 20
    kept = tidl.folder / "build/digits/am62a-host/artifacts" / FOLDER / "tempDir"
    assert (kept / "calib_raw_data0.bin").stat().st_size == 20 * 64


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (None, "run: {inputs: …}"),
        (np.zeros((3, 1, 8, 9), "int8"), "run.inputs"),
        (np.zeros((0, 1, 8, 8), "int8"), "run.inputs"),
        (np.full((3, 1, 8, 8), "one"), "run.inputs"),
    ],
    ids=["none", "shape", "count", "type"],
)
def test_without_samples_that_fit_nothing_is_calibrated(
    tidl: Repository, tmp_path: Path, samples: np.ndarray[Any, Any] | None, message: str
) -> None:
    tidl = copy_of(tidl, tmp_path)
    if samples is None:
        tidl.write("digits.yaml", RECIPE.replace("inputs: inputs.npz, ", ""))
    else:
        np.savez(tidl.folder / "inputs.npz", image=samples)
    done = tidl.doit("artifacts", "recipe=digits.yaml")
    assert done.returncode != 0
    told = done.stdout + done.stderr
    assert "target: tidl: " in told
    assert message in told
    assert "Traceback" not in told
