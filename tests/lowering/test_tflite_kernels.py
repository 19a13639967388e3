"""Every operator with special integer arithmetic equals LiteRT's reference kernel, bit for bit.

Each test builds one model of many operators with random shapes and quantization parameters, so that
one compilation covers them all. The generated C runs under gcc's sanitizers: undefined behavior
ends it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.models.tflite import importer as tflite
from tests.networks.firmware import SANITIZED, Outputs, lowered, random_samples, run_generated
from tests.networks.tflite_models import ModelBuilder, Quantization

pytestmark = pytest.mark.needs("gcc")

NONE, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3
SAME, VALID = 0, 1


def generator(name: str) -> np.random.Generator:
    return np.random.default_rng(list(name.encode()))


def random_grid(random: np.random.Generator, dtype: str = "int8") -> Quantization:
    """A scale over four decades, and a zero point that is often an extreme of its type."""
    limits = np.iinfo(dtype)
    points = [limits.min, limits.max, int(random.integers(limits.min, limits.max)), 0]
    return Quantization(float(np.float32(10 ** random.uniform(-3, 1))), int(random.choice(points)))


def check_equal(data: bytes, folder: Path, seed: int = 0, samples: int = 6) -> None:
    """Compare generated C and LiteRT on every output; no operator may remain in float32."""
    for kernel in lowered(data).kernels.kernels:
        assert "float" not in kernel.body, f"{kernel.region} is not integer"
    inputs = random_samples(data, samples, seed)
    assert_equal(
        run_generated(data, inputs, folder, SANITIZED), tflite.run_reference(data, inputs).outputs
    )


def assert_equal(found: Outputs, expected: Outputs) -> None:
    for sample, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        for index, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            wrong = int((a != b).sum())
            assert wrong == 0, f"sample {sample}, output {index}: {wrong} of {a.size} differ"


def random_weights(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return random.integers(-127, 127, shape, np.int8, endpoint=True)


def add_convolution(
    builder: ModelBuilder,
    random: np.random.Generator,
    depthwise: bool,
    channels: tuple[int, int],
    extents: tuple[int, int, int],
    same: bool,
    activation: int,
    per_channel: bool,
) -> None:
    """Add a convolution of (input, output) channels and (image, window, stride) extents."""
    inner, outer = channels
    size, window, stride = extents
    source = random_grid(random)
    scales = tuple(float(np.float32(s)) for s in 10 ** random.uniform(-4, -1, outer))
    scales = scales if per_channel else scales[:1]
    shape = (1, window, window, outer) if depthwise else (outer, window, window, inner)
    axis = 3 if depthwise and per_channel else 0
    # The spread of the sums decides a useful output scale; with smaller ones most results saturate.
    spread = source.scale * max(scales) * 127 * window * inner / 3
    grid = Quantization(
        float(np.float32(spread * random.choice([0.02, 0.5, 1]))), random_grid(random).zero_point
    )
    products = tuple(float(np.float32(source.scale * s)) for s in scales)
    bias = random.integers(-20000, 20000, outer).astype("int32")
    inputs = [
        builder.input((1, size, size, inner), "int8", source),
        builder.constant(random_weights(random, shape), Quantization(scales[0], 0, scales, axis)),
        builder.constant(bias, Quantization(products[0], 0, products)),
    ]
    extent = -(-size // stride) if same else -(-(size - window + 1) // stride)
    output = builder.output((1, extent, extent, outer), "int8", grid)
    options = {"depthMultiplier": 1} if depthwise else {}
    builder.operator(
        "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", inputs, [output],
        "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions",
        padding=SAME if same else VALID, strideW=stride, strideH=stride,
        dilationWFactor=1, dilationHFactor=1, fusedActivationFunction=activation, **options,
    )  # fmt: skip


@pytest.mark.parametrize("depthwise", [False, True])
def test_convolutions(tmp_path: Path, depthwise: bool) -> None:
    random = generator(f"conv{depthwise}")
    builder = ModelBuilder()
    for case in range(16):
        inner = int(random.integers(2, 7))
        extents = int(random.integers(3, 9)), int(random.integers(1, 4)), int(random.integers(1, 3))
        activation = (NONE, RELU, RELU6)[case % 3]
        add_convolution(
            builder, random, depthwise, (inner, inner if depthwise else 5), extents,
            case % 2 == 0, activation, case % 4 != 0,
        )  # fmt: skip
    check_equal(builder.build(), tmp_path)


def test_a_convolution_whose_sums_need_all_32_bits(tmp_path: Path) -> None:
    random = generator("wide")
    builder = ModelBuilder()
    add_convolution(builder, random, False, (34_000, 3), (1, 1, 1), False, NONE, True)
    assert "fixed_scale_any" in lowered(builder.build()).kernels.kernels[0].functions
    check_equal(builder.build(), tmp_path)


def test_dense_layers(tmp_path: Path) -> None:
    random = generator("dense")
    builder = ModelBuilder()
    for case in range(12):
        inner, outer = int(random.integers(1, 200)), int(random.integers(1, 60))
        source = random_grid(random)
        scale = float(np.float32(10 ** random.uniform(-4, -1)))
        grid = Quantization(
            float(np.float32(source.scale * scale * 127 * 60 * random.choice([0.001, 0.1, 1]))),
            random_grid(random).zero_point,
        )
        inputs = [
            builder.input((1, inner), "int8", source),
            builder.constant(random_weights(random, (outer, inner)), Quantization(scale)),
            builder.constant(
                random.integers(-30000, 30000, outer).astype("int32"),
                Quantization(float(np.float32(source.scale * scale))),
            ),
        ]
        output = builder.output((1, outer), "int8", grid)
        activation = (NONE, RELU)[case % 2]
        builder.operator(
            "FULLY_CONNECTED", inputs, [output], "FullyConnectedOptions",
            fusedActivationFunction=activation,
        )  # fmt: skip
    check_equal(builder.build(), tmp_path)


@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_operators_of_two_tensors(tmp_path: Path, kind: str, dtype: str) -> None:
    random = generator(kind + dtype)
    builder = ModelBuilder()
    shapes = [((1, 5, 4, 3), (1, 5, 4, 3)), ((1, 5, 4, 3), (1, 1, 1, 3)), ((1, 7), (1, 1))]
    for case in range(12):
        left, right = shapes[case % 3]
        grids = [random_grid(random, dtype) for _ in range(3)]
        if kind != "MUL":  # keep the sum's multiplier below 1, as the kernels require
            widest = max(float(g.scale) for g in grids[:2])
            grids[2] = Quantization(
                float(np.float32(widest * random.uniform(0.2, 2))), grids[2].zero_point
            )
        else:
            product = float(grids[0].scale) * float(grids[1].scale)
            grids[2] = Quantization(
                float(np.float32(product * random.uniform(2, 90))), grids[2].zero_point
            )
        inputs = [builder.input(left, dtype, grids[0]), builder.input(right, dtype, grids[1])]
        output = builder.output(left, dtype, grids[2])
        builder.operator(
            kind, inputs, [output], f"{kind.capitalize()}Options",
            fusedActivationFunction=(NONE, RELU, RELU6)[case % 3],
        )  # fmt: skip
    check_equal(builder.build(), tmp_path, samples=20)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_pooling(tmp_path: Path, dtype: str) -> None:
    random = generator("pool" + dtype)
    builder = ModelBuilder()
    for case in range(12):
        size, window = int(random.integers(4, 10)), int(random.integers(2, 5))
        stride, same = int(random.integers(1, 3)), case % 2 == 0
        grid = random_grid(random, dtype)
        extent = -(-size // stride) if same else -(-(size - window + 1) // stride)
        source = builder.input((1, size, size, 3), dtype, grid)
        output = builder.output((1, extent, extent, 3), dtype, grid)
        builder.operator(
            "MAX_POOL_2D" if case % 4 == 3 else "AVERAGE_POOL_2D", [source], [output],
            "Pool2DOptions", padding=SAME if same else VALID, strideW=stride, strideH=stride,
            filterWidth=window, filterHeight=window, fusedActivationFunction=case // 6 * RELU,
        )  # fmt: skip
    check_equal(builder.build(), tmp_path, samples=20)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_means(tmp_path: Path, dtype: str, keep: bool) -> None:
    random = generator(f"mean{dtype}{keep}")
    builder = ModelBuilder()
    for case in range(12):
        axes = [(1, 2), (1,), (3,), (2, 1)][case % 4]
        shape = (1, *(int(n) for n in random.integers(2, 9, 3)))
        source = random_grid(random, dtype)
        output = source if case % 3 == 0 else Quantization(
            float(np.float32(float(source.scale) * random.uniform(0.2, 1.5))),
            random_grid(random, dtype).zero_point,
        )  # fmt: skip
        reduced = tuple(1 if i in axes else d for i, d in enumerate(shape))
        if not keep:
            reduced = tuple(d for i, d in enumerate(shape) if i not in axes)
        inputs = [
            builder.input(shape, dtype, source),
            builder.constant(np.array(axes, "int32")),
        ]
        builder.operator(
            "MEAN", inputs, [builder.output(reduced, dtype, output)], "ReducerOptions",
            keepDims=keep,
        )  # fmt: skip
    check_equal(builder.build(), tmp_path, samples=20)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_softmax(tmp_path: Path, dtype: str) -> None:
    random = generator("softmax" + dtype)
    builder = ModelBuilder()
    grid = Quantization(1 / 256, int(np.iinfo(dtype).min))
    for shape in [(1, 2), (1, 10), (1, 12), (1, 64), (1, 400), (5, 3), (1, 2, 3, 7), (1, 1)]:
        # The last scale is that of attention with a mask of -1e9.
        masked = Quantization(1e9 / 255, int(np.iinfo(dtype).max))
        for given in [*(random_grid(random, dtype) for _ in range(3)), masked]:
            source = builder.input(shape, dtype, given)
            output = builder.output(shape, dtype, grid)
            builder.operator("SOFTMAX", [source], [output], "SoftmaxOptions", beta=1.0)
    check_equal(builder.build(), tmp_path, samples=20)


@pytest.mark.parametrize("kind", ["LOGISTIC", "TANH", "RELU", "RELU6", "QUANTIZE"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_operators_of_one_tensor(tmp_path: Path, kind: str, dtype: str) -> None:
    random = generator(kind + dtype)
    builder = ModelBuilder()
    limits = np.iinfo(dtype)
    fixed = {
        "LOGISTIC": Quantization(1 / 256, int(limits.min)),
        "TANH": Quantization(1 / 128, 128 if dtype == "uint8" else 0),
    }
    for case in range(40):
        grid = random_grid(random, dtype)
        # Scales in a ratio of small numbers: many results are ties, or nearly ties.
        ratio = random.integers(1, 12) / random.integers(1, 8)
        target = Quantization(
            float(np.float32(grid.scale * ratio)), random_grid(random, dtype).zero_point
        )
        if case % 4 == 0:
            target = random_grid(random, dtype)
        target = fixed.get(kind, target)
        source = builder.input((1, 300), dtype, grid)
        builder.operator(kind, [source], [builder.output((1, 300), dtype, target)])
    check_equal(builder.build(), tmp_path, samples=10)


def test_concatenation_on_one_grid(tmp_path: Path) -> None:
    grid = Quantization(0.25, -3)
    builder = ModelBuilder()
    inputs = [builder.input((1, 3, n), "int8", grid) for n in (2, 5)]
    output = builder.output((1, 3, 7), "int8", grid)
    builder.operator("CONCATENATION", inputs, [output], "ConcatenationOptions", axis=2)
    check_equal(builder.build(), tmp_path)


def test_quantizing_and_dequantizing_real_numbers(tmp_path: Path) -> None:
    random = generator("real")
    builder = ModelBuilder()
    for _ in range(6):
        grid = random_grid(random)
        source = builder.input((1, 200), "float32", None)
        builder.operator("QUANTIZE", [source], [builder.output((1, 200), "int8", grid)])
        stored = builder.input((1, 200), "int8", grid)
        builder.operator("DEQUANTIZE", [stored], [builder.output((1, 200), "float32", None)])
    half = builder.input((1, 200), "float32", None)
    output = builder.output((1, 200), "int8", Quantization(0.5, 3))
    builder.operator("QUANTIZE", [half], [output])
    data = builder.build()
    inputs = random_samples(data, 6, 0)
    for sample in inputs:  # ties, for which the two common roundings differ
        name = builder.graph.tensors[half].name
        sample[name] = np.round(sample[name] * 4).astype("float32") / 4
    assert_equal(
        run_generated(data, inputs, tmp_path, SANITIZED),
        tflite.run_reference(data, inputs).outputs,
    )
