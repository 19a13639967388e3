"""The digits example matches its README: int8 input and output, QDQ, accurate."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from numpy.typing import NDArray
from onnx import numpy_helper

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "digits"


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return onnx.load(FOLDER / "digits.onnx")


@pytest.fixture(scope="module")
def inputs() -> dict[str, NDArray[Any]]:
    with np.load(FOLDER / "inputs.npz") as archive:
        return dict(archive)


@pytest.fixture(scope="module")
def summary() -> dict[str, Any]:
    text = (FOLDER / "accuracy.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def scores(model: onnx.ModelProto, images: NDArray[np.int8]) -> NDArray[np.int8]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return np.concatenate([session.run(["scores"], {"image": i[None]})[0] for i in images])


def constants(model: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    return {c.name: numpy_helper.to_array(c) for c in model.graph.initializer}


def test_the_model_is_valid_onnx_and_carries_no_trace_of_its_writer(
    model: onnx.ModelProto,
) -> None:
    onnx.checker.check_model(model, full_check=True)
    assert (model.producer_name, model.producer_version, model.doc_string) == ("", "", "")
    assert not model.metadata_props


def test_input_and_output_are_int8_and_of_fixed_shape(model: onnx.ModelProto) -> None:
    edges = {
        value.name: (
            value.type.tensor_type.elem_type,
            [d.dim_value for d in value.type.tensor_type.shape.dim],
        )
        for value in [*model.graph.input, *model.graph.output]
    }
    int8 = onnx.TensorProto.INT8
    assert edges == {"image": (int8, [1, 1, 8, 8]), "scores": (int8, [1, 10])}


def test_every_float_operator_stands_between_dequantize_and_quantize(
    model: onnx.ModelProto,
) -> None:
    producer = {output: node.op_type for node in model.graph.node for output in node.output}
    consumers: dict[str, set[str]] = {}
    for node in model.graph.node:
        for name in node.input:
            consumers.setdefault(name, set()).add(node.op_type)
    quantizers = {"QuantizeLinear", "DequantizeLinear"}
    operators = [node for node in model.graph.node if node.op_type not in quantizers]
    assert [node.name for node in operators] == [
        *("stem", "downsample", "depthwise", "pointwise", "pool", "flatten", "dense")
    ]
    for node in operators:
        assert {producer[name] for name in node.input} == {"DequantizeLinear"}, node.name
        assert consumers[node.output[0]] == {"QuantizeLinear"}, node.name


@pytest.mark.parametrize("layer", ["stem", "downsample", "depthwise", "pointwise", "dense"])
def test_weights_are_int8_with_one_scale_an_output_channel(
    model: onnx.ModelProto, layer: str
) -> None:
    values = constants(model)
    weight = values[f"{layer}.weight_quantized"]
    assert weight.dtype == np.int8
    assert values[f"{layer}.weight_scale"].shape == (weight.shape[0],)
    assert not values[f"{layer}.weight_zero_point"].any()
    assert values[f"{layer}.bias_quantized"].dtype == np.int32


def test_the_inputs_are_scans_on_the_grid_of_the_model(
    model: onnx.ModelProto, inputs: dict[str, NDArray[Any]]
) -> None:
    image, values = inputs["image"], constants(model)
    assert (image.dtype, image.shape) == (np.dtype(np.int8), (64, 1, 8, 8))
    steps = image.astype(np.int32) - values["image_zero_point"]
    pixels = steps * values["image_scale"] * 16
    # A scan has the levels 0..16; quantization moves each level by at most half a step.
    assert np.abs(pixels - np.rint(pixels)).max() <= 16 * values["image_scale"] / 2
    assert (pixels.min(), round(float(pixels.max()))) == (0, 16)
    assert set(inputs["labels"]) == set(range(10))


def test_the_committed_scans_are_read_as_accurately_as_accuracy_json_says(
    model: onnx.ModelProto, inputs: dict[str, NDArray[Any]], summary: dict[str, Any]
) -> None:
    wrong = int(np.sum(scores(model, inputs["image"]).argmax(axis=1) != inputs["labels"]))
    assert wrong <= 0.05 * len(inputs["labels"])
    # They are a part of the test split, so they cannot contain more errors than the whole split.
    tested, correct = summary["images"]["test"], summary["correct"]["int8"]
    assert wrong <= tested - correct
    assert summary["accuracy"]["int8"] == pytest.approx(correct / tested, abs=1e-4)


def test_accuracy_json_gives_the_grids_of_the_model(
    model: onnx.ModelProto, summary: dict[str, Any]
) -> None:
    values = constants(model)
    assert summary["grids"] == {
        name: {
            "scale": float(values[f"{name}_scale"]),
            "zero_point": int(values[f"{name}_zero_point"]),
        }
        for name in ("image", "scores")
    }


def test_the_whole_test_split_gives_the_accuracy_in_accuracy_json(
    model: onnx.ModelProto,
    inputs: dict[str, NDArray[Any]],
    summary: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    test = importlib.import_module("scans").load_split()[2]
    images = importlib.import_module("int8_onnx").grid_of(model, "image").quantize(test.images)
    assert np.array_equal(images[: len(inputs["image"])], inputs["image"])
    correct = int(np.sum(scores(model, images).argmax(axis=1) == test.labels))
    assert (correct, len(images)) == (summary["correct"]["int8"], summary["images"]["test"])


def test_tvm_imports_the_model_as_int8_relax(model: onnx.ModelProto) -> None:
    from tvm.relax.frontend.onnx import from_onnx

    main = from_onnx(model, keep_params_in_input=False)["main"]
    assert [str(p) for p in main.params] == ["image"]
    assert str(main.params[0].ty) == 'R.Tensor((1, 1, 8, 8), dtype="int8")'
    assert str(main.ret_ty) == 'R.Tensor((1, 10), dtype="int8")'


def test_the_recipe_names_files_that_exist_and_samples_that_are_there(
    inputs: dict[str, NDArray[Any]],
) -> None:
    path = ROOT / "recipes" / "digits.yaml"
    recipe = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert (path.parent / recipe["model"]).resolve() == FOLDER / "digits.onnx"
    assert (path.parent / recipe["run"]["inputs"]).resolve() == FOLDER / "inputs.npz"
    assert recipe["run"]["samples"] <= len(inputs["image"])


def test_the_folder_stays_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.iterdir() if path.is_file()]
    assert sum(sizes) < 100_000
