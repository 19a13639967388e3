"""Operators for which LiteRT's integers differ from the definition equal LiteRT's integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmwright.models.tflite import importer as tflite
from firmwright.models.tflite.interpreters import is_divisible
from tests.lowering.test_tflite_kernels import assert_equal
from tests.lowering.test_tflite_operators import check_close, check_exact
from tests.models.test_bad_tflite import convolved_wide
from tests.networks.firmware import SANITIZED, random_samples, run_generated
from tests.networks.tflite_models import ModelBuilder, Quantization
from tests.networks.tflite_operators import shaped

pytestmark = pytest.mark.needs("gcc")


def add_convolution(builder: ModelBuilder, kind: str, factor: float) -> None:
    """Add a layer whose bias has a recorded scale, ``factor`` times the scale of the products."""
    random = np.random.default_rng(3)
    shape = (6, 3, 3, 2) if kind == "CONV_2D" else (1, 3, 3, 2)
    weights = random.integers(-127, 128, shape).astype("int8")
    channels = shape[0] if kind == "CONV_2D" else 2
    bias = random.integers(-3000, 3000, channels).astype("int32")
    inputs = [
        builder.input((1, 5, 5, 2), "int8", Quantization(0.05, -3)),
        builder.constant(weights, Quantization(0.01)),
        builder.constant(bias, Quantization(0.05 * 0.01 * factor)),
    ]
    output = builder.output((1, 5, 5, channels), "int8", Quantization(0.1, 4))
    options = {"CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions"}[kind]
    values = {"depthMultiplier": 1} if kind == "DEPTHWISE_CONV_2D" else {}
    steps = dict.fromkeys(("strideH", "strideW", "dilationHFactor", "dilationWFactor"), 1)
    builder.operator(kind, inputs, [output], options, version=3, **steps, **values)


def write_layers() -> bytes:
    builder = ModelBuilder()
    for kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        for factor in (2.0, 0.37):
            add_convolution(builder, kind, factor)
    return builder.build()


def write_sums(scales: tuple[float, ...]) -> bytes:
    builder = ModelBuilder()
    for scale, keep in zip(scales, (False, True, False), strict=False):
        source = builder.input((2, 9, 5), "int8", Quantization(0.0078, -1))
        axes = builder.constant(np.array([1], "int32"))
        shape = (2, 1, 5) if keep else (2, 5)
        output = builder.output(shape, "int8", Quantization(scale, 19))
        builder.operator("SUM", [source, axes], [output], "ReducerOptions", keepDims=keep)
    return builder.build()


def write_others() -> bytes:
    """Return SQRT, PRELU by position, TOPK_V2, QUANTIZE to int32 and SOFTMAX to int16."""
    builder = ModelBuilder()
    random = np.random.default_rng(5)
    for scale in (0.0027, 0.01):
        source = builder.input((1, 300), "int8", Quantization(0.0018, -128))
        builder.operator(
            "SQRT", [source], [builder.output((1, 300), "int8", Quantization(scale, -128))]
        )
    slopes = builder.constant(random.integers(-128, 128, (5, 5, 3)).astype("int8"),
                              Quantization(0.0079))  # fmt: skip
    source = builder.input((1, 5, 5, 3), "int8", Quantization(0.0078))
    result = builder.output((1, 5, 5, 3), "int8", Quantization(0.0074, -9))
    builder.operator("PRELU", [source, slopes], [result], version=1)
    source = builder.input((2, 9), "int8", Quantization(0.1, 1))
    results = [builder.output((2, 3), "int8", Quantization(0.1, 1)),
               builder.output((2, 3), "int32", None)]  # fmt: skip
    builder.operator("TOPK_V2", [source, builder.constant(np.array(3, "int32"))], results,
                     "TopKV2Options")  # fmt: skip
    source = builder.input((2, 90), "int16", Quantization(0.0005))
    builder.operator("QUANTIZE", [source], [builder.output((2, 90), "int32", Quantization(1.5e-7))],
                     version=1)  # fmt: skip
    source = builder.input((3, 7), "int8", Quantization(0.07, 2))
    builder.operator("SOFTMAX", [source],
                     [builder.output((3, 7), "int16", Quantization(1 / 65536, -32768))],
                     "SoftmaxOptions", beta=1.0)  # fmt: skip
    return shaped(builder)


def write_floats() -> bytes:
    """Return CUMSUM in all directions, and normalization over channels."""
    builder = ModelBuilder()
    for axis in (0, -1):
        for exclusive, reverse in ((False, False), (True, False), (False, True), (True, True)):
            source = builder.input((3, 4), "float32", None)
            axes = builder.constant(np.array(axis, "int32"))
            result = builder.output((3, 4), "float32", None)
            builder.operator("CUMSUM", [source, axes], [result], "CumsumOptions", version=1,
                             exclusive=exclusive, reverse=reverse)  # fmt: skip
    source = builder.input((3, 40), "float32", None)
    builder.operator("BUCKETIZE", [source], [builder.output((3, 40), "int32", None)],
                     "BucketizeOptions", version=1, boundaries=[0.25, 0.5, 0.5, 0.9])  # fmt: skip
    for radius in (1, 5):
        source = builder.input((1, 2, 2, 8), "float32", None)
        builder.operator("LOCAL_RESPONSE_NORMALIZATION", [source],
                         [builder.output((1, 2, 2, 8), "float32", None)],
                         "LocalResponseNormalizationOptions", version=1,
                         radius=radius, bias=1.0, alpha=0.7, beta=0.5)  # fmt: skip
    return builder.build()


def write_scales_of_zero() -> bytes:
    """Return the first step of an unrolled recurrent layer: a product with zeros of scale 0."""
    builder = ModelBuilder()
    random = np.random.default_rng(6)
    zeros = builder.constant(np.zeros((1, 4), "int16"), Quantization(0.0))
    weights = builder.constant(random.integers(-127, 128, (6, 4)).astype("int8"),
                               Quantization(0.004))  # fmt: skip
    product = builder.tensor((1, 6), "int16", Quantization(3e-43))
    builder.operator("FULLY_CONNECTED", [zeros, weights, -1], [product], "FullyConnectedOptions",
                     version=7)  # fmt: skip
    source = builder.input((1, 6), "int16", Quantization(0.0003))
    result = builder.output((1, 6), "int16", Quantization(0.0004))
    builder.operator("ADD", [product, source], [result], "AddOptions", version=3)
    return builder.build()


EXACT = {
    "scales of zero": write_scales_of_zero(),
    "bias of another scale": write_layers(),
    "sum": write_sums((0.027, 0.0313, 0.003)),
    "others": write_others(),
    "int32 bias of int16": convolved_wide(quantizedBiasType=2),
    "int32 bias of int16 without its type": convolved_wide(),
}


@pytest.mark.parametrize("data", EXACT.values(), ids=EXACT)
def test_integers_are_those_of_litert(data: bytes, tmp_path: Path) -> None:
    check_exact(data, tmp_path)


def test_ties_of_sums_are_those_of_float32(tmp_path: Path) -> None:
    data = write_sums((0.05, 0.078))
    inputs = random_samples(data, 40, 0)
    found = run_generated(data, inputs, tmp_path, SANITIZED)
    assert_equal(found, tflite.run_reference(data, inputs).outputs)


def test_sums_of_floats_are_those_of_litert(tmp_path: Path) -> None:
    check_close(write_floats(), tmp_path)


def test_only_the_operator_without_a_reference_kernel_has_another_judge() -> None:
    """The products of the two sets of kernels differ by a step in some of 8,192 results."""
    random = np.random.default_rng(3)
    weights = random.integers(-127, 128, (16, 16)).astype("int8")

    def write(repeated: bool) -> bytes:
        builder = ModelBuilder()
        source = builder.input((512, 16), "int8", Quantization(0.0283, -10))
        kernel = builder.constant(weights, Quantization(0.00231, 0))
        grid, shape = Quantization(0.03364, -3), (512, 16)
        product = (builder.tensor if repeated else builder.output)(shape, "int8", grid)
        builder.operator("FULLY_CONNECTED", [source, kernel, -1], [product],
                         "FullyConnectedOptions", version=4)  # fmt: skip
        if repeated:
            counts = builder.constant(np.array([1, 2], "int32"))
            builder.operator("TILE", [product, counts],
                             [builder.output((512, 32), "int8", grid)], version=3)  # fmt: skip
        return builder.build()

    samples = random_samples(write(False), 1, 0)
    product, tiled = (tflite.run_reference(write(repeated), samples) for repeated in (False, True))
    assert tiled.runtime.endswith("(reference kernels, and optimized kernels for TILE)")
    np.testing.assert_array_equal(tiled.outputs[0][0], np.tile(product.outputs[0][0], (1, 2)))


def test_a_part_reads_constants_without_elements() -> None:
    builder = ModelBuilder()
    source = builder.input((1, 4), "int8", Quantization(0.1))
    total = builder.tensor((1,), "int8", Quantization(0.4))
    axis, scalar = (builder.constant(np.array(a, "int32")) for a in ([1], []))
    builder.operator("SUM", [source, axis], [total], "ReducerOptions", version=2)
    builder.operator("RESHAPE", [total, scalar], [builder.output((), "int8", Quantization(0.4))],
                     "ReshapeOptions", version=1)  # fmt: skip
    samples = [{"t0": np.array([[4, 8, 12, 16]], "int8")}]
    assert tflite.run_reference(builder.build(), samples).outputs[0][0] == 10


def test_operators_with_a_common_state_have_one_interpreter() -> None:
    builder = ModelBuilder()
    source, state = (builder.input((1, 4), "float32", None) for _ in range(2))
    for _ in range(2):
        builder.operator("ADD", [source, state], [builder.output((1, 4), "float32", None)],
                         "AddOptions", version=1)  # fmt: skip
    assert is_divisible(builder.build())
    builder.graph.tensors[state].isVariable = True
    assert not is_divisible(builder.build())


def test_a_model_that_reference_kernels_lack_is_judged_by_the_others() -> None:
    builder = ModelBuilder()
    source = builder.input((1, 4), "float32", None)
    builder.operator("ELU", [source], [builder.output((1, 4), "float32", None)], version=1)
    data = builder.build()
    tflite.import_model(data, "net", {})
    reference = tflite.run_reference(data, [{"t0": np.array([[-1, 0, 1, 2]], "float32")}])
    assert reference.runtime.endswith("(optimized kernels for ELU)")
    np.testing.assert_allclose(reference.outputs[0][0][0, 0], np.expm1(-1), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_products_of_scalars_are_those_of_litert(dtype: str, tmp_path: Path) -> None:
    builder = ModelBuilder()
    inputs = [builder.input((), dtype, Quantization(0.05)) for _ in range(2)]
    result = builder.output((), dtype, Quantization(0.25))
    builder.operator("MUL", inputs, [result], "MulOptions")
    data = builder.build()
    samples = random_samples(data, 3, 1)
    found = run_generated(data, samples, tmp_path, SANITIZED)
    np.testing.assert_array_equal(found, tflite.run_reference(data, samples).outputs)
