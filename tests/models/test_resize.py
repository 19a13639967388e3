"""Resizes in all modes, by scales and by sizes, of floats and of quantized images."""

from __future__ import annotations

from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from firmwright.models.onnx.importer import run_reference
from tests.networks.firmware import run_generated
from tests.networks.onnx_models import graph, node, value

LENGTHS = (6, 7)
SCALES = ((1.5, 1.7), (0.6, 2), (2, 3))
SIZES = ((9, 10), (1, 3))
SCALE, ZERO = np.array(0.03, "float32"), np.array(5, "int8")
MODES: tuple[dict[str, Any], ...] = (
    *({"mode": "nearest", "nearest_mode": kind} for kind in
      ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
    {"mode": "linear"},
    {"mode": "cubic"},
)  # fmt: skip
PLACES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel",
          "half_pixel_symmetric", "tf_crop_and_resize")  # fmt: skip


def resize_everything(place: str, modes: tuple[dict[str, Any], ...]) -> onnx.ModelProto:
    """Return a graph of resizes of one image: the first outputs are float, the others int8."""
    region = [0, 0, 0.1, 0.2, 1, 1, 0.8, 0.9]
    constants = {"roi": np.array(region, "float32"), "scale": SCALE, "zero": ZERO}
    nodes = [node("QuantizeLinear", ["x", "scale", "zero"], ["stored"]),
             node("DequantizeLinear", ["stored", "scale", "zero"], ["real"])]  # fmt: skip
    outputs, number = [], count()
    for source, mode, (by_scale, wanted) in product(
        ("x", "real"), modes, [*((True, s) for s in SCALES), *((False, s) for s in SIZES)]
    ):
        name = f"y{next(number)}"
        whole, kind = ([1, 1], "float32") if by_scale else ([1, 2], "int64")
        constants[f"{name}_to"] = np.array([*whole, *wanted], kind)
        to = [f"{name}_to"] if by_scale else ["", f"{name}_to"]
        settings = {"coordinate_transformation_mode": place, **mode}
        nodes.append(node("Resize", [source, "roi", *to], [name], **settings))
        if source == "real":
            nodes.append(node("QuantizeLinear", [name, "scale", "zero"], [f"{name}_int8"]))
            outputs.append(value(f"{name}_int8", [*"abcd"], onnx.TensorProto.INT8))
        else:
            outputs.append(value(name, [*"abcd"]))
    return graph(nodes, [value("x", [1, 2, *LENGTHS])], outputs, constants, 19)


def compare_with_runtime(model: onnx.ModelProto, folder: Path) -> None:
    """Compare floats within their rounding error; int8 values may differ by one step at a tie."""
    data = model.SerializeToString()
    sample = {"x": np.random.default_rng(3).normal(0, 1, (1, 2, *LENGTHS)).astype("float32")}
    expected = run_reference(data, [sample])
    assert expected.runtime.startswith("onnxruntime")
    found = run_generated(data, [sample], folder, ("-O0",))[0]
    apart = elements = 0
    for output, ours, theirs in zip(model.graph.output, found, expected.outputs[0], strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), output.name
        if ours.dtype == np.float32:
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5, err_msg=output.name)
            continue
        steps = np.abs(ours.astype(int) - theirs)
        assert steps.max() <= 1, output.name
        apart, elements = apart + int(np.count_nonzero(steps)), elements + steps.size
    assert apart <= elements // 50


@pytest.mark.slow
@pytest.mark.needs("gcc")
@pytest.mark.parametrize("place", PLACES)
def test_pictures_are_resized_as_onnx_runtime_does(place: str, tmp_path: Path) -> None:
    compare_with_runtime(resize_everything(place, MODES), tmp_path)


@pytest.mark.slow
@pytest.mark.needs("gcc")
@pytest.mark.parametrize("place", ["half_pixel", "align_corners", "asymmetric"])
def test_pictures_are_resized_without_aliases(place: str, tmp_path: Path) -> None:
    modes = ({"mode": "linear", "antialias": 1}, {"mode": "cubic", "antialias": 1},
             {"mode": "cubic", "exclude_outside": 1})  # fmt: skip
    compare_with_runtime(resize_everything(place, modes), tmp_path)
