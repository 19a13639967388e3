"""Operators that double height and width are bit-exact to LiteRT's reference kernels."""

import numpy as np
import pytest
from firmwright_ethos_u.flatbuffer import NetworkWriter
from single import SAME, compare, random


def test_transposed_convolution() -> None:
    rng = np.random.default_rng(3)
    writer = NetworkWriter()
    source = writer.tensor((1, 5, 6, 8), "int8", [0.05], 4)
    scales = rng.uniform(0.002, 0.01, 12).tolist()
    weights = writer.constant(rng.integers(-127, 128, (12, 3, 3, 8)).astype("int8"), scales)
    shape = writer.constant(np.array([1, 10, 12, 12], np.int32))
    sums = rng.integers(-900, 900, 12).astype("int32")
    bias = writer.constant(sums, [0.05 * scale for scale in scales])
    target = writer.tensor((1, 10, 12, 12), "int8", [0.1], 3)
    writer.operator(
        "TRANSPOSE_CONV",
        [shape, weights, source, bias],
        [target],
        "TransposeConvOptions",
        padding=SAME,
        strideH=2,
        strideW=2,
    )
    compare(writer.build([source], [target]), [random(rng, (1, 5, 6, 8), "int8")])


@pytest.mark.parametrize(
    ("kind", "options", "half_pixels"),
    [
        ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions", False),
        ("RESIZE_BILINEAR", "ResizeBilinearOptions", False),
        ("RESIZE_BILINEAR", "ResizeBilinearOptions", True),
    ],
)
def test_resize(kind: str, options: str, half_pixels: bool) -> None:
    writer = NetworkWriter()
    source, target = (
        writer.tensor((1, *shape, 8), "int8", [0.05], 4) for shape in ((5, 6), (10, 12))
    )
    size = writer.constant(np.array([10, 12], np.int32))
    writer.operator(kind, [source, size], [target], options, halfPixelCenters=half_pixels)
    values = random(np.random.default_rng(3), (1, 5, 6, 8), "int8")
    compare(writer.build([source], [target]), [values])
