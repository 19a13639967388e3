"""The bytes and the errors of the types of each layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from firmwright.precision.best_choices import Choice
from firmwright.precision.sensitivity import Measured, Sensitivity
from firmwright.quantize.calibration import calibrate
from tests.quantize.networks import options, ready, residual_network, samples

TYPES = ("float32", "int16", "int2", "int3", "int4", "int8", "cluster4", "cluster16")


def make(folder: Path, model: onnx.ModelProto | None = None, **changes: Any) -> Sensitivity:
    model = model or ready(residual_network(), newer_types=True)
    given = samples(8)
    wanted = options(**{"search": {"types": TYPES, "flash": 1}, **changes})
    return Sensitivity(model, calibrate(model, given), wanted, given, folder, compressed=True)


def by_type(layer: Measured) -> dict[str, tuple[int, float]]:
    return {choice.weights: (choice.bytes, choice.error) for choice in layer.choices}


@pytest.mark.parametrize("compensate", [False, True])
def test_more_bits_have_less_error(tmp_path: Path, compensate: bool) -> None:
    found = make(tmp_path, compensate_rounding=compensate).measure(1)
    assert [layer.layer for layer in found] == ["stem", "dw", "pw", "dense"]
    for layer in found:
        errors = [by_type(layer)[t][1] for t in ("int2", "int3", "int8", "int16")]
        assert errors == sorted(errors, reverse=True), layer
        clustered = [by_type(layer)[t][1] for t in ("cluster4", "cluster16", "int8")]
        assert clustered == sorted(clustered, reverse=True), layer
        assert errors[0] > 10 * errors[2] and by_type(layer)["float32"][1] == 0
    stem = by_type(found[0])
    assert stem["float32"][0] == 2 * stem["int16"][0] == 4 * 216
    assert stem["int2"][0] < stem["int3"][0] < stem["int8"][0] <= 216


def test_the_number_of_threads_does_not_change_the_result(tmp_path: Path) -> None:
    one = make(tmp_path / "one", compensate_rounding=True).measure(1)
    assert one == make(tmp_path / "two", compensate_rounding=True).measure(2)


def test_a_search_continues_with_kept_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make(tmp_path).measure(1)
    measured = list[str]()
    measure_type = Sensitivity.measure_type

    def count(self: Sensitivity, layer: str, dtype: str, moments: Any) -> Choice:
        measured.append(dtype)
        return measure_type(self, layer, dtype, moments)

    monkeypatch.setattr(Sensitivity, "measure_type", count)
    assert make(tmp_path).measure(1) == first and not measured
    other = make(tmp_path, search={"types": ("int8", "int5"), "flash": 1}).measure(1)
    assert measured == ["int5"] * len(first)
    assert all(by_type(a)["int8"] == by_type(b)["int8"] for a, b in zip(first, other, strict=True))
    monkeypatch.setattr(Sensitivity, "measure_type", None)
    with pytest.raises(TypeError):  # other options need other measurements
        make(tmp_path, compensate_rounding=True).measure(1)


def test_layers_with_a_stated_type_are_not_measured(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "layers": [{"match": "stem", "weights": "int8"}, {"match": "pw", "activations": "int16"}],
        "keep_float": {"layers": ["dense"]},
    }
    assert [each.layer for each in make(tmp_path, **changes).measure(1)] == ["dw", "pw"]


def test_equal_weights_have_no_error_in_any_type(tmp_path: Path) -> None:
    model = ready(residual_network(), newer_types=True)
    for tensor in model.graph.initializer:
        if tensor.name in ("dense_w", "dw_w"):
            value = 0.25 if tensor.name == "dense_w" else 0.0
            same = np.full(list(tensor.dims), value, "float32")
            tensor.CopyFrom(onnx.numpy_helper.from_array(same, tensor.name))
    found = {each.layer: by_type(each) for each in make(tmp_path, model).measure(1)}
    for layer in ("dense", "dw"):
        assert all(error < 1e-12 for _, error in found[layer].values()), found[layer]
