"""Builds for SiMa's chips, with the recorded SDK and without an SDK."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml

from firmwright.models.tflite.importer import run_reference
from firmwright.quantize.float_graph import session_options
from tests.devices.mla.sdk import RECORDED, install_sdk
from tests.ready_recipes import read_ready

from .conftest import ROOT, Repository, copy_of, new_repository

pytestmark = pytest.mark.fresh

RECIPE = """\
model: digits.onnx
platform: modalix
compile_for_device: false
target: mla, c
run: {inputs: inputs.npz, samples: 3}
"""
ARTIFACTS = "build/digits/modalix-host/artifacts"
FOLDER = "digits_modalix-host_mla"
LOGIT_STEP = 24
"""Maximum steps of a probability for one step of a logit of the keyword network."""
BUNDLE = "build/digits/digits-modalix-host.tar.gz"


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository whose recipe is built without an SDK."""
    repository = new_repository(tmp_path_factory.mktemp("mla"))
    for variable in ("AFE_PYTHON", "MODEL_COMPILER_HOME"):
        repository.environment.pop(variable, None)
    repository.write("digits.yaml", RECIPE)
    repository.build("recipe=digits.yaml")
    return repository


def with_sdk(repository: Repository, folder: Path, path: Path = RECORDED) -> Repository:
    repository = copy_of(repository, folder)
    sdk = install_sdk(folder / "sdk", path)
    repository.environment = {**repository.environment, "AFE_PYTHON": str(sdk)}
    return repository


def test_without_the_sdk_the_bundle_has_script_graph_and_a_stand_in(stand_in: Repository) -> None:
    manifest = stand_in.manifest(BUNDLE)
    artifacts = manifest["artifacts"]
    assert artifacts["tools"] is None
    assert artifacts["files"] == ["digits.onnx", "compile.py", "digits_stand_in.tar.gz"]
    archive = artifacts["archive"]
    assert (archive["stand_in"], archive["static_schedule"]) == (True, [])
    assert (archive["desired_batch_size"], archive["actual_batch_size"]) == (1, None)
    assert set(manifest["stand_ins"].values()) == {
        "SiMa's MLA: the network's arithmetic in C, not the arithmetic of SiMa's compiler"
    }
    place = stand_in.folder / ARTIFACTS / FOLDER
    with tarfile.open(place / "digits_stand_in.tar.gz") as packed:
        assert packed.getnames() == ["STAND_IN.txt", "digits_mpk.json"]
        member = packed.extractfile("digits_mpk.json")
        assert member is not None
        assert "stand-in" in json.load(member)["model_sdk_version"]


def test_the_bundle_has_no_samples_of_the_users(stand_in: Repository) -> None:
    files = {f["path"].rpartition("/")[2] for f in stand_in.manifest(BUNDLE)["files"]}
    assert {"compile.py", "digits.onnx", "digits_stand_in.tar.gz"} <= files
    assert "calibration.npz" not in files


def test_with_the_sdk_the_archive_is_read_and_packed_again(
    stand_in: Repository, tmp_path: Path
) -> None:
    built = with_sdk(stand_in, tmp_path)
    done = built.doit("build", "recipe=digits.yaml", "batch=16")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "digits_mpk.tar.gz, by SiMa's Model SDK 2.1.0: 3 files" in done.stdout
    assert "batch 16 desired, 12 actual" in done.stdout
    assert "cycles by SiMa's static schedule, without stalls; not measured" in done.stdout
    manifest = built.manifest(BUNDLE)
    archive = manifest["artifacts"]["archive"]
    assert (archive["desired_batch_size"], archive["actual_batch_size"]) == (16, 12)
    assert archive["processors"] == {"EV74": 5, "MLA": 1}
    assert archive["programs"] == ["digits_stage1_mla.elf"]
    assert {m["path"] for m in archive["members"]} == {
        "digits_mpk.json", "digits_stage1_mla.elf", "digits_stage1_mla_stats.yaml",
    }  # fmt: skip
    assert archive["static_schedule"][0]["start_cycle"] == 0
    assert manifest["versions"]["SiMa Model SDK"] == "2.1.0"
    schedule = (built.folder / ARTIFACTS / FOLDER / "digits_schedule.yaml").read_text()
    assert "A static schedule: it has no stalls" in schedule
    assert built.build("recipe=digits.yaml", "batch=16") == []

    first = (built.folder / BUNDLE).read_bytes()
    shutil.rmtree(built.folder / "build/digits/modalix-host/artifacts")
    assert built.build("recipe=digits.yaml", "batch=16") == ["artifacts", "bundle"]
    assert (built.folder / BUNDLE).read_bytes() == first


def test_without_samples_nothing_is_calibrated(stand_in: Repository, tmp_path: Path) -> None:
    built = copy_of(stand_in, tmp_path)
    built.write("digits.yaml", RECIPE.replace("inputs: inputs.npz, ", ""))
    done = built.doit("artifacts", "recipe=digits.yaml")
    assert done.returncode != 0
    assert "there are no calibration samples" in done.stdout + done.stderr


def test_an_accuracy_needs_classes(stand_in: Repository, tmp_path: Path) -> None:
    built = with_sdk(stand_in, tmp_path)
    recipe = RECIPE.replace("mla, c", "mla -target_accuracy=0.9, c")
    evaluated = recipe + "evaluate: {inputs: inputs.npz, samples: 4, labels: classes.npy}\n"
    built.write("digits.yaml", recipe)
    done = built.doit("artifacts", "recipe=digits.yaml")
    assert done.returncode == 1
    assert "target_accuracy needs the right class of each sample" in done.stdout + done.stderr
    built.write("digits.yaml", evaluated)
    np.save(built.folder / "classes.npy", np.array([0, 7, 3, 9]))
    assert built.doit("artifacts", "recipe=digits.yaml").returncode == 0
    place = built.folder / ARTIFACTS / FOLDER
    assert np.load(place / "evaluation.npz")["labels"].tolist() == [0, 7, 3, 9]
    assert json.loads((place / "quantized/digits.sima.json").read_text())["target"] == 0.9


@pytest.mark.needs("qemu-aarch64")
def test_the_keyword_network_goes_through_the_sdk_quantized_as_it_is(
    mirror: Callable[[str], None], tmp_path: Path
) -> None:
    mirror("kws")
    repository = with_sdk(new_repository(tmp_path / "repository"), tmp_path)
    recipe = read_ready("kws")
    recipe |= {"platform": "modalix", "target": "mla, c"}
    recipe["run"] = {"inputs": "keywords.npy", "samples": 2, "tolerance": {"absolute": 0}}
    repository.write("kws.yaml", yaml.safe_dump(recipe))
    features = np.random.default_rng(0).integers(-128, 128, (4, 1, 49, 10, 1), "int8")
    np.save(repository.folder / "keywords.npy", features)
    repository.build("recipe=kws.yaml")
    manifest = repository.manifest("build/kws/kws-modalix.tar.gz")
    assert manifest["run"]["mismatches"] == 0
    assert manifest["artifacts"]["archive"]["programs"] == ["kws_stage1_mla.elf"]

    place = repository.folder / "build/kws/modalix/artifacts/kws_modalix_mla"
    samples = np.load(place / "calibration.npz")["input_0"]
    assert samples.shape == (4, 1, 49, 10, 1)
    session = onnxruntime.InferenceSession(place / "kws.onnx", session_options())
    model = (repository.folder / "build/kws/model/model.tflite").read_bytes()
    expected = run_reference(model, [{"input_1": frame} for frame in features]).outputs
    for sample, (wanted,) in zip(samples, expected, strict=True):
        (found,) = session.run(None, {"input_1": sample.transpose(0, 3, 1, 2)})
        steps = np.rint(found / 2.0**-8) - 128  # the scale of the softmax
        assert np.abs(steps - wanted).max() <= LOGIT_STEP


def test_resnet8_goes_through_the_sdk_as_the_recipe_quantizes_it(
    mirror: Callable[[str], None], tmp_path: Path
) -> None:
    mirror("resnet8-modalix")
    repository = with_sdk(new_repository(tmp_path / "repository"), tmp_path)
    shutil.copy(ROOT / "recipes/resnet8-modalix.yaml", repository.folder)
    shutil.copytree(ROOT / "recipes/bases", repository.folder / "bases")
    done = repository.doit("artifacts", "recipe=resnet8-modalix.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "steps: 5 on the EV74, 1 on the MLA" in done.stdout
    place = (
        repository.folder / "build/resnet8-modalix/modalix/artifacts/resnet8-modalix_modalix_mla"
    )
    result = json.loads((place / "quantized/resnet8-modalix.sima.json").read_text())
    assert "calibration_method=HistogramMSEMethod(num_bins=2048)" in result["config"]
    assert "biascorr_type=<BiasCorrectionType.REGULAR" in result["config"]
    assert result["samples"] == 2
    kinds = {n.op_type for n in onnx.load(place / "resnet8-modalix.onnx").graph.node}
    assert "Conv" in kinds
    assert not any(kind.endswith("QuantizeLinear") for kind in kinds)  # the output is float
