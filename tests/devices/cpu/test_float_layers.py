"""The bit-exact reference of the float forms is close to the exact result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from firmwright.ir.layer import FloatLayer, LayerKind
from tests.devices.cpu.float_layers import FLOAT_KINDS, draw_float_layer, evaluate_floats

ROUNDING = 2.0**-24
"""Relative error of one operation in float32."""


def convolve_exactly(
    layer: FloatLayer, inputs: dict[str, npt.NDArray[Any]]
) -> npt.NDArray[np.float64]:
    """Return a layer's result without clipping, from ONNX's evaluator in float64."""
    data = inputs["input"].astype("float64")
    first = data if layer.is_planar else np.moveaxis(data, 3, 1)
    node = helper.make_node(
        "Conv", ["x", "w", "b"], ["y"],
        kernel_shape=layer.kernel, strides=layer.strides, dilations=layer.dilation,
        pads=layer.padding, group=layer.channels // layer.weights.shape[3],
    )  # fmt: skip
    ports = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, None) for n in "xwby"]
    graph = helper.make_graph([node], "layer", ports[:3], ports[3:])
    evaluator = ReferenceEvaluator(helper.make_model(graph))
    weights = np.moveaxis(layer.weights, 3, 1).astype("float64")
    given = {"x": first, "w": weights, "b": layer.bias.astype("float64")}
    outputs: Any = evaluator.run(None, given)
    result = outputs[0]
    sums: npt.NDArray[np.float64] = np.moveaxis(result, 1, 3)
    return sums + inputs["added"] if layer.is_adding else sums


@pytest.mark.parametrize("kind", FLOAT_KINDS)
def test_a_result_is_as_near_as_its_terms_allow(kind: LayerKind) -> None:
    generator = np.random.default_rng(5)
    for _ in range(30):
        layer = draw_float_layer(kind, generator)
        after = (layer.batch, layer.out_height, layer.out_width, layer.out_channels)
        before = (layer.batch, layer.height, layer.width, layer.channels)
        if layer.is_planar:
            before = (before[0], before[3], *before[1:3])
        inputs = {
            "input": generator.standard_normal(before, "float32"),
            **({"added": generator.standard_normal(after, "float32")} if layer.is_adding else {}),
        }
        magnitudes = replace(layer, weights=np.abs(layer.weights), bias=np.abs(layer.bias))
        largest = convolve_exactly(magnitudes, {n: np.abs(a) for n, a in inputs.items()})
        wanted = np.clip(convolve_exactly(layer, inputs), layer.low, layer.high)
        found = evaluate_floats(layer, inputs)
        bound = (layer.taps + 2) * ROUNDING * largest * 1.001
        assert (np.abs(found - wanted) <= bound).all()
