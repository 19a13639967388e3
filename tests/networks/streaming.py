"""Keyword networks that process a stream frame by frame, as int8 TFLite with random weights."""

from __future__ import annotations

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tests.networks.tflite_models import Quantization
from tests.networks.tflite_states import StatefulBuilder, add_svdf

FEATURES, CHANNELS, KEYWORDS = 12, 16, 5
REAL = Quantization(0.06, -10)
PROBABILITIES = Quantization(1 / 256, -128)
VALID = schema.Padding.VALID


def write_svdf_keywords() -> bytes:
    """Return six SVDF layers over frames of 40 features and a classifier, like TFLM's benchmark."""
    network = StatefulBuilder()
    value, inputs = network.input((1, 40), "int8", Quantization(0.04, 3)), 40
    for lengths in ((64, 1, 10), (32, 1, 8), (32, 2, 8), (24, 1, 6), (24, 1, 6), (16, 1, 4)):
        value, inputs = add_svdf(network, value, inputs, lengths), lengths[0]
    classify(network, value, inputs)
    return network.build()


def write_streaming_dscnn() -> bytes:
    """Return a DS-CNN in which each layer keeps the frames that its window needs later."""
    network = StatefulBuilder()
    value = network.input((1, 1, FEATURES, 1), "int8", REAL)
    value = convolve(network, remember(network, value, 4), CHANNELS, (4, 3))
    for _ in range(2):
        value = convolve(network, remember(network, value, 3), CHANNELS, (3, 3), depthwise=True)
        value = convolve(network, value, CHANNELS, (1, 1))
    window = remember(network, value, 8)
    shape = shape_of(network, window)
    pooled = network.tensor((1, 1, 1, CHANNELS), "int8", REAL)
    size = {"filterHeight": shape[1], "filterWidth": shape[2], "strideH": 1, "strideW": 1}
    network.operator("AVERAGE_POOL_2D", [window], [pooled], "Pool2DOptions", padding=VALID, **size)
    flat = network.tensor((1, CHANNELS), "int8", REAL)
    lengths = network.constant(np.array([1, CHANNELS], "int32"))
    network.operator("RESHAPE", [pooled, lengths], [flat], "ReshapeOptions", 1)
    classify(network, flat, CHANNELS)
    return network.build()


def shape_of(network: StatefulBuilder, tensor: int) -> list[int]:
    return [int(d) for d in network.graph.tensors[tensor].shape]


def remember(network: StatefulBuilder, frame: int, frames: int) -> int:
    """Return the last ``frames`` of a stream; a variable stores all except the newest one."""
    _, _, width, channels = shape_of(network, frame)
    kept, whole = (1, frames - 1, width, channels), (1, frames, width, channels)
    name = f"stream_{len(network.graph.operators)}"
    variable = network.variable(name, np.full(kept, REAL.zero_point, "int8"))
    before = network.read(variable, kept, "int8", REAL)
    window = network.tensor(whole, "int8", REAL)
    network.operator("CONCATENATION", [before, frame], [window], "ConcatenationOptions", axis=1)
    begin, size = (network.constant(np.array(v, "int32")) for v in ((0, 1, 0, 0), kept))
    after = network.tensor(kept, "int8", REAL)
    network.operator("SLICE", [window, begin, size], [after], "SliceOptions")
    network.assign(variable, after)
    return window


def convolve(
    network: StatefulBuilder, source: int, channels: int, window: tuple[int, int],
    depthwise: bool = False,
) -> int:  # fmt: skip
    """Return a convolution over time and features, without padding."""
    _, height, width, depth = shape_of(network, source)
    generator = np.random.default_rng(len(network.graph.operators))
    shape = (1, *window, channels) if depthwise else (channels, *window, depth)
    scale = 0.02 / (window[0] * window[1] * (1 if depthwise else depth)) ** 0.5
    weights = network.constant(
        generator.integers(-127, 128, shape).astype("int8"),
        Quantization(scale, scales=(scale,) * channels, axis=3 if depthwise else 0),
    )
    bias_scales = (scale * REAL.scale,) * channels
    bias = network.constant(
        generator.integers(-200, 200, channels).astype("int32"),
        Quantization(bias_scales[0], scales=bias_scales),
    )
    result = network.tensor(
        (1, height - window[0] + 1, width - window[1] + 1, channels), "int8", REAL
    )
    kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    options = {"depthMultiplier": 1} if depthwise else {}
    relu = schema.ActivationFunctionType.RELU
    network.operator(
        kind, [source, weights, bias], [result], "DepthwiseConv2DOptions" if depthwise else
        "Conv2DOptions", padding=VALID, strideH=1, strideW=1, fusedActivationFunction=relu,
        **options,
    )  # fmt: skip
    return result


def classify(network: StatefulBuilder, source: int, inputs: int) -> None:
    generator = np.random.default_rng(inputs)
    grid = Quantization(0.001)
    weights = network.constant(
        generator.integers(-127, 128, (KEYWORDS, inputs)).astype("int8"), grid
    )
    bias = network.constant(generator.integers(-500, 500, KEYWORDS).astype("int32"))
    scores = network.tensor((1, KEYWORDS), "int8", Quantization(0.15, 4))
    network.operator("FULLY_CONNECTED", [source, weights, bias], [scores], "FullyConnectedOptions")
    result = network.output((1, KEYWORDS), "int8", PROBABILITIES)
    network.operator("SOFTMAX", [scores], [result], "SoftmaxOptions", beta=1.0)
