"""A recipe with a detection: the manifest lists the firmware's boxes, compared and drawn."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from .conftest import ROOT, Repository, new_repository

RECIPE = """\
model: boxes.onnx
postprocess:
  detection:
    picture: [64, 32]
    box: {{encoding: {encoding}{box}}}
    heads: [{head}]
    class_scores: {{channel: {classes}, activation: sigmoid, exponent: 0.5}}
    classes: names.txt
    threshold: 0.4
    candidates: 40
run: {{inputs: {{x: {{arrays: [x.npy]}}}}, samples: 2, tolerance: {{absolute: 1.0e-5}}}}
"""

CASES = {
    "tanh-sigmoid": ("", "{}", 4, 7),
    "sigmoid-square": ("", "{anchors: [[10, 13], [16, 30]]}", 4, 14),
    "distributions": (", bins: 4", "{}", 16, 19),
}


def prepare(repository: Repository, encoding: str) -> None:
    """Write a recipe, and a network that returns its input."""
    box, head, classes, channels = CASES[encoding]
    shape = [1, channels, 4, 8]
    graph = helper.make_graph(
        [helper.make_node("Clip", ["x", "low", "high"], ["y"], name="hand_on")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [helper.make_tensor(n, TensorProto.FLOAT, [], [v]) for n, v in (("low", -9), ("high", 9))],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(
        helper.make_model(graph, opset_imports=opsets, ir_version=8),
        repository.folder / "boxes.onnx",
    )
    values = np.random.default_rng(1).normal(0, 1, (2, *shape)).astype("float32")
    np.save(repository.folder / "x.npy", values)
    repository.write("names.txt", "cat\ndog\nowl\n")
    recipe = RECIPE.format(encoding=encoding, box=box, head=head, classes=classes)
    repository.write("boxes.yaml", recipe)


@pytest.mark.parametrize(
    ("encoding", "platform"),
    [
        ("tanh-sigmoid", "rv32-bare"),
        ("sigmoid-square", "cortex-m4-bare"),
        ("distributions", "rv32-bare"),
        ("distributions", "host"),
    ],
)
def test_boxes_on_every_platform(tmp_path: Path, encoding: str, platform: str) -> None:
    repository = new_repository(tmp_path)
    prepare(repository, encoding)
    repository.build("recipe=boxes.yaml", f"platform={platform}")
    report = repository.manifest(f"build/boxes/boxes-{platform}.tar.gz")["detection"]
    stored = repository.folder / f"build/boxes/{platform}/run/boxes.json"
    assert json.loads(stored.read_text()) == report
    boxes = [b for sample in report["samples"] for b in sample["boxes"]]
    assert [s["sample"] for s in report["samples"]] == ["x.npy[0]", "x.npy[1]"]
    assert len(boxes) > 10
    assert {b["class_name"] for b in boxes} == {"cat", "dog", "owl"}
    assert min(b["reference_iou"] for b in boxes) > 0.999
    assert min(b["score"] for b in boxes) >= 0.4


def test_room_for_boxes_counts_as_memory(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    prepare(repository, "tanh-sigmoid")
    recipe = repository.folder / "boxes.yaml"
    recipe.write_text(recipe.read_text().replace("candidates: 40", "candidates: 50000"))
    done = repository.doit("build", "recipe=boxes.yaml", "platform=rv32-bare")
    assert done.returncode != 0
    text = done.stdout + done.stderr
    assert "does not fit rv32-bare" in text
    assert "1,792 inputs and outputs, 1,200,000 boxes, 16,384 stack" in text
    assert "1,200,000 bytes  room for 50,000 boxes" in text


def test_boxes_that_are_elsewhere_fail_the_build(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    prepare(repository, "tanh-sigmoid")
    with (repository.folder / "boxes.yaml").open("a") as stream:
        stream.write("cflags: [-Dtanhf=coshf]\n")
    done = repository.doit("build", "recipe=boxes.yaml", "platform=host")
    text = done.stdout + done.stderr
    assert done.returncode == 1
    assert "the firmware's boxes differ from the boxes of the reference, onnxruntime" in text
    assert "x.npy[0]: only the reference has '" in text
    assert "x.npy[1]: only the firmware has '" in text
    assert "Traceback" not in text


def test_the_file_of_class_names_decides(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    prepare(repository, "tanh-sigmoid")
    assert "bundle" in repository.build("recipe=boxes.yaml", "platform=host")
    repository.write("names.txt", "cat\ndog\nfox\n")
    # The names are checked, and are in the network's header.
    again = ["samples", "sources", "objects", "firmware", "run", "bundle"]
    assert repository.build("recipe=boxes.yaml", "platform=host") == again
    repository.write("names.txt", "cat\ndog\nfox\nowl\n")
    done = repository.doit("build", "recipe=boxes.yaml", "platform=host")
    assert done.returncode == 1
    assert "has 7 channels per anchor; box, objectness and 4 classes need 8" in (
        done.stdout + done.stderr
    )


def test_pictures_that_are_not_there(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    prepare(repository, "tanh-sigmoid")
    recipe = (repository.folder / "boxes.yaml").read_text()
    (repository.folder / "empty").mkdir()
    pictures = "pictures: [empty, 'shots/*.png']"
    repository.write("boxes.yaml", recipe.replace("arrays: [x.npy]", pictures))
    done = repository.doit("build", "recipe=boxes.yaml", "platform=host")
    text = done.stdout + done.stderr
    assert done.returncode == 1
    assert "empty: the folder has no files" in text
    assert "shots/*.png: no file matches this pattern" in text
    assert "Traceback" not in text


SAMPLE = "1e46187ec49947bfd8dd22f4d774bddfe3e29ca863fe09530516598998b8e640"


def test_fastestdet_finds_what_onnx_runtime_finds(
    tmp_path: Path, mirror: Callable[[str], None]
) -> None:
    import onnxruntime
    from PIL import Image

    from firmwright.data.fetch import find_in_mirror

    mirror("fastestdet")
    picture = find_in_mirror("FastestDet_sample.jpg", SAMPLE)
    assert picture is not None
    repository = Repository(tmp_path)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.build(f"recipe={ROOT / 'recipes' / 'fastestdet.yaml'}")
    manifest = repository.manifest("build/fastestdet/fastestdet-host.tar.gz")
    assert (manifest["run"]["mismatches"], manifest["run"]["instructions"]) == (0, None)
    (sample,) = manifest["detection"]["samples"]
    assert sample["sample"] == "3.jpg"
    found = sample["boxes"]
    assert [b["class_name"] for b in found] == ["person"] * 4 + ["sports ball"]
    assert round(found[0]["score"], 2) == 0.90

    # Compute the strongest cell of ONNX Runtime's output in numpy; its optimizations are on.
    (tmp_path / "sample.jpg").write_bytes(picture)
    image = Image.open(tmp_path / "sample.jpg").resize((352, 352), Image.Resampling.BILINEAR)
    pixels = np.asarray(image, "float32")[:, :, ::-1].transpose(2, 0, 1)[None] / 255
    model = repository.folder / "build/fastestdet/model/model.onnx"
    session = onnxruntime.InferenceSession(model.read_bytes())
    (cells,) = session.run(None, {"input.1": pixels.astype("float32")})[0]
    scores = cells[0] ** 0.6 * cells[5:].max(axis=0) ** 0.4
    y, x = np.unravel_index(scores.argmax(), scores.shape)
    centre = (x + np.tanh(cells[1, y, x])) / 22, (y + np.tanh(cells[2, y, x])) / 22
    width, height = 1 / (1 + np.exp(-cells[3:5, y, x]))
    assert found[0]["score"] == pytest.approx(scores.max(), abs=1e-4)
    assert (found[0]["x0"] + found[0]["x1"]) / 2 == pytest.approx(centre[0], abs=1e-4)
    assert (found[0]["y0"] + found[0]["y1"]) / 2 == pytest.approx(centre[1], abs=1e-4)
    assert found[0]["x1"] - found[0]["x0"] == pytest.approx(width, abs=1e-4)
    assert found[0]["y1"] - found[0]["y0"] == pytest.approx(height, abs=1e-4)

    # The picture next to the bundle shows the outline of the first box on the unchanged sample.
    drawn = Image.open(repository.folder / "build/fastestdet/fastestdet-host-boxes.png")
    original = Image.open(tmp_path / "sample.jpg")
    assert drawn.size == original.size == (500, 335)
    left, middle = round(found[0]["x0"] * 500), round(335 * (found[0]["y0"] + found[0]["y1"]) / 2)
    assert drawn.getpixel((left, middle)) == (230, 25, 75)
    assert drawn.getpixel((490, 10)) == original.getpixel((490, 10))


@pytest.mark.parametrize(
    ("platform", "name", "target"),
    [
        ("j721s2", "j721s2", "tidl, c7x"),
        (str(ROOT / "examples" / "yolo" / "rv32-2mib.yaml"), "rv32-2mib", "c"),
    ],
)
def test_quantized_firmware_finds_what_the_float_network_finds(
    tmp_path: Path, mirror: Callable[[str], None], platform: str, name: str, target: str
) -> None:
    mirror("yolo")
    if name == "j721s2" and shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is not installed")
    repository = Repository(tmp_path)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    recipe = f"recipe={ROOT / 'recipes' / 'yolo.yaml'}"
    repository.build(recipe, f"platform={platform}", f"target={target}")
    report = repository.manifest(f"build/yolo/yolo-{name}.tar.gz")["detection"]
    assert report["judge"].startswith("the float network in onnxruntime")
    (sample,) = report["samples"]
    found = sample["boxes"]
    expected = float_boxes(repository.folder / "build/yolo/model/model.onnx", report["threshold"])
    assert len(found) == len(expected) == 4
    for left, top, right, bottom, label in expected:
        best = max(found, key=lambda b: common_part(b, left, top, right, bottom))
        assert common_part(best, left, top, right, bottom) >= 0.9
        assert best["class_index"] == label
    assert (repository.folder / f"build/yolo/yolo-{name}-boxes.png").is_file()


def float_boxes(model: Path, threshold: float) -> list[tuple[float, float, float, float, int]]:
    """Decode ONNX Runtime's output for the sample by cell, and keep the best of near boxes."""
    import io

    import onnxruntime
    from PIL import Image

    from firmwright.data.fetch import find_in_mirror

    picture = find_in_mirror("FastestDet_sample.jpg", SAMPLE)
    assert picture is not None
    image = Image.open(io.BytesIO(picture)).resize((352, 352), Image.Resampling.BILINEAR)
    pixels = np.asarray(image, "float32")[:, :, ::-1].transpose(2, 0, 1)[None] / 255
    session = onnxruntime.InferenceSession(model.read_bytes())
    (cells,) = session.run(None, {"input.1": pixels.astype("float32")})[0]
    scores = cells[0] ** 0.6 * cells[5:].max(axis=0) ** 0.4
    kept: list[tuple[float, float, float, float, int]] = []
    for y, x in sorted(np.argwhere(scores >= threshold), key=lambda c: -scores[tuple(c)]):
        offset, size = np.tanh(cells[1:3, y, x]), 1 / (1 + np.exp(-cells[3:5, y, x]))
        left, top = (np.array([x, y]) + offset) / 22 - size / 2
        box = {"x0": left, "y0": top, "x1": left + size[0], "y1": top + size[1]}
        if all(common_part(box, *other[:4]) <= 0.45 for other in kept):
            kept.append((left, top, box["x1"], box["y1"], int(cells[5:, y, x].argmax())))
    return kept


def common_part(box: dict[str, Any], x0: float, y0: float, x1: float, y1: float) -> float:
    """Return the intersection over the union of two boxes."""
    width = max(0.0, min(box["x1"], x1) - max(box["x0"], x0))
    height = max(0.0, min(box["y1"], y1) - max(box["y0"], y0))
    areas = (box["x1"] - box["x0"]) * (box["y1"] - box["y0"]) + (x1 - x0) * (y1 - y0)
    return float(width * height / (areas - width * height))


def test_boxes_that_quantization_loses_fail_the_build(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    prepare(repository, "tanh-sigmoid")
    shape, channels = [1, 7, 4, 8], np.eye(7, dtype="float32").reshape(7, 7, 1, 1)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="hand_on")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [onnx.numpy_helper.from_array(channels, "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, repository.folder / "boxes.onnx")
    # One huge value in the calibration makes the steps of the scale too wide for the other values.
    calibration = np.load(repository.folder / "x.npy")
    calibration[0, 0, 0, 0] = 1e6
    np.save(repository.folder / "calibration.npy", calibration)
    with (repository.folder / "boxes.yaml").open("a") as stream:
        stream.write("quantize: {calibration: {inputs: calibration.npy}}\n")
    done = repository.doit("build", "recipe=boxes.yaml", "platform=host")
    text = done.stdout + done.stderr
    assert done.returncode == 1
    assert "differ from the boxes of the reference, the float network in onnxruntime" in text
    assert "Traceback" not in text
