"""Every operator of the tables equals LiteRT's reference kernel in each supported type.

Integers are equal bit for bit, and float32 within 1e-5 of the largest result. One model contains
all cases of a table, so that one compilation covers them. It runs under gcc's sanitizers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmwright.errors import UserError
from firmwright.models.tflite import importer as tflite
from tests.lowering.test_tflite_kernels import assert_equal
from tests.models.test_bad_tflite import sloped_wide
from tests.networks.firmware import SANITIZED, lowered, random_samples, run_generated
from tests.networks.tflite_models import ModelBuilder, Quantization
from tests.networks.tflite_operators import (
    ARITHMETIC,
    COMPUTED,
    MOVES,
    SAME,
    VALID,
    Case,
    add_case,
    random_grid,
    scaled_grid,
    shaped,
)
from tests.networks.tflite_weighted import CASES, OPTIONS, add_weighted, windows

pytestmark = pytest.mark.needs("gcc")

NOT_TAKEN = {
    "int16": {"SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "ARG_MAX", "ARG_MIN", "PRELU",
              "HARD_SWISH", "RELU_N1_TO_1", "RSQRT", "LOG", "GELU", "SQUARED_DIFFERENCE",
              "LOG_SOFTMAX", "L2_NORMALIZATION"},
    "uint8": {"ABS", "RSQRT", "EXP", "LOG", "SQUARED_DIFFERENCE", "BATCH_MATMUL", "REDUCE_PROD"},
    "int8": set(),
    "float32": {"RSQRT"},
}  # fmt: skip
"""Operators that LiteRT's reference kernels reject, by type."""

NEARLY = {"int8": {"LOG_SOFTMAX"}, "uint8": {"LOG_SOFTMAX", "RESIZE_BILINEAR"}}
"""Operators in float32 between dequantize and quantize, which may differ by the last bit."""


def model_of(cases: tuple[Case, ...], dtype: str, seed: int) -> bytes:
    random = np.random.default_rng(seed)
    builder = ModelBuilder()
    for case in cases:
        add_case(builder, case, dtype, random)
    return shaped(builder)


def taken(cases: tuple[Case, ...], dtype: str, nearly: bool = False) -> tuple[Case, ...]:
    chosen = tuple(c for c in cases if c.kind not in NOT_TAKEN[dtype])
    return tuple(c for c in chosen if (c.kind in NEARLY.get(dtype, ())) == nearly)


def check_exact(data: bytes, folder: Path, samples: int = 8) -> None:
    for kernel in lowered(data).kernels.kernels:
        if kernel.region.endswith("_sum"):  # LiteRT scales sums in float32; some need that
            continue
        assert "float" not in kernel.body, f"{kernel.region} is not integer"
    inputs = random_samples(data, samples, 0)
    found = run_generated(data, inputs, folder, SANITIZED)
    assert_equal(found, tflite.run_reference(data, inputs).outputs)


def check_close(data: bytes, folder: Path) -> None:
    inputs = random_samples(data, 4, 0)
    found = run_generated(data, inputs, folder, SANITIZED)
    for mine, theirs in zip(found, tflite.run_reference(data, inputs).outputs, strict=True):
        for index, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            assert (np.isnan(a) == np.isnan(b)).all(), f"output {index}"
            largest = float(np.abs(b[np.isfinite(b)]).max(initial=1e-6))
            np.testing.assert_allclose(a, b, 1e-5, 1e-5 * largest, err_msg=f"output {index}")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_moved_elements(tmp_path: Path, dtype: str) -> None:
    check_exact(model_of(taken(MOVES, dtype), dtype, 1), tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_arithmetic(tmp_path: Path, dtype: str) -> None:
    check_exact(model_of(taken(ARITHMETIC, dtype), dtype, 2), tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_functions(tmp_path: Path, dtype: str) -> None:
    check_exact(model_of(taken(COMPUTED, dtype), dtype, 3), tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_halves_of_a_negative_slope(tmp_path: Path, dtype: str) -> None:
    builder = ModelBuilder()
    for slope in (-0.5, -0.25, -0.75, -1.5, -3.0):
        grid = Quantization(0.125, 0)
        inputs = [builder.input((1, 500), dtype, grid)]
        outputs = [builder.output((1, 500), dtype, grid)]
        builder.operator("LEAKY_RELU", inputs, outputs, "LeakyReluOptions", alpha=slope)
    check_exact(shaped(builder), tmp_path)


def test_functions_of_16_bit_tensors(tmp_path: Path) -> None:
    random = np.random.default_rng(12)
    builder = ModelBuilder()
    kinds = [("LOG", {}), ("GELU", {"approximate": True}), ("GELU", {"approximate": False}),
             ("ABS", {})]  # fmt: skip
    for kind, values in kinds * 10:
        scales = 10 ** random.uniform(-4, -2, 2)  # LiteRT's logarithm overflows with smaller scales
        grids = [Quantization(float(np.float32(s))) for s in scales]
        inputs = [builder.input((1, 500), "int16", grids[0])]
        output = builder.output((1, 500), "int16", grids[1])
        options = {"GELU": "GeluOptions", "ABS": "AbsOptions"}.get(kind, "")
        builder.operator(kind, inputs, [output], options, version=1, **values)
    check_exact(builder.build(), tmp_path)


@pytest.mark.parametrize("kind", ["SQRT", "RSQRT"])
def test_roots_of_16_bit_tensors(tmp_path: Path, kind: str) -> None:
    random = np.random.default_rng(13)
    builder = ModelBuilder()
    for _ in range(20):
        scales = 10 ** random.uniform(-4, -1, 2)
        grids = [Quantization(float(np.float32(s))) for s in scales]
        inputs = [builder.input((1, 500), "int16", grids[0])]
        builder.operator(kind, inputs, [builder.output((1, 500), "int16", grids[1])], version=2)
    data = builder.build()
    samples = [
        {name: np.abs(x // 2) for name, x in sample.items()}  # LiteRT rejects negative values
        for sample in random_samples(data, 4, 0)
    ]
    samples[0]["t0"][0, :3] = (0, 1, 32767)
    found = run_generated(data, samples, tmp_path, SANITIZED)
    assert_equal(found, tflite.run_reference(data, samples).outputs)


@pytest.mark.parametrize(
    "data",
    [sloped_wide("int8")],
    ids=["int8 slopes"],
)
def test_what_16_bit_tensors_meet_is_off_by_the_last_bit_at_most(
    tmp_path: Path, data: bytes
) -> None:
    inputs = random_samples(data, 8, 0)
    found = run_generated(data, inputs, tmp_path, SANITIZED)
    for (mine,), (theirs,) in zip(found, tflite.run_reference(data, inputs).outputs, strict=True):
        assert np.unique(theirs).size > 20
        assert np.abs(mine.astype("int32") - theirs).max() <= 1


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_what_runs_in_real_numbers_is_off_by_the_last_bit_at_most(
    tmp_path: Path, dtype: str
) -> None:
    data = model_of(taken(COMPUTED, dtype, nearly=True), dtype, 4)
    inputs = random_samples(data, 8, 0)
    found = run_generated(data, inputs, tmp_path, SANITIZED)
    for mine, theirs in zip(found, tflite.run_reference(data, inputs).outputs, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert np.abs(a.astype("int32") - b).max() <= 1


@pytest.mark.parametrize("table", [MOVES, ARITHMETIC, COMPUTED], ids=["moves", "basic", "computed"])
def test_float_models(tmp_path: Path, table: tuple[Case, ...]) -> None:
    check_close(model_of(taken(table, "float32"), "float32", 5), tmp_path)


@pytest.mark.parametrize(
    ("dtype", "weights", "bias"),
    [
        ("int8", "int8", "int32"),
        ("uint8", "uint8", "int32"),
        ("int8", "int4", "int32"),
        ("int16", "int8", "int64"),
    ],
)
def test_operators_with_weights(tmp_path: Path, dtype: str, weights: str, bias: str) -> None:
    random = np.random.default_rng(6)
    builder = ModelBuilder()
    for case in CASES:
        if (case.kind, weights) != ("TRANSPOSE_CONV", "int4"):  # LiteRT supports int8 there
            add_weighted(builder, case, dtype, weights, bias, random)
    check_exact(shaped(builder), tmp_path)


@pytest.mark.parametrize("kind", ["CONV_2D", "FULLY_CONNECTED"])
@pytest.mark.parametrize(
    ("dtype", "weights", "bias"),
    [("int8", "int8", "int32"), ("uint8", "uint8", "int32"), ("int16", "int8", "int64")],
)
def test_sums_in_the_middle_between_two_results(
    tmp_path: Path, kind: str, dtype: str, weights: str, bias: str
) -> None:
    """Factors of 1/4 and 1/8, and factors that differ from them by the last bit of a float32."""
    random = np.random.default_rng(9)
    builder = ModelBuilder()
    for number in range(20):
        exact = number % 5 == 0
        source = Quantization(0.5 if exact else random_grid(random, dtype).scale)
        grid = Quantization(0.25 if exact else random_grid(random, "int8").scale)
        grid = Quantization(grid.scale, 128 if weights == "uint8" else 0)
        product = float(np.float32(source.scale * grid.scale))
        output = scaled_grid(source, grid.scale * (4 if number % 2 else 8), 0)
        middle = (1, 1) if kind == "CONV_2D" else ()
        stored = random.integers(-3, 4, (8, *middle, 7)) + grid.zero_point
        inputs = [
            builder.input((1, 30, 1, 7) if middle else (30, 7), dtype, source),
            builder.constant(stored.astype(weights), grid),
            builder.constant(np.zeros(8, bias), Quantization(product)),
        ]
        result = builder.output((1, 30, 1, 8) if middle else (30, 8), dtype, output)
        options = windows(0) if middle else {}
        builder.operator(kind, inputs, [result], OPTIONS[kind], version=3, **options)
    check_exact(builder.build(), tmp_path)


def test_float_operators_with_weights(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    builder = ModelBuilder()
    for case in CASES:
        add_weighted(builder, case, "float32", "float32", "float32", random)
    check_close(shaped(builder), tmp_path)


@pytest.mark.parametrize(("dtype", "points"), [("int8", (5, -7)), ("int16", (0, 0))])
def test_sums_are_saturated(tmp_path: Path, dtype: str, points: tuple[int, int]) -> None:
    """LiteRT's optimized kernel is the reference, because the reference kernel is wrong."""
    builder = ModelBuilder()
    source = builder.input((50, 4), dtype, Quantization(0.5, points[0]))
    axes = builder.constant(np.array([1], "int32"))
    output = builder.output((50,), dtype, Quantization(1.0, points[1]))
    builder.operator("SUM", [source, axes], [output], "ReducerOptions", version=1)
    data = builder.build()
    inputs = random_samples(data, 4, 0)
    reference = tflite.run_reference(data, inputs)
    assert "optimized" in reference.runtime
    assert_equal(run_generated(data, inputs, tmp_path), reference.outputs)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_comparisons(tmp_path: Path, dtype: str) -> None:
    random = np.random.default_rng(11)
    builder = ModelBuilder()
    names = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
    for number in range(18):
        name, ratio = names[number % 6], (1.0, 2.0, 1.7)[number // 6]
        left = random_grid(random, dtype)
        left = scaled_grid(left, 0.04, left.zero_point)  # LiteRT's kernels need scales below 1
        right = scaled_grid(left, ratio, random_grid(random, dtype).zero_point)
        shapes = (2, 150), (1, 150) if number > 5 else (2, 150)
        grids = left, right if number > 5 else left
        inputs = [builder.input(s, dtype, g) for s, g in zip(shapes, grids, strict=True)]
        kind = "".join(f"_{c}" if c.isupper() else c for c in name).strip("_").upper()
        output = builder.output((2, 150), "bool", None)
        builder.operator(kind, inputs, [output], f"{name}Options")
    check_exact(builder.build(), tmp_path)


def test_concatenation_of_several_grids(tmp_path: Path) -> None:
    """LiteRT supports several scales for uint8 only."""
    random = np.random.default_rng(10)
    builder = ModelBuilder()
    for _ in range(6):
        grids = [random_grid(random, "uint8") for _ in range(3)]
        inputs = [builder.input((2, 3, 40), "uint8", grid) for grid in grids]
        output = builder.output((2, 3, 120), "uint8", grids[0])
        builder.operator("CONCATENATION", inputs, [output], "ConcatenationOptions", axis=-1)
    check_exact(builder.build(), tmp_path)


def test_weights_stored_as_float16(tmp_path: Path) -> None:
    builder = ModelBuilder()
    random = np.random.default_rng(8)
    source = builder.input((1, 5, 5, 3), "float32", None)
    stored = [random.normal(0, 1, s).astype("float16") for s in ((4, 3, 3, 3), (4,))]
    real = [builder.tensor(s.shape, "float32", None) for s in stored]
    for half, whole in zip(stored, real, strict=True):
        builder.operator("DEQUANTIZE", [builder.constant(half)], [whole], version=3)
    output = builder.output((1, 5, 5, 4), "float32", None)
    builder.operator(
        "CONV_2D", [source, *real], [output], "Conv2DOptions",
        padding=0, strideW=1, strideH=1, dilationWFactor=1, dilationHFactor=1,
    )  # fmt: skip
    check_close(builder.build(), tmp_path)


def test_dynamic_range(tmp_path: Path) -> None:
    """Float results are LiteRT's bit for bit, also for rows of zeros and of one sign.

    LiteRT adds the products of TRANSPOSE_CONV in float32, so that these results are only close.
    """
    random = np.random.default_rng(14)
    builder = ModelBuilder()
    cases = [CASES[i] for i in (0, 2, 4, 6, 12, 13, 15, 16, 18)]
    for case in cases:
        add_weighted(builder, case, "float32", "int8", "float32", random)
    data = shaped(builder)
    inputs = random_samples(data, 4, 0)
    inputs[0] = {name: 0 * x for name, x in inputs[0].items()}
    inputs[1] = {name: abs(x) + 1 for name, x in inputs[1].items()}
    inputs[2] = {name: -abs(x) for name, x in inputs[2].items()}
    found = run_generated(data, inputs, tmp_path, SANITIZED)
    for ours, theirs in zip(found, tflite.run_reference(data, inputs).outputs, strict=True):
        for case, a, b in zip(cases, ours, theirs, strict=True):
            part = 1e-6 if case.kind == "TRANSPOSE_CONV" else 0
            assert np.abs(a - b).max() <= part * np.abs(b).max(), case


def test_weights_of_a_dynamic_range_stay_bytes() -> None:
    random = np.random.default_rng(15)
    builder = ModelBuilder()
    for case in CASES[:1] + CASES[5:6] + CASES[12:13] + CASES[18:19]:
        add_weighted(builder, case, "float32", "int8", "float32", random)
    weights = [w for k in lowered(shaped(builder)).kernels.kernels for w in k.weights]
    assert [w.dtype for w in weights if w.elements > 10] == ["int8"] * 4


def test_a_dynamic_range_of_bytes_without_sign_is_refused() -> None:
    builder = ModelBuilder()
    weights = builder.constant(np.ones((3, 4), "uint8"), Quantization(0.1, 128))
    inputs = [builder.input((1, 4), "float32", None), weights]
    output = builder.output((1, 3), "float32", None)
    builder.operator("FULLY_CONNECTED", inputs, [output], "FullyConnectedOptions")
    with pytest.raises(UserError, match=r"FULLY_CONNECTED .*'t2'.* has uint8 weights and float32"):
        lowered(builder.build())


def add_conv_3d_transpose(
    builder: ModelBuilder, result: tuple[int, ...], with_bias: bool, **options: int
) -> None:
    """Add the operator on (1, 2, 3, 2, 2) in float, with a result of the lengths ``result``."""
    random = np.random.default_rng(5)
    weights = random.normal(size=(3, 2, 3, 3, 2)).astype("float32")
    given = [builder.constant(np.array([1, *result, 3], "int32")), builder.constant(weights)]
    given.append(builder.input((1, 2, 3, 2, 2), "float32", None))
    if with_bias:
        given.append(builder.constant(random.normal(size=3).astype("float32")))
    made = builder.output((1, *result, 3), "float32", None)
    builder.operator("CONV_3D_TRANSPOSE", given, [made], "Conv3DOptions", 1, **options)


def test_transposed_convolutions_of_three_dimensions(tmp_path: Path) -> None:
    """Results may be shorter (SAME) or longer (VALID) than strides and windows make them."""
    builder, one = ModelBuilder(), {"dilationDFactor": 1, "dilationHFactor": 1}
    one["dilationWFactor"] = 1
    same = {"padding": SAME, "strideD": 2, "strideH": 1, "strideW": 2, **one}
    valid = {"padding": VALID, "strideD": 2, "strideH": 3, "strideW": 1, **one}
    add_conv_3d_transpose(builder, (3, 3, 3), True, **same)
    add_conv_3d_transpose(builder, (6, 8, 4), False, **valid)
    data = builder.build()
    samples = random_samples(data, 1, 1)
    found = run_generated(data, samples, tmp_path, SANITIZED)
    for ours, theirs in zip(found[0], tflite.run_reference(data, samples).outputs[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_dilated_transposed_convolution_is_refused() -> None:
    builder = ModelBuilder()
    options = {"padding": VALID, "strideD": 1, "strideH": 1, "strideW": 1, "dilationDFactor": 2}
    add_conv_3d_transpose(builder, (6, 4, 4), False, **options, dilationHFactor=1,
                          dilationWFactor=1)  # fmt: skip
    with pytest.raises(UserError, match=r"TRANSPOSE .* has the dilation factors \[2, 1, 1\]"):
        lowered(builder.build())


def test_an_operator_with_a_state_is_refused() -> None:
    builder = ModelBuilder()
    real = [builder.constant(np.ones(s, "float32")) for s in ((2, 4), (2, 2), (2,))]
    state = builder.tensor((1, 2), "float32", None)
    builder.graph.tensors[state].isVariable = True
    inputs = [builder.input((1, 1, 4), "float32", None), *real, state]
    output = builder.output((1, 1, 2), "float32", None)
    builder.operator("UNIDIRECTIONAL_SEQUENCE_RNN", inputs, [output], "SequenceRNNOptions", 1)
    with pytest.raises(UserError, match=r"SEQUENCE_RNN .*keeps a state between runs"):
        lowered(builder.build())
