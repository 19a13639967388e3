"""Operators that TVM converts incorrectly or not at all: the C equals LiteRT in each bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.errors import UserError
from firmwright.models.tflite import importer as tflite
from tests.networks.firmware import SANITIZED, assert_exact, random_samples, run_generated
from tests.networks.tflite_declared import DECLARED, add_declared
from tests.networks.tflite_models import ModelBuilder, Quantization
from tests.networks.tflite_operators import infer_shapes

KINDS = frozenset(
    """
    BATCH_MATMUL BITCAST CAST DYNAMIC_UPDATE_SLICE FAKE_QUANT FILL FLOOR_MOD HASHTABLE_LOOKUP NEG
    ONE_HOT POW RANGE RELU_0_TO_1 REVERSE_SEQUENCE SELECT SPARSE_TO_DENSE STABLEHLO_MULTIPLY
    UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM
    ZEROS_LIKE
    """.split()
)

WITHOUT_KERNEL = {
    "int8": {"FLOOR_MOD", "REVERSE_SEQUENCE", "ZEROS_LIKE"},
    "dynamic": set(),
    "float32": {"CAST"},
    "int32": {"RELU_0_TO_1"},
    "bool": {"REVERSE_SEQUENCE", "SPARSE_TO_DENSE"},
}  # fmt: skip
"""Operators that LiteRT lacks in a type, or that another test covers."""


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("dtype", WITHOUT_KERNEL)
def test_values_equal_litert(dtype: str, tmp_path: Path) -> None:
    random, builder = np.random.default_rng(4), ModelBuilder()
    for case in DECLARED:
        of_inputs = case.kind.startswith("UNSORTED") and case.inputs[1].values is None
        if dtype in case.types and case.kind in KINDS - WITHOUT_KERNEL[dtype] and not of_inputs:
            add_declared(builder, case, dtype, random)
    infer_shapes(builder)
    data = builder.build()
    samples = random_samples(data, 2, 1, builder.limits)
    assert_exact(data, tmp_path, samples)


@pytest.mark.needs("gcc")
def test_casts_of_floats_beyond_an_integer_type(tmp_path: Path) -> None:
    """The options of the operators contradict the tensors; LiteRT ignores the options."""
    builder = ModelBuilder()
    values = [np.nan, np.inf, -np.inf, 2.0**31, -(2.0**40), -0.9, 255.9, 256, -128.5, 40000]
    source = builder.input((len(values),), "float32", None)
    for dtype in ("int8", "uint8", "int16", "int32", "int64"):
        result = builder.output((len(values),), dtype, None)
        builder.operator("CAST", [source], [result], "CastOptions", 1, inDataType=2, outDataType=0)
    sample = {f"t{source}": np.array(values, "float32")}
    found = run_generated(builder.build(), [sample], tmp_path, SANITIZED)
    expected = tflite.run_reference(builder.build(), [sample]).outputs
    for ours, theirs in zip(found[0], expected[0], strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.needs("gcc")
def test_norms_and_sums_of_integers(tmp_path: Path) -> None:
    random, builder = np.random.default_rng(7), ModelBuilder()
    for dtype, point, limits in (("int8", 0, (-128, 128)), ("uint8", 128, (0, 256))):
        for shape in ((5,), (40, 3), (2, 3, 90)):
            grid = Quantization(0.3, int(random.integers(*limits)))
            source = builder.input(shape, dtype, grid)
            result = builder.output(shape, dtype, Quantization(1 / 128, point))
            builder.operator("L2_NORMALIZATION", [source], [result], "L2NormOptions", 1)
    for dtype in ("int8", "uint8", "int16"):
        for factor in (0.7, 3.1, 11.0):
            source = builder.input((9, 50), dtype, Quantization(0.01))
            axes = builder.constant(np.array([0], "int32"))
            result = builder.output((50,), dtype, Quantization(0.01 * factor))
            builder.operator("SUM", [source, axes], [result], "ReducerOptions", 1, keepDims=False)
    data = builder.build()
    samples = random_samples(data, 3, 2)
    for name in ("t2", "t8"):
        samples[0][name][:2] = 0
    assert_exact(data, tmp_path, samples)


@pytest.mark.needs("gcc")
def test_slopes_along_other_axes_than_the_last(tmp_path: Path) -> None:
    builder = ModelBuilder()
    for dtype, grid in (("int8", Quantization(0.1, 3)), ("float32", None)):
        source = builder.input((2, 5, 4, 3), dtype, grid)
        slopes = np.arange(-2, 3).reshape(5, 1, 1).astype(dtype)
        result = builder.output((2, 5, 4, 3), dtype, grid)
        builder.operator("PRELU", [source, builder.constant(slopes, grid)], [result], version=1)
    data = builder.build()
    assert_exact(data, tmp_path, random_samples(data, 2, 3))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("RANDOM_UNIFORM", "draws random numbers, .*: make them an input"),
        ("NON_MAX_SUPPRESSION_V4", "selects boxes, .* state `postprocess`"),
    ],
)
def test_operators_without_a_form_are_rejected(kind: str, reason: str) -> None:
    builder = ModelBuilder()
    (case,) = (case for case in DECLARED if case.kind == kind)
    add_declared(builder, case, "float32", np.random.default_rng(1))
    with pytest.raises(UserError, match=rf"{kind} \(tensor 't\d'\) {reason}"):
        tflite.import_model(builder.build(), "model", {})


RANGE_OF_ONE = {"min": 1.0, "max": 1.0, "numBits": 8, "narrowRange": False}
NARROW = {"min": 0.0, "max": 1.0, "numBits": 8, "narrowRange": True}


@pytest.mark.parametrize(
    ("kind", "options", "given", "values", "reason"),
    [
        ("FAKE_QUANT", "FakeQuantOptions", (), RANGE_OF_ONE, r"its range is 1.0 to 1.0; min must"),
        ("FAKE_QUANT", "FakeQuantOptions", (), NARROW, "it has a narrow range, which LiteRT"),
        ("RANGE", "RangeOptions", (0, 5, 0), {}, "its step is 0; it must be a number"),
        ("REVERSE_SEQUENCE", "ReverseSequenceOptions", ([2, 2],), {"seqDim": 9, "batchDim": 0},
         "its axes are seqDim 9 and batchDim 0; expected two axes of 0 to 1"),
        ("REVERSE_SEQUENCE", "ReverseSequenceOptions", ([2, 2],), {"seqDim": -1, "batchDim": 0},
         "its axes are seqDim -1 and batchDim 0; expected"),
    ],
)  # fmt: skip
def test_options_that_litert_does_not_compute_are_rejected(
    kind: str, options: str, given: tuple[Any, ...], values: dict[str, Any], reason: str
) -> None:
    builder = ModelBuilder()
    inputs = [] if kind == "RANGE" else [builder.input((2, 4), "float32", None)]
    inputs += [builder.constant(np.array(each, "int32")) for each in given]
    shape, dtype = ((5,), "int32") if kind == "RANGE" else ((2, 4), "float32")
    result = builder.output(shape, dtype, None)
    builder.operator(kind, inputs, [result], options, 1, **values)
    with pytest.raises(UserError, match=rf"{kind} \(tensor 't\d'\): {reason}"):
        tflite.import_model(builder.build(), "model", {})


def test_integers_without_scales_are_not_quantized_again() -> None:
    builder = ModelBuilder()
    source = builder.input((4,), "int8", None)
    builder.operator("QUANTIZE", [source], [builder.output((4,), "uint8", None)], version=1)
    with pytest.raises(UserError, match="converts int8 to uint8 without scales: quantize"):
        tflite.import_model(builder.build(), "model", {})


def test_maxima_of_tensors_with_other_scales_are_rejected() -> None:
    """LiteRT compares the stored integers."""
    builder = ModelBuilder()
    sources = [builder.input((4,), "int8", Quantization(scale, 0)) for scale in (0.1, 0.2)]
    result = builder.output((4,), "int8", Quantization(0.1, 0))
    builder.operator("MAXIMUM", sources, [result], "MaximumMinimumOptions", 1)
    with pytest.raises(UserError, match=r"MAXIMUM \(tensor 't2'\) compares stored integers"):
        tflite.import_model(builder.build(), "model", {})


@pytest.mark.needs("gcc")
def test_softmax_of_small_scales(tmp_path: Path) -> None:
    builder = ModelBuilder()
    for scale in (1e-6, 1e-9, 1e-12, 1e-30):
        source = builder.input((2, 5), "int8", Quantization(scale, 0))
        result = builder.output((2, 5), "int8", Quantization(1 / 256, -128))
        builder.operator("SOFTMAX", [source], [result], "SoftmaxOptions", 1, beta=1.0)
    data = builder.build()
    assert_exact(data, tmp_path, random_samples(data, 2, 3))


@pytest.mark.needs("gcc")
def test_a_quotient_just_below_an_integer(tmp_path: Path) -> None:
    """The quotient is 3 in float32, but less than 3 in double."""
    builder = ModelBuilder()
    sources = [builder.input((2,), "float32", None) for _ in range(2)]
    result = builder.output((2,), "float32", None)
    builder.operator("FLOOR_DIV", sources, [result], "FloorDivOptions", 1)
    values = [[3.8722432, -3.8722432], [1.2907478, 1.2907478]]
    sample = {f"t{i}": np.array(v, "float32") for i, v in zip(sources, values, strict=True)}
    ((found,),) = assert_exact(builder.build(), tmp_path, [sample])
    np.testing.assert_array_equal(found, [2, -3])
