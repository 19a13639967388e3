"""A table of TFLite operators, each with a list of its inputs, for small models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tests.networks.tflite_models import ModelBuilder, Quantization
from tests.networks.tflite_operators import (
    BROADCAST,
    LIMITS,
    PAIR,
    PICTURE,
    SAME,
    VALID,
    Shape,
    random_grid,
)

EVERY = ("float32", "int8", "uint8", "int16", "int32", "bool")
NUMBERS = EVERY[:5]
QUANTIZED = EVERY[1:4]
REAL = ("float32",)
REAL_AND_INDEX = ("float32", "int32")


@dataclass(frozen=True)
class Given:
    """One input; a constant if ``values`` are stated.

    ``dtype`` is the type, or empty for the type of the sweep. ``limits`` are those of the values.
    """

    shape: Shape = ()
    dtype: str = ""
    values: Any = None
    limits: tuple[float, float] | None = None
    is_random: bool = False


@dataclass(frozen=True)
class Declared:
    """One operator. ``results`` are the types of its results, empty for the type of the sweep.

    ``grids``: ``same`` for all tensors, ``free`` for each, ``none`` for plain
    integers, or ``symmetric`` without zero points. ``is_fixed`` forbids other lengths.
    """

    kind: str
    inputs: tuple[Given, ...]
    types: tuple[str, ...] = NUMBERS
    options: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    results: tuple[str, ...] = ("",)
    grids: str = "same"
    version: int = 1
    is_fixed: bool = False
    output: Shape = (1,)

    @property
    def outputs(self) -> int:
        return len(self.results)


def given(*shapes: Shape, dtype: str = "") -> tuple[Given, ...]:
    return tuple(Given(shape, dtype) for shape in shapes)


def whole(values: Any, dtype: str = "int32") -> Given:
    """A constant of integers."""
    return Given(np.shape(values), dtype, values)


def drawn(*shape: int) -> Given:
    """A constant of random values."""
    return Given(shape, is_random=True)


(FIRST,), MASK = given(*PICTURE), Given(PICTURE[0], "bool")
ROWS = Given((6, 4))
SEGMENTS = whole([0, 0, 1, 2, 2, 3])
SCATTERED = whole([2, 0, 2, -1, 1, 0])

DECLARED = (
    Declared("ADD_N", given(*PICTURE * 3), REAL_AND_INDEX, "AddNOptions"),
    Declared("ATAN2", given(*PAIR), REAL, "ATan2Options"),
    Declared("BITCAST", (FIRST,), REAL, "BitcastOptions", results=("int32",)),
    Declared("BITCAST", (FIRST,), ("int32",), "BitcastOptions", results=("float32",)),
    *(Declared("BITWISE_XOR", given(*shapes), (*QUANTIZED, "int32"), "BitwiseXorOptions",
               grids="none")
      for shapes in (PAIR, BROADCAST)),
    Declared("BROADCAST_ARGS", (whole([5, 1, 3]), whole([4, 1])), ("int32",)),
    *(Declared("BUCKETIZE", (FIRST,), REAL_AND_INDEX, "BucketizeOptions",
               {"boundaries": limits}, ("int32",))
      for limits in ([-1.0, 0.0, 2.5], [0.5])),
    *(Declared("CAST", (FIRST,), EVERY, "CastOptions", results=(result,))
      for result in ("int32", "float32", "bool")),
    *(Declared("CAST", (FIRST,), ("int32", "bool", "float32"), "CastOptions", results=(result,))
      for result in ("int8", "uint8", "int16")),
    *(Declared("CONV_3D", (Given((1, 4, 5, 4, 2)), drawn(2, 3, 2, 2, 3), *bias), REAL,
               "Conv3DOptions", {"padding": p, "strideD": s, "strideH": s, "strideW": 1,
                                 "dilationDFactor": 1, "dilationHFactor": 1, "dilationWFactor": 1,
                                 "fusedActivationFunction": a})
      for p, s, a, bias in ((SAME, 1, 0, (drawn(3),)), (VALID, 2, 1, ()), (SAME, 2, 3, ()))),
    *(Declared("CONV_3D_TRANSPOSE",
               (whole(shape), drawn(2, 3, 2, 3, 2), Given((1, 2, 2, 2, 2)), *bias), REAL,
               "Conv3DOptions", {"padding": p, "strideD": s, "strideH": s, "strideW": s,
                                 "dilationDFactor": 1, "dilationHFactor": 1, "dilationWFactor": 1})
      for p, s, bias, shape in ((SAME, 2, (), [1, 4, 4, 4, 3]), (VALID, 1, (), [1, 3, 4, 3, 3]),
                                (VALID, 2, (drawn(3),), [1, 4, 5, 4, 3]))),
    Declared("DEQUANTIZE", (FIRST,), QUANTIZED, "DequantizeOptions", results=("float32",)),
    *(Declared("DILATE", (Given((3, 4)), whole(factors), Given((), "", 2)), NUMBERS,
               "DilateOptions") for factors in ([1, 2], [3, 1])),
    *(Declared("DYNAMIC_UPDATE_SLICE", (Given((5, 4)), Given((2, 3)), start),
               (*EVERY,), "DynamicUpdateSliceOptions")
      for start in (whole([1, 0]), whole([4, -3]), Given((2,), "int32", None, (-2, 6)))),
    *(Declared("ELU", (Given((1, 300)),), NUMBERS, grids="free") for _ in range(3)),
    Declared("EMBEDDING_LOOKUP", (whole([3, 0, 3]), ROWS), EVERY),
    Declared("EMBEDDING_LOOKUP", (Given((5,), "int32", None, (0, 6)), drawn(6, 4)), EVERY),
    Declared("EMBEDDING_LOOKUP", (Given((5,), "int32", None, (0, 6)), drawn(6, 4)), ("dynamic",)),
    *(Declared("BATCH_MATMUL", (Given(left), drawn(*right)), ("dynamic",), "BatchMatMulOptions",
               {"adjX": x, "adjY": y, "asymmetricQuantizeInputs": a})
      for left, right, x, y, a in (((5, 7), (7, 4), False, False, False),
                                   ((2, 5, 7), (2, 4, 7), False, True, True),
                                   ((2, 7, 5), (7, 4), True, False, True))),
    Declared("EMBEDDING_LOOKUP_SPARSE",
             (whole([1, 3, 0]), whole([[0, 0], [2, 0], [2, 1]]), whole([3, 2]),
              Given((3,), "float32", [1.0, 2.0, 4.0]), drawn(4, 5)), REAL,
             "EmbeddingLookupSparseOptions", {"combiner": 1}),
    *(Declared(kind, (FIRST, Given(PICTURE[0], "", None, (1, 9))), types, f"{name}Options")
      for kind, name, types in (("DIV", "Div", ("int32",)),
                                ("FLOOR_DIV", "FloorDiv", ("int8", "int16", "int32")),
                                ("FLOOR_MOD", "FloorMod", ("int8", "int16", "int32")),
                                )),
    Declared("POW", (FIRST, Given(PICTURE[0], "", None, (0, 5))), ("int32",), "PowOptions"),
    *(Declared("FAKE_QUANT", (FIRST,), REAL, "FakeQuantOptions",
               {"min": low, "max": high, "numBits": bits, "narrowRange": False})
      for low, high, bits in ((-1.0, 2.0, 8), (0.0, 3.0, 4), (-2.5, 2.5, 8))),
    Declared("FILL", (whole([2, 3]), Given(())), EVERY, "FillOptions"),
    Declared("FILL", (whole([4]), Given((), "", 1)), EVERY, "FillOptions"),
    Declared("NEG", (FIRST,), ("int8", "int16"), "NegOptions", grids="symmetric"),
    *(Declared("GATHER_ND", (FIRST, indices), EVERY, "GatherNdOptions")
      for indices in (whole([[1, 2], [0, 4]]), whole([[1, 2, 3, 0]]),
                      Given((3, 2), "int32", None, (0, 2)))),
    Declared("HASHTABLE_LOOKUP", (Given((4,), "int32", None, (0, 9)), whole([1, 3, 5, 7, 8, 9]),
                                  drawn(6, 4)), REAL_AND_INDEX, results=("", "uint8")),
    *(Declared("L2_POOL_2D", (FIRST,), REAL, "Pool2DOptions",
               {"padding": p, "strideW": s, "strideH": s, "filterWidth": 3, "filterHeight": 2,
                "fusedActivationFunction": a}) for p, s, a in ((SAME, 1, 0), (VALID, 2, 1))),
    *(Declared("LOCAL_RESPONSE_NORMALIZATION", (Given((1, 3, 2, 7)),), REAL,
               "LocalResponseNormalizationOptions",
               {"radius": r, "bias": 1.0, "alpha": 0.3, "beta": b})
      for r, b in ((1, 0.5), (2, 0.75), (5, 1.0))),
    *(Declared(kind, given(*shapes), ("bool",), f"{name}Options")
      for kind, name in (("LOGICAL_AND", "LogicalAnd"), ("LOGICAL_OR", "LogicalOr"))
      for shapes in (PAIR, BROADCAST)),
    Declared("LOGICAL_NOT", (FIRST,), ("bool",), "LogicalNotOptions"),
    Declared("MATRIX_DIAG", (Given((2, 4)),), NUMBERS, "MatrixDiagOptions"),
    *(Declared("MATRIX_SET_DIAG", given(*shapes), NUMBERS, "MatrixSetDiagOptions",
               is_fixed=True)
      for shapes in (((2, 4, 3), (2, 3)), ((3, 5), (3,)))),
    Declared("MULTINOMIAL", (Given((1, 4)), whole(3)), REAL, "RandomOptions", {"seed": 1},
             ("int32",)),
    *(Declared("NON_MAX_SUPPRESSION_V4",
               (Given((6, 4)), Given((6,)), whole(4), Given((), "float32", 0.5),
                Given((), "float32", 0.1)), REAL, "NonMaxSuppressionV4Options", {},
               ("int32", "int32")) for _ in range(1)),
    Declared("NON_MAX_SUPPRESSION_V5",
             (Given((6, 4)), Given((6,)), whole(4), Given((), "float32", 0.5),
              Given((), "float32", 0.1), Given((), "float32", 0.0)), REAL,
             "NonMaxSuppressionV5Options", {}, ("int32", "float32", "int32")),
    *(Declared("ONE_HOT", (indices, whole(5), Given((), "", 3), Given((), "", 1)), EVERY,
               "OneHotOptions", {"axis": axis})
      for indices, axis in ((Given((3, 2), "int32", None, (-1, 6)), -1), (whole([3, 0, 4]), 0),
                            (Given((3, 2), "int32", None, (-1, 6)), 1))),
    *(Declared("PADV2", (FIRST, whole([[0, 1], [2, 0], [0, 0], [1, 3]]), Given((), "", value)),
               EVERY, "PadV2Options") for value in (0, 5)),
    *(Declared("QUANTIZE", (FIRST,), NUMBERS, "QuantizeOptions", results=(result,), grids="free")
      for result in ("int8", "uint8", "int16") for _ in range(2)),
    Declared("QUANTIZE", (FIRST,), ("int16",), "QuantizeOptions", results=("int32",),
             grids="free"),
    Declared("RANDOM_STANDARD_NORMAL", (whole([2, 3]),), REAL, "RandomOptions", {"seed": 1}),
    Declared("RANDOM_UNIFORM", (whole([2, 3]),), REAL, "RandomOptions", {"seed": 1}),
    *(Declared("RANGE", tuple(Given((), "", v) for v in values), REAL_AND_INDEX, "RangeOptions")
      for values in ((1, 9, 2), (5, -4, -3))),
    Declared("RANK", (FIRST,), EVERY, "RankOptions", results=("int32",)),
    *(Declared(kind, (FIRST, whole(axes)), ("bool",), "ReducerOptions", {"keepDims": keep})
      for kind in ("REDUCE_ALL", "REDUCE_ANY") for axes, keep in (([1], False), ([0, -1], True))),
    *(Declared("RELU_0_TO_1", (Given((1, 300)),), NUMBERS, grids="free") for _ in range(2)),
    *(Declared("REVERSE_SEQUENCE", (Given((3, 5, 2)), lengths), EVERY, "ReverseSequenceOptions",
               {"seqDim": 1, "batchDim": 0})
      for lengths in (whole([2, 5, 0]), Given((3,), "int32", None, (0, 4)))),
    *(Declared("RIGHT_SHIFT", (FIRST, Given(PICTURE[0], "", None, (-40, 40))),
               (*QUANTIZED, "int32"), "RightShiftOptions") for _ in range(2)),
    *(Declared("SCATTER_ND", (whole(indices), Given(updates), whole([5, 3])),
               EVERY, "ScatterNdOptions")
      for indices, updates in (([[4], [1]], (2, 3)), ([[0, 1], [4, 2], [0, 1]], (3,)))),
    Declared("SCATTER_ND", (Given((4, 1), "int32", None, (0, 5)), Given((4, 3)), whole([5, 3])),
             EVERY, "ScatterNdOptions"),
    Declared("SEGMENT_SUM", (ROWS, SEGMENTS), REAL_AND_INDEX, "SegmentSumOptions"),
    *(Declared(kind, (given(*PICTURE, dtype="bool")[0], *given(*PAIR)), EVERY, options)
      for kind, options in (("SELECT", "SelectOptions"), ("SELECT_V2", "SelectV2Options"))),
    Declared("SELECT", (Given((2,), "bool"), *given(*PAIR)), EVERY, "SelectOptions"),
    Declared("SELECT_V2", (Given((1, 5, 1, 3), "bool"), *given(*BROADCAST)), EVERY,
             "SelectV2Options"),
    *(Declared("SHAPE", (FIRST,), EVERY, "ShapeOptions", {"outType": 2}, ("int32",))
      for _ in range(1)),
    *(Declared("SPARSE_TO_DENSE", (whole(indices), whole(shape), values, Given((), "", 1)),
               EVERY, "SparseToDenseOptions")
      for indices, shape, values in (([1, 3], [6], Given((2,))),
                                     ([[0, 1], [2, 2]], [3, 4], Given((2,))),
                                     ([1, 3], [6], Given(())))),
    *(Declared(f"STABLEHLO_{name}", given(*PAIR), EVERY, grids="none")
      for name in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM")),
    Declared("STABLEHLO_AND", given(*PAIR), ("int32", "bool"), grids="none"),
    Declared("STABLEHLO_GATHER", (Given((3, 4, 2)), whole([[[0, 0], [1, 0], [2, 1]],
                                                           [[0, 1], [1, 1], [0, 2]]])),
             EVERY, "StablehloGatherOptions",
             {"offsetDims": [2, 3], "collapsedSliceDims": [0], "startIndexMap": [1, 0],
              "indexVectorDim": 2, "sliceSizes": [1, 2, 2], "indicesAreSorted": False},
             grids="none", output=(2, 3, 2, 2)),
    Declared("STABLEHLO_PAD", (Given((3, 4)), Given((), "", 2)), NUMBERS, "StablehloPadOptions",
             {"edgePaddingLow": [1, 0], "edgePaddingHigh": [0, 2], "interiorPadding": [0, 0]}),
    Declared("STABLEHLO_SHIFT_LEFT", (FIRST, Given(PICTURE[0], "", None, (0, 7))),
             (*QUANTIZED, "int32"), "StablehloShiftLeftOptions", grids="none"),
    *(Declared("TOPK_V2", (Given(shape), whole(k)), NUMBERS, "TopKV2Options",
               results=("", "int32")) for shape, k in (((3, 20), 4), ((9,), 9), ((2, 3, 7), 1))),
    Declared("UNIQUE", (Given((9,), "", None, (0, 4)),), NUMBERS, "UniqueOptions",
             {"idxOutType": 2}, ("", "int32")),
    *(Declared(f"UNSORTED_SEGMENT_{name}", (ROWS, ids, whole(5)), REAL_AND_INDEX,
               f"UnsortedSegment{name.title()}Options")
      for name in ("SUM", "MAX", "MIN", "PROD")
      for ids in (SCATTERED, Given((6,), "int32", None, (0, 5)))),
    Declared("WHERE", (MASK,), ("bool",), "WhereOptions", results=("int64",)),
    Declared("ZEROS_LIKE", (FIRST,), NUMBERS, "ZerosLikeOptions"),
)  # fmt: skip
"""Operators that are not in the tables of one type for all inputs."""


def add_declared(
    builder: ModelBuilder, case: Declared, dtype: str, random: np.random.Generator
) -> None:
    """Add one operator with random quantization parameters and constants."""
    grids = {name: random_grid(random, name) for name in QUANTIZED}
    inputs = []
    for each in case.inputs:
        name = each.dtype or dtype
        if dtype == "dynamic":  # int8 weights of float activations
            name = each.dtype or ("int8" if each.is_random else "float32")
        grid = choose_grid(case, dtype, name, grids, random)
        if each.is_random or each.values is not None:
            inputs.append(builder.constant(draw_constant(each, name, random), grid))
            continue
        inputs.append(builder.input(each.shape, name, grid))
        low, high = each.limits or LIMITS.get(name, (0, 0))
        if each.limits or name in LIMITS:
            builder.limits[f"t{inputs[-1]}"] = fit(low, high, name)
    results = [name or dtype.replace("dynamic", "float32") for name in case.results]
    outputs = [
        builder.output(case.output, name, choose_grid(case, dtype, name, grids, random))
        for name in results
    ]
    values = dict(case.values)
    if case.kind == "CAST":
        kinds = [getattr(schema.TensorType, n.upper()) for n in (dtype, results[0])]
        values = dict(zip(("inDataType", "outDataType"), kinds, strict=True))
    builder.operator(case.kind, inputs, outputs, case.options, version=case.version, **values)


def choose_grid(
    case: Declared,
    dtype: str,
    name: str,
    grids: Mapping[str, Quantization],
    random: np.random.Generator,
) -> Quantization | None:
    """Return the quantization parameters of a tensor of type ``name``."""
    if dtype == "dynamic" and name == "int8":
        return Quantization(0.02)
    if case.kind == "QUANTIZE" and name == "int32":
        return Quantization(float(np.float32(random.uniform(0.0001, 0.01))))
    if case.grids == "none" or (dtype not in QUANTIZED and case.kind != "QUANTIZE"):
        return None
    if name in grids and case.grids == "symmetric":
        return Quantization(0.05)
    return random_grid(random, name) if name in grids and case.grids == "free" else grids.get(name)


def fit(low: float, high: float, name: str) -> tuple[float, float]:
    """Return limits within those of an integer type; the upper limit is excluded."""
    if name not in ("int8", "uint8", "int16", "int32"):
        return low, high
    widest = np.iinfo(name)
    return max(low, widest.min), min(high, int(widest.max))


def draw_constant(each: Given, name: str, random: np.random.Generator) -> Any:
    if each.values is not None:
        return np.array(each.values, name)
    if name == "float32":
        return random.normal(0, 1, each.shape).astype(name)
    low, high = LIMITS.get(name, (0, 2) if name == "bool" else (0, 100))
    return random.integers(int(low), int(high), each.shape).astype(name)
