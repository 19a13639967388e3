"""The boxes of a batch equal the boxes of each picture alone."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from .conftest import Repository, new_repository
from .test_batch import small
from .test_user_errors import fail

DETECTION = """\
postprocess:
  detection:
    picture: [64, 32]
    box: {encoding: tanh-sigmoid}
    class_scores: {channel: 4, activation: sigmoid, exponent: 0.5}
    classes: 3
    threshold: 0.8
    candidates: 40
"""

DETECTOR = f"""\
model: boxes.onnx
{DETECTION}
run: {{tolerance: {{absolute: 1.0e-5}}}}
"""

PICTURES = f"""\
model: boxes.onnx
{DETECTION}
quantize:
  activations: int16
  weights: int16
  calibration: {{inputs: &shots {{x: {{pictures: [shots], preprocess: {{std: 255}}}}}}}}
evaluate: {{inputs: *shots, thresholds: {{boxes: {{mean_average_precision: 0.9}}}}}}
run: {{inputs: *shots, tolerance: {{absolute: 3}}}}
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository with five pictures and a detector of random weights; a cell is 8 x 8 pixels."""
    repository = new_repository(tmp_path_factory.mktemp("detection"))
    random = np.random.default_rng(2)
    weights = random.normal(0, 0.15, (7, 3, 8, 8)).astype("float32")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="head", strides=[8, 8])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 7, 4, 8])],
        [numpy_helper.from_array(weights, "w")],
    )
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.save(model, repository.folder / "boxes.onnx")
    (repository.folder / "shots").mkdir()
    for number in range(5):
        pixels = random.integers(0, 256, (4, 8, 3), dtype="uint8").repeat(8, 0).repeat(8, 1)
        Image.fromarray(pixels).save(repository.folder / "shots" / f"{number}.png")
    repository.write("detector.yaml", DETECTOR)
    repository.write("pictures.yaml", PICTURES)
    return repository


def test_a_batch_has_the_boxes_that_its_pictures_have_alone(repository: Repository) -> None:
    build = repository.folder / "build" / "pictures"
    repository.build("recipe=pictures.yaml", "platform=host", "batch=2", "samples=2")
    batched = repository.manifest("build/pictures/pictures-host.tar.gz")
    sizes = batched["batch"]["desired_batch_size"], batched["batch"]["actual_batch_size"]
    assert sizes == (2, 2)
    for number, name in enumerate(("pictures-host-boxes.png", "pictures-host-boxes-1.png")):
        drawn = np.asarray(Image.open(repository.folder / "shots" / f"{number}.png"))
        published = np.asarray(Image.open(build / name))
        assert published.shape[:2] == drawn.shape[:2]
        built = np.asarray(Image.open(build / f"host/run/boxes-{number}.png"))
        assert np.array_equal(published, built)
        assert not np.array_equal(published, drawn)
    assert batched["detection"] == json.loads((build / "host/run/boxes.json").read_text())
    assert repository.build("recipe=pictures.yaml", "platform=host", "batch=2", "samples=2") == []

    repository.build("recipe=pictures.yaml", "platform=host", "samples=4")
    alone = repository.manifest("build/pictures/pictures-host.tar.gz")
    shown = [sample["sample"] for sample in alone["detection"]["samples"]]
    assert shown == ["0.png", "1.png", "2.png", "3.png"]
    assert len({str(sample["boxes"]) for sample in alone["detection"]["samples"]}) == 4
    assert batched["detection"] == alone["detection"]
    accuracy = alone["accuracy"]["boxes"]
    assert accuracy["right"] > 20
    assert accuracy["networks"]["float32"]["mean_average_precision"] == 1
    assert accuracy["networks"]["firmware"]["mean_average_precision"] >= 0.9
    assert batched["accuracy"]["boxes"] == accuracy
    assert [p.name for p in sorted(build.glob("*.png"))] == ["pictures-host-boxes.png"]


def test_room_for_boxes_counts_in_the_batch_that_fits(repository: Repository) -> None:
    small(repository, "128 KiB")
    repository.build("recipe=detector.yaml", "platform=small.yaml", "batch=16")
    manifest = repository.manifest("build/detector/detector-small.tar.gz")
    batch, memory = manifest["batch"], manifest["memory"]
    assert 1 < batch["actual_batch_size"] < batch["desired_batch_size"] == 16
    assert 0 <= memory["ram_bytes"] - batch["needs"] <= 64
    assert batch["needs"] <= batch["capacity"] == 128 * 1024 < batch["next_needs"]
    assert len(manifest["detection"]["samples"]) == batch["actual_batch_size"]


def test_a_batch_that_the_model_itself_has(repository: Repository) -> None:
    text = (repository.folder / "detector.yaml").read_text()
    model = onnx.load(repository.folder / "boxes.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(model, repository.folder / "two.onnx")
    repository.write("two.yaml", text.replace("boxes.onnx", "two.onnx"))
    text = fail(repository, "recipe=two.yaml", "platform=host")
    assert "output 'y' has shape [2, 7, 4, 8], several samples at once" in text
    assert "export the network for one, and state `batch` for more" in text
