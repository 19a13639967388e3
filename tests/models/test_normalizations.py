"""Normalizations: moments, factors per channel or group, neighboring channels, and types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from firmwright.errors import UserError
from firmwright.models.onnx.importer import import_model, run_reference
from tests.networks.firmware import SANITIZED, run_generated
from tests.networks.imported import run_imported
from tests.networks.onnx_models import graph, node, value

from .test_definitions import Array, compare, normal


def test_a_normalization_over_an_even_number_of_channels_is_refused() -> None:
    ends = [value(n, [1, 6, 4, 3]) for n in "xy"]
    model = graph([node("LRN", ["x"], ["y"], size=4)], ends[:1], ends[1:], {}, 13)
    with pytest.raises(UserError, match=r"LRN \(node 'y'\): its size is 4; only odd sizes"):
        import_model(model.SerializeToString(), "m.onnx", {})


def far_from_zero(*shape: int) -> Array:
    return 100 + normal(*shape) / 100


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("opset", [13, 17, 18])
@pytest.mark.parametrize("axis", [1, -1])
def test_a_layer_normalization_returns_its_moments(tmp_path: Path, axis: int, opset: int) -> None:
    normalize = node("LayerNormalization", ["x", "s", "b"], ["y", "m", "d"], axis=axis)
    size, left = ([3, 8], [2, 1, 1]) if axis == 1 else ([8], [2, 3, 1])
    outputs = [value("y", [2, 3, 8]), value("m", left), value("d", left)]
    constants = {"s": normal(*size), "b": normal(*size)}
    model = graph([normalize], [value("x", [2, 3, 8])], outputs, constants, opset)
    compare(model, {"x": far_from_zero(2, 3, 8)}, tmp_path, tolerance=1e-2)


@pytest.mark.needs("gcc")
def test_a_layer_normalization_has_one_factor(tmp_path: Path) -> None:
    normalize = node("LayerNormalization", ["x", "s"], ["y"])
    constants = {"s": normal(1)}
    model = graph([normalize], [value("x", [2, 8])], [value("y", [2, 8])], constants, 17)
    compare(model, {"x": normal(2, 8)}, tmp_path)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("axes", [{}, {"axes": [1, 2, 3]}])
def test_data_far_from_zero_have_a_variance(tmp_path: Path, axes: dict[str, Any]) -> None:
    normalize = node("MeanVarianceNormalization", ["x"], ["y"], **axes)
    model = graph([normalize], [value("x", [2, 3, 4, 5])], [value("y", [2, 3, 4, 5])], {}, 13)
    compare(model, {"x": far_from_zero(2, 3, 4, 5)}, tmp_path, tolerance=1e-2)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(("offset", "opset", "each"), [(0, 21, 2), (100, 18, 1)])
def test_groups_of_channels_are_normalized(
    tmp_path: Path, offset: float, opset: int, each: int
) -> None:
    """Since opset 21, ONNX has a factor per channel; before, it had a factor per group."""
    normalize = node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=3)
    factors = np.array([1, 2, 0.5], "float32")
    constants = {"s": factors.repeat(each), "b": -factors.repeat(each)}
    model = graph([normalize], [value("x", [2, 6, 4])], [value("y", [2, 6, 4])], constants, opset)
    x = normal(2, 6, 4) / 100 + np.float32(offset)
    groups = x.astype("float64").reshape(2, 3, 8)
    expected = groups - groups.mean(2, keepdims=True)
    expected /= np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    expected = (expected - 1) * factors[:, None]
    found = run_generated(model.SerializeToString(), [{"x": x}], tmp_path, SANITIZED)[0][0]
    np.testing.assert_allclose(found, expected.reshape(2, 6, 4), atol=1e-2)


@pytest.mark.parametrize(("kind", "tolerance"), [("float16", 2e-3), ("float64", 1e-12)])
def test_neighboring_channels_are_normalized(kind: str, tolerance: float) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    ends = [value(n, [2, 5, 3], element) for n in "xy"]
    normalize = node("LRN", ["x"], ["y"], size=3, alpha=0.5, beta=0.25, bias=2.0)
    x = (normal(2, 5, 3) * 3).astype(kind)
    data = graph([normalize], ends[:1], ends[1:]).SerializeToString()
    (found,) = run_imported(data, x)
    squares = np.pad(x.astype("float64") ** 2, ((0, 0), (1, 1), (0, 0)))
    total = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    assert found.dtype == kind
    np.testing.assert_allclose(found, x / (2 + total / 6) ** 0.25, tolerance)
    ((reference,),) = run_reference(data, [{"x": x}]).outputs
    np.testing.assert_allclose(found, reference, tolerance)
