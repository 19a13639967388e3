"""A table of TFLite's operators with weights, for every type of activations and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tests.networks.tflite_models import Array, ModelBuilder, Quantization
from tests.networks.tflite_operators import SAME, VALID, Shape, random_grid

OPTIONS = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
}


@dataclass(frozen=True)
class Weighted:
    """One operator; ``result`` is the output shape of a transposed convolution."""

    kind: str
    source: Shape
    weights: Shape
    values: Mapping[str, Any]
    per_channel: bool = True
    bias: bool = True
    result: Shape = ()
    axis: int | None = None

    @property
    def channel_axis(self) -> int:
        return 3 if self.kind == "DEPTHWISE_CONV_2D" else 0


def windows(padding: int, stride: int = 1, dilation: int = 1) -> dict[str, int]:
    return {
        "padding": padding, "strideW": stride, "strideH": stride,
        "dilationWFactor": dilation, "dilationHFactor": dilation,
    }  # fmt: skip


CASES = (
    *(Weighted("CONV_2D", (1, 7, 6, 4), (5, 3, 2, 4),
               windows(p, s, d) | {"fusedActivationFunction": a}, c)
      for p, s, d, a, c in ((SAME, 1, 1, 0, True), (VALID, 2, 1, 1, True),
                            (SAME, 2, 1, 3, False), (SAME, 1, 2, 0, True))),
    Weighted("CONV_2D", (2, 5, 5, 6), (4, 3, 3, 3), windows(SAME)),
    *(Weighted("DEPTHWISE_CONV_2D", (1, 7, 6, n), (1, 3, 2, n * m),
               windows(p, s, d) | {"depthMultiplier": m, "fusedActivationFunction": a}, c)
      for n, m, p, s, d, a, c in (
          (4, 1, SAME, 1, 1, 0, True), (3, 2, VALID, 2, 1, 1, True), (1, 5, SAME, 1, 1, 3, True),
          (4, 1, SAME, 1, 2, 0, False), (1, 1, SAME, 1, 1, 0, True), (3, 2, SAME, 1, 1, 0, False))),
    Weighted("DEPTHWISE_CONV_2D", (1, 5, 5, 3), (1, 3, 3, 3),
             windows(SAME) | {"depthMultiplier": 1}, False, axis=3),
    *(Weighted("FULLY_CONNECTED", source, (5, 24),
               {"keepNumDims": keep, "fusedActivationFunction": a}, c, b)
      for source, keep, a, c, b in (
          ((3, 24), False, 0, False, True), ((2, 3, 4, 6), False, 1, False, True),
          ((2, 3, 24), True, 0, False, True), ((1, 24), False, 0, True, True),
          ((2, 2, 3, 4), False, 0, False, False), ((2, 12), False, 3, False, True))),
    *(Weighted("TRANSPOSE_CONV", (1, 4, 3, 4), (5, 3, 2, 4),
               {"padding": p, "strideW": s, "strideH": s}, c, b, result)
      for p, s, c, b, result in (
          (SAME, 2, True, True, (1, 8, 6, 5)), (VALID, 2, True, False, (1, 9, 6, 5)),
          (SAME, 1, False, True, (1, 4, 3, 5)), (SAME, 3, True, True, (1, 10, 9, 5)))),
)  # fmt: skip


def random_scales(random: np.random.Generator, count: int) -> tuple[float, ...]:
    return tuple(float(np.float32(s)) for s in 10 ** random.uniform(-3, -1, count))


def draw_dynamic_range(
    case: Weighted, random: np.random.Generator
) -> tuple[Array, Array, Quantization]:
    """Return int8 weights, a bias in float32, and the weights' scales."""
    channels = case.weights[case.channel_axis]
    scales = random_scales(random, channels)
    if not case.per_channel and case.kind != "DEPTHWISE_CONV_2D":  # LiteRT needs all scales
        scales = scales[:1]
    weights = random.integers(-127, 127, case.weights, "int8", endpoint=True)
    bias = random.normal(0, 1, channels).astype("float32")
    return weights, bias, Quantization(scales[0], 0, scales, case.channel_axis)


def add_weighted(
    builder: ModelBuilder,
    case: Weighted,
    dtype: str,
    weight_dtype: str,
    bias_dtype: str,
    random: np.random.Generator,
) -> None:
    """Add one operator with random weights and grids; activations are float32 if ``dtype`` is.

    Weights of integers with activations of float32 are a dynamic range.
    """
    source_grid, weight_grid, bias_grid, output_grid = None, None, None, None
    values = dict(case.values)
    if weight_dtype == "float32":
        weights = random.normal(0, 1, case.weights).astype("float32")
        bias = random.normal(0, 1, case.weights[case.channel_axis]).astype("float32")
    elif dtype == "float32":
        weights, bias, weight_grid = draw_dynamic_range(case, random)
        if case.kind == "FULLY_CONNECTED":
            values["asymmetricQuantizeInputs"] = bool(random.integers(0, 2))
    else:
        channels = case.weights[case.channel_axis]
        scales = random_scales(random, channels)
        scales = scales if case.per_channel and weight_dtype != "uint8" else scales[:1]
        source_grid = random_grid(random, dtype)
        point = int(random.integers(0, 256)) if weight_dtype == "uint8" else 0
        axis = case.axis if case.axis is not None else case.channel_axis
        weight_grid = Quantization(scales[0], point, scales, axis)
        products = tuple(float(np.float32(source_grid.scale * s)) for s in scales)
        bias_grid = Quantization(products[0], 0, products)
        limits = (0, 255) if weight_dtype == "uint8" else (-127, 127)
        limits = (-8, 7) if weight_dtype == "int4" else limits
        weights = random.integers(*limits, case.weights, "int64", endpoint=True)
        weights = weights.astype("int8" if weight_dtype == "int4" else weight_dtype)
        terms = prod(case.weights) // channels
        reach = float(np.iinfo(dtype).max) * limits[1] * terms**0.5 * max(products)
        spread = reach / np.iinfo(dtype).max * float(random.choice([0.02, 0.3, 1]))
        output_grid = Quantization(float(np.float32(spread)), random_grid(random, dtype).zero_point)
        reach_of_bias = int(min(2**31 - 1, reach / max(products)))
        bias = random.integers(-reach_of_bias, reach_of_bias, channels).astype(bias_dtype)
    source = builder.input(case.source, dtype, source_grid)
    inputs = [source, builder.constant(weights, weight_grid, packed=weight_dtype == "int4")]
    if case.kind == "TRANSPOSE_CONV":
        inputs = [builder.constant(np.array(case.result, "int32")), inputs[1], source]
    if case.bias:
        inputs.append(builder.constant(bias, bias_grid))
    output = builder.output((1,) * (4 if "CONV" in case.kind else 1), dtype, output_grid)
    version = {"FULLY_CONNECTED": 4, "TRANSPOSE_CONV": 3, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3}
    builder.operator(
        case.kind, inputs, [output], OPTIONS[case.kind], version=version[case.kind],
        **values,
    )  # fmt: skip
