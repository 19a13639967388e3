"""`evaluate:` without `quantize:` compares the generated C with the model in its runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.data.samples import sample_digest
from tests.lowering.test_tflite_networks import mirrored

from .conftest import EXAMPLE, HOST_STAGES, ROOT, Repository, copy_of, new_repository, ran
from .test_detection import prepare
from .test_user_errors import fail

DIGITS = """\
model: digits.onnx
platform: host
evaluate: {inputs: inputs.npz, labels: labels.npy, thresholds: {top1: 95, snr: 60}}
run: {samples: 2}
"""
FLOAT = """\
model: {path: MODEL, format: onnx}
platform: host
evaluate: {inputs: pictures.npy, labels: labels.npy, thresholds: {top1: 80, snr: 100}}
"""


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A built repository, for tests that only read."""
    repository = new_repository(tmp_path_factory.mktemp("evaluated"))
    labels = np.load(EXAMPLE / "inputs.npz")["labels"]
    np.save(repository.folder / "labels.npy", labels)
    repository.write("r.yaml", DIGITS)
    stages = [*HOST_STAGES[:3], "accuracy", *HOST_STAGES[3:]]
    assert sorted(repository.build("recipe=r.yaml")) == sorted(stages)
    return repository


def test_bundle_tells_how_good_the_model_and_its_c_are(evaluated: Repository) -> None:
    manifest = evaluated.manifest("build/r/r-host.tar.gz")
    accuracy = manifest["accuracy"]
    assert manifest["quantization"] is None
    assert len(set(manifest["inputs"]["samples"]["evaluate"])) == 64
    assert accuracy["reference"].startswith("onnxruntime ")
    assert accuracy["top1"]["reference"] == accuracy["top1"]["firmware"] > 95
    assert accuracy["agreement"] == {"reference": 100, "firmware": 100}
    assert record_of(evaluated)["layers"] is None


def test_gate_fails_where_the_model_itself_is_not_good_enough(
    evaluated: Repository, tmp_path: Path
) -> None:
    changed = copy_of(evaluated, tmp_path)
    bundle = (changed.folder / "build/r/r-host.tar.gz").read_bytes()
    labels = np.load(changed.folder / "labels.npy")
    labels[:8] = (labels[:8] + 1) % 10
    np.save(changed.folder / "labels.npy", labels)
    text = fail(changed, "recipe=r.yaml")
    assert "the network is less accurate than the recipe requires" in text
    assert "top-1 of the firmware network is 87.50 % (reference 87.50 %)" in text
    assert "thresholds.top1 requires 95" in text
    assert "layers" not in text
    assert (changed.folder / "build/r/r-host.tar.gz").read_bytes() == bundle


def test_integers_of_tflite_are_the_model_s_own(tmp_path: Path) -> None:
    repository = with_pictures(tmp_path)
    pictures = np.load(repository.folder / "pictures.npy")
    text = f"extends: {ROOT}/recipes/resnet8.yaml\n"
    text += "evaluate: {inputs: integers.npy, labels: labels.npy, thresholds: {top1: 83}}\n"
    integers = (pictures - 128).astype("int8")
    np.save(repository.folder / "integers.npy", integers)
    found = accuracy_of(repository, text)
    assert found["samples"][0] == sample_digest({"input_1_int8": integers[:1]})
    assert found["reference"].endswith("(reference kernels)")
    assert found["top1"] == {"reference": 83.125, "firmware": 83.125}
    assert found["outputs"][0]["signals"]["firmware"] == {"snr": None, "cosine": 1}
    # The real numbers are quantized like the input, so the samples are the same.
    assert accuracy_of(repository, text.replace("integers", "pictures")) == found


def test_float_network_stays_float(tmp_path: Path) -> None:
    repository = with_pictures(tmp_path)
    pictures = np.load(repository.folder / "pictures.npy").transpose(0, 3, 1, 2)
    np.save(repository.folder / "pictures.npy", pictures)
    found = accuracy_of(repository, FLOAT.replace("MODEL", str(mirrored("resnet8_float.onnx"))))
    assert found["top1"]["reference"] == found["top1"]["firmware"] > 80
    assert 100 < found["outputs"][0]["signals"]["firmware"]["snr"] < 200


def test_boxes_of_a_float_detector(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    prepare(repository, "tanh-sigmoid")
    text = (repository.folder / "boxes.yaml").read_text()
    limits = "evaluate: {inputs: x.npy, thresholds: {boxes: {recall: 1, precision: 1}}}\n"
    rates = accuracy_of(repository, text + limits, "boxes")["boxes"]["networks"]
    assert rates["firmware"] == rates["reference"]
    assert rates["reference"]["found"] > 10
    assert rates["firmware"]["recall"] == rates["firmware"]["precision"] == 1


def with_pictures(folder: Path) -> Repository:
    """Return a repository with 160 pictures of CIFAR-10 and their labels."""
    repository = new_repository(folder)
    with np.load(mirrored("ic_160.npz")) as archive:
        np.save(repository.folder / "pictures.npy", archive["images_u8"].astype("float32"))
        np.save(repository.folder / "labels.npy", archive["labels"])
    return repository


def accuracy_of(repository: Repository, recipe: str, name: str = "r") -> dict[str, Any]:
    """Run the recipe's stages up to accuracy; return the record of accuracy."""
    repository.write(f"{name}.yaml", recipe)
    done = repository.doit("accuracy", f"recipe={name}.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ran(done.stdout)[-1] == "accuracy"
    return record_of(repository, name)


def record_of(repository: Repository, name: str = "r") -> dict[str, Any]:
    (record,) = repository.folder.glob(f"build/{name}/*/accuracy/accuracy.json")
    found: dict[str, Any] = json.loads(record.read_text())
    return found
