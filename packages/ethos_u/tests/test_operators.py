"""Each operator that the device accepts is exact, alone and after a maximum."""

from typing import Any

import numpy as np
import pytest
from firmwright_ethos_u.flatbuffer import NetworkWriter
from partition import compare_region
from single import Array, random

SHAPE = (1, 8, 8, 16)
RNG = np.random.default_rng(7)
ROW: Array = RNG.integers(-127, 128, (1, 1, 1, 16)).astype("int8")
WEIGHTS: Array = RNG.integers(-127, 128, (10, 16)).astype("int8")


def integers(*values: int) -> tuple[Array]:
    return (np.array(values, np.int32),)


def write_operator(
    kind: str, shape: tuple[int, ...], table: str, constants: list[Any], options: dict[str, Any]
) -> tuple[bytes, list[Array]]:
    """Return a maximum of two inputs, an operator after the maximum, and random inputs.

    `options` may contain `scale`, `zero` and `count` of the outputs, in addition to TFLite's
    options.
    """
    scale, zero = options.pop("scale", 0.05), options.pop("zero", 4)
    writer = NetworkWriter()
    first, second, source = (writer.tensor(SHAPE, "int8", [0.05], 4) for _ in range(3))
    writer.operator("MAXIMUM", [first, second], [source], "MaximumMinimumOptions")
    operands = [source, *(writer.constant(*constant) for constant in constants)]
    if kind == "SPLIT":
        operands.reverse()
    count = options.pop("count", 1)
    targets = [writer.tensor(shape, "int8", [scale], zero) for _ in range(count)]
    writer.operator(kind, operands, targets, table, **options)
    values = [random(RNG, SHAPE, "int8") for _ in range(2)]
    return writer.build([first, second], targets), values


@pytest.mark.parametrize(
    ("kind", "shape", "table", "constants", "options"),
    [
        ("ADD", SHAPE, "AddOptions", [(ROW, [0.03])], {"scale": 0.07}),
        ("SUB", SHAPE, "SubOptions", [(ROW, [0.03])], {"scale": 0.07, "zero": -9}),
        ("MUL", SHAPE, "MulOptions", [(ROW, [0.03])], {"scale": 0.2}),
        ("MEAN", (1, 16), "ReducerOptions", [integers(1, 2)], {"scale": 0.03}),
        ("LOGISTIC", SHAPE, "", [], {"scale": 1 / 256, "zero": -128}),
        ("TANH", SHAPE, "", [], {"scale": 1 / 128, "zero": 0}),
        ("RELU", SHAPE, "", [], {"scale": 0.04, "zero": -128}),
        ("RELU6", SHAPE, "", [], {"scale": 6 / 255, "zero": -128}),
        ("RELU_N1_TO_1", SHAPE, "", [], {"scale": 1 / 100, "zero": 3}),
        ("HARD_SWISH", SHAPE, "", [], {"scale": 0.04, "zero": -100}),
        ("LEAKY_RELU", SHAPE, "LeakyReluOptions", [], {"alpha": 0.1}),
        ("ABS", SHAPE, "", [], {"scale": 0.06, "zero": -100}),
        ("QUANTIZE", SHAPE, "", [], {"scale": 0.07, "zero": -3}),
        ("RESIZE_BILINEAR", (1, 16, 16, 16), "ResizeBilinearOptions", [integers(16, 16)], {}),
        (
            *("RESIZE_NEAREST_NEIGHBOR", (1, 16, 16, 16), "ResizeNearestNeighborOptions"),
            *([integers(16, 16)], {}),
        ),
        (
            *("PAD", (1, 10, 11, 16), "PadOptions"),
            *([(np.array([[0, 0], [1, 1], [1, 2], [0, 0]], np.int32),)], {}),
        ),
        ("RESHAPE", (1, 1024), "ReshapeOptions", [integers(1, 1024)], {"newShape": [1, 1024]}),
        ("TRANSPOSE", (1, 16, 8, 8), "TransposeOptions", [integers(0, 3, 1, 2)], {}),
        (
            *("STRIDED_SLICE", (1, 4, 8, 16), "StridedSliceOptions"),
            *([integers(0, 2, 0, 0), integers(1, 6, 8, 16), integers(1, 1, 1, 1)], {}),
        ),
        (
            *("SPLIT", (1, 8, 8, 8), "SplitOptions"),
            *([(np.array(3, np.int32),)], {"numSplits": 2, "count": 2}),
        ),
        (
            *("MAX_POOL_2D", (1, 4, 4, 16), "Pool2DOptions", []),
            {"strideH": 2, "strideW": 2, "filterHeight": 3, "filterWidth": 3},
        ),
        (
            *("FULLY_CONNECTED", (1, 8, 8, 10), "FullyConnectedOptions", [(WEIGHTS, [0.01])]),
            {"scale": 0.1, "keepNumDims": True},
        ),
    ],
)
def test_operator(
    kind: str, shape: tuple[int, ...], table: str, constants: list[Any], options: dict[str, Any]
) -> None:
    network, inputs = write_operator(kind, shape, table, constants, {**options})
    assert len(compare_region(network, inputs)) > 1


def test_clip_and_concatenation() -> None:
    """A fused activation of a maximum is a clip of integers, and a concatenation repeats an
    operand."""
    writer = NetworkWriter()
    source, pooled = (writer.tensor(SHAPE, "int8", [0.05], 4) for _ in range(2))
    target = writer.tensor((1, 8, 8, 48), "int8", [0.05], 4)
    window = {"strideH": 1, "strideW": 1, "filterHeight": 3, "filterWidth": 3}
    options = {**window, "fusedActivationFunction": 3}
    writer.operator("MAX_POOL_2D", [source], [pooled], "Pool2DOptions", **options)
    operands = [pooled, source, pooled]
    writer.operator("CONCATENATION", operands, [target], "ConcatenationOptions", axis=3)
    values = [random(RNG, SHAPE, "int8")]
    layers = compare_region(writer.build([source], [target]), values)
    assert [layer.kind for layer in layers] == ["max_pool2d", "clip", "concat"]
