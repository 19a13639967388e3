"""The artifacts of a build for TI's tools, in its folder and in the bundle."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from firmwright.models.onnx.importer import run_reference
from firmwright.quantize.float_graph import session_options
from tests.devices.tidl.fake_tools import FAILS, calls, fake_tools

from .conftest import ROOT, Repository, copy_of, new_repository, ran

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
        for name in ("subgraph0.onnx", "tidl_import_subgraph0.txt", "relay.nfo", "import.sh")
    } <= names
    assert not [name for name in names if "calib_raw_data" in name]
    manifest = tidl.manifest(bundle)
    artifacts = manifest["artifacts"]
    assert artifacts["folder"] == FOLDER
    assert artifacts["model"] == manifest["model"]["sha256"]
    assert artifacts["tools"] is None
    (region,) = artifacts["regions"]
    assert (region["bits"], region["prequantized"]) == (8, True)
    assert len(artifacts["samples"]) == artifacts["frames"] == 20


def assert_reference(folder: Path, model: Path, one: str, shape: tuple[int, ...]) -> None:
    """Compare the only sub-model, on its calibration tensors, with the network's reference."""
    frames = np.fromfile(folder / "calib_raw_data0.bin", "int8").reshape(-1, *shape)
    part = onnxruntime.InferenceSession(folder / "subgraph0.onnx", session_options())
    for frame in frames:
        (expected,) = run_reference(model.read_bytes(), [{one: frame}]).outputs[0]
        (found,) = part.run(None, {"tidl_0_i0": frame})
        np.testing.assert_array_equal(found, expected)


def test_the_sub_model_gives_what_the_network_does_on_the_users_samples(tidl: Repository) -> None:
    stage = tidl.folder / "build/digits/am62a-host/artifacts"
    given = np.load(tidl.folder / "inputs.npz")["image"][:20]
    data = (stage / FOLDER / "tempDir/calib_raw_data0.bin").read_bytes()
    assert data == given.astype("int8").tobytes()
    model = tidl.folder / "digits.onnx"
    assert_reference(stage / FOLDER / "tempDir", model, "image", (1, 1, 8, 8))


def test_resnet8_has_the_sub_model_of_its_quantized_network(
    mirror: Callable[[str], None], tmp_path: Path
) -> None:
    mirror("resnet8-j721s2")
    repository = new_repository(tmp_path / "repository")
    shutil.copytree(ROOT / "recipes", repository.folder / "recipes", dirs_exist_ok=True)
    done = repository.doit("artifacts", "recipe=recipes/resnet8-j721s2.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    network = repository.folder / "build/resnet8-j721s2"
    (folder,) = (network / "j721s2/artifacts").glob("*/tempDir")
    assert folder.parent.name == "resnet8-j721s2_J721S2_target_tidl_noc7x"
    assert_reference(folder, network / "quantized/model.onnx", "input_1", (1, 3, 32, 32))


def test_a_batch_for_the_c7x_is_calibrated_with_whole_batches(
    tidl: Repository, tmp_path: Path
) -> None:
    tidl = copy_of(tidl, tmp_path)
    build = ("recipe=digits.yaml", "platform=AM67A", "target=tidl, c7x", "batch=8")
    done = tidl.doit("artifacts", *build)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tidl.folder / "build/digits").glob("am67a*/artifacts/*/tempDir")
    assert folder.parent.name == "digits_AM67A_host_tidl_c7x_bs8"
    text = (folder / "tidl_import_subgraph0.txt").read_text().splitlines()
    assert "numBatches = 8" in text
    (frames,) = (int(line.split(" = ")[1]) for line in text if line.startswith("numFrames = "))
    assert (folder / "calib_raw_data0.bin").stat().st_size == frames * 8 * 64


@pytest.mark.parametrize(
    ("samples", "target", "message"),
    [
        (None, "tidl, c", "state `calibration: {inputs: …}`"),
        (np.zeros((3, 1, 8, 9), "int8"), "tidl, c", "the calibration samples, run.inputs: "),
        (
            np.zeros((3, 1, 8, 8), "int8"),
            "tidl -advanced_options:calibration_frames=4, c",
            "run.inputs has 3 calibration samples; advanced_options:calibration_frames=4 needs 4",
        ),
    ],
    ids=["none", "shape", "count"],
)
def test_without_samples_that_fit_nothing_is_calibrated(
    tidl: Repository,
    tmp_path: Path,
    samples: np.ndarray[Any, Any] | None,
    target: str,
    message: str,
) -> None:
    tidl = copy_of(tidl, tmp_path)
    if samples is None:
        tidl.write("digits.yaml", RECIPE.replace("inputs: inputs.npz, ", ""))
    else:
        np.savez(tidl.folder / "inputs.npz", image=samples)
    done = tidl.doit("artifacts", "recipe=digits.yaml", f"target={target}")
    assert done.returncode != 0
    printed = done.stdout + done.stderr
    assert "target: tidl: " in printed
    assert message in printed
    assert "Traceback" not in printed


def test_with_tools_the_bundle_has_their_networks(tidl: Repository, tmp_path: Path) -> None:
    tools = fake_tools(tmp_path / "tools")
    tidl = copy_of(tidl, tmp_path)
    tidl.environment = {**tidl.environment, "TIDL_TOOLS_PATH": str(tools)}
    built = tidl.doit("build", "recipe=digits.yaml")
    assert built.returncode == 0, built.stdout + built.stderr
    assert f"{FOLDER}: 1 region for TIDL, imported by TI's tools 11_00_06_00" in built.stdout
    assert ran(built.stdout) == ["artifacts", "bundle"]
    (call,) = calls(tools)
    assert call["argv"][1] == "tidl_import_subgraph0.txt"
    assert call["files"]["calib_raw_data0.bin"] == 20 * 64
    bundle = "build/digits/digits-am62a-host.tar.gz"
    manifest = tidl.manifest(bundle)
    assert manifest["artifacts"]["tools"] == "11_00_06_00"
    assert manifest["versions"]["TIDL tools"].startswith("sha256 ")
    names = {f["path"].rpartition("/")[2] for f in manifest["files"]}
    assert {"subgraph0_net.bin", "subgraph0_params_1.bin"} <= names
    assert "by_the_way.svg" not in names  # TI's tools write the build folder's path
    kept = tidl.folder / "build/digits/am62a-host/artifacts" / FOLDER / "tempDir"
    assert (kept / "by_the_way.svg").exists()
    assert tidl.build("recipe=digits.yaml") == []
    on_chip = ("recipe=digits.yaml", "compile_for_device=true")
    done = tidl.doit("run", *on_chip, "application:digits-am62a")
    assert "1 region by TIDL-RT, from the files of TI's tools 11_00_06_00" in done.stdout
    written = {p.name for p in (tidl.folder / "build/digits/am62a/application").iterdir()}
    assert written >= {"fw_tidl.c", "Makefile", "subgraph0_net.bin", "subgraph0_params_1.bin"}


def test_tools_that_are_half_installed_end_the_build(tidl: Repository, tmp_path: Path) -> None:
    tools = fake_tools(tmp_path / "tools")
    (tools / "ti_cnnperfsim.out").unlink()
    tidl = copy_of(tidl, tmp_path)
    assert tidl.firmwright("lock", "digits.yaml").returncode == 0
    tidl.environment = {**tidl.environment, "TIDL_TOOLS_PATH": str(tools)}
    done = tidl.doit("build", "recipe=digits.yaml")
    printed = done.stdout + done.stderr
    assert done.returncode != 0
    assert f"TIDL_TOOLS_PATH={tools} has no file ti_cnnperfsim.out; set" in printed
    assert "Traceback" not in printed


def test_a_failed_import_ends_the_build_with_its_log(tidl: Repository, tmp_path: Path) -> None:
    tools = fake_tools(tmp_path / "tools", FAILS)
    tidl = copy_of(tidl, tmp_path)
    tidl.environment = {**tidl.environment, "TIDL_TOOLS_PATH": str(tools)}
    done = tidl.doit("artifacts", "recipe=digits.yaml")
    printed = done.stdout + done.stderr
    assert done.returncode != 0
    assert "the network is not understood" in printed
    assert "Traceback" not in printed
    log = "build/digits/.cache/tidl_import/subgraph0.log"
    assert log in printed
    assert "line 0\n" in (tidl.folder / log).read_text()


def test_files_of_the_users_in_the_folder_are_not_wiped(tidl: Repository, tmp_path: Path) -> None:
    tidl = copy_of(tidl, tmp_path)
    notes = tidl.folder / "build/digits/am62a-host/artifacts" / FOLDER / "notes.txt"
    notes.write_text("measured on the board\n")
    done = tidl.doit("artifacts", "recipe=digits.yaml", "target=tidl -debug_level=1, c")
    printed = done.stdout + done.stderr
    assert done.returncode != 0
    assert f"no build of this version wrote {FOLDER}/notes.txt; move it" in printed
    assert notes.read_text() == "measured on the board\n"
    assert notes.with_name("tempDir").is_dir()
