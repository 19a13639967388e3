"""A table of TFLite operators, each with inputs and options, for small models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from firmwright.models.tflite.interpreters import REFERENCE, make_interpreter
from tests.networks.tflite_models import ModelBuilder, Quantization

Shape = tuple[int, ...]

SAME, VALID = 0, 1

LIMITS = {"int32": (-99.0, 99.0)}
"""The limits of the values of integers without quantization; the upper limit is excluded."""


@dataclass(frozen=True)
class Case:
    """One operator. ``grids``: ``same`` for all tensors, ``free`` for each, or those of the output.

    ``constants`` are integer arrays after the inputs, or before them.
    """

    kind: str
    inputs: tuple[Shape, ...]
    options: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    constants: tuple[Any, ...] = ()
    constants_first: bool = False
    output: Shape = (1,)
    grids: str = "same"
    outputs: int = 1
    version: int = 1
    raw_output: str = ""


def padding(*pairs: tuple[int, int]) -> tuple[Any, ...]:
    return (np.array(pairs, "int32"),)


def strided(begin: list[int], end: list[int], stride: list[int], **masks: int) -> Case:
    arrays = tuple(np.array(a, "int32") for a in (begin, end, stride))
    return Case("STRIDED_SLICE", ((1, 5, 6, 3),), "StridedSliceOptions", masks, arrays)


def resize(kind: str, size: list[int], align: bool, half: bool) -> Case:
    options = "ResizeBilinearOptions" if "BI" in kind else "ResizeNearestNeighborOptions"
    values = {"alignCorners": align, "halfPixelCenters": half}
    return Case(kind, ((1, 5, 4, 3),), options, values, (np.array(size, "int32"),))


SAMPLING = ((False, False), (True, False), (False, True))
"""Options of a resize: whether corners are aligned, whether centers are at halves."""

PICTURE = ((2, 5, 4, 3),)
PAIR = ((2, 5, 4, 3), (2, 5, 4, 3))
BROADCAST = ((2, 5, 4, 3), (1, 1, 1, 3))

MOVES = (
    Case("PAD", PICTURE, "PadOptions", {}, padding((0, 0), (1, 2), (0, 3), (0, 0))),
    Case("PAD", ((2, 3),), "PadOptions", {}, padding((1, 0), (0, 2))),
    Case("TRANSPOSE", PICTURE, "TransposeOptions", {}, (np.array([0, 3, 1, 2], "int32"),)),
    Case("TRANSPOSE", ((3, 4),), "TransposeOptions", {}, (np.array([1, 0], "int32"),)),
    Case("SLICE", PICTURE, "SliceOptions", {},
         (np.array([0, 1, 0, 1], "int32"), np.array([2, 3, -1, 2], "int32")), output=(2, 3, 4, 2)),
    Case("SPLIT", PICTURE, "SplitOptions", {"numSplits": 2}, (np.array(2, "int32"),), True,
         outputs=2),
    Case("SPLIT_V", PICTURE, "SplitVOptions", {"numSplits": 2},
         (np.array([2, 3], "int32"), np.array(1, "int32")), outputs=2),
    Case("PACK", PAIR, "PackOptions", {"valuesCount": 2, "axis": 1}),
    Case("PACK", PAIR, "PackOptions", {"valuesCount": 2, "axis": -1}),
    Case("UNPACK", PICTURE, "UnpackOptions", {"num": 4, "axis": 2}, outputs=4),
    Case("UNPACK", PICTURE, "UnpackOptions", {"num": 3, "axis": -1}, outputs=3),
    Case("GATHER", PICTURE, "GatherOptions", {"axis": 1}, (np.array([3, 0, 3], "int32"),)),
    Case("GATHER", PICTURE, "GatherOptions", {"axis": -1}, (np.array([[0, 2]], "int32"),)),
    Case("CONCATENATION", PAIR, "ConcatenationOptions", {"axis": -1}),
    Case("CONCATENATION", PAIR, "ConcatenationOptions", {"axis": 1}),
    Case("RESHAPE", PICTURE, "ReshapeOptions", {"newShape": [5, 24]},
         (np.array([5, 24], "int32"),)),
    Case("SQUEEZE", ((1, 5, 1, 3),), "SqueezeOptions", {"squeezeDims": [0, 2]}),
    Case("EXPAND_DIMS", ((5, 3),), "ExpandDimsOptions", {}, (np.array(1, "int32"),)),
    Case("MAXIMUM", PAIR, "MaximumMinimumOptions"),
    Case("MAXIMUM", BROADCAST, "MaximumMinimumOptions"),
    Case("MINIMUM", BROADCAST, "MaximumMinimumOptions"),
    Case("REDUCE_MAX", PICTURE, "ReducerOptions", {"keepDims": False},
         (np.array([1, 2], "int32"),)),
    Case("REDUCE_MAX", PICTURE, "ReducerOptions", {"keepDims": True}, (np.array([3], "int32"),)),
    Case("REDUCE_MIN", PICTURE, "ReducerOptions", {"keepDims": False}, (np.array([1], "int32"),)),
    Case("SPACE_TO_DEPTH", ((1, 4, 6, 3),), "SpaceToDepthOptions", {"blockSize": 2}),
    Case("DEPTH_TO_SPACE", ((1, 3, 2, 8),), "DepthToSpaceOptions", {"blockSize": 2}),
    Case("SPACE_TO_BATCH_ND", ((1, 5, 4, 3),), "SpaceToBatchNDOptions", {},
         (np.array([2, 3], "int32"), np.array([[1, 0], [0, 2]], "int32"))),
    Case("BATCH_TO_SPACE_ND", ((6, 3, 2, 3),), "BatchToSpaceNDOptions", {},
         (np.array([2, 3], "int32"), np.array([[1, 0], [0, 2]], "int32"))),
    Case("MIRROR_PAD", PICTURE, "MirrorPadOptions", {"mode": 0},
         padding((0, 0), (2, 1), (0, 3), (0, 0))),
    Case("MIRROR_PAD", PICTURE, "MirrorPadOptions", {"mode": 1},
         padding((1, 0), (2, 1), (0, 3), (0, 0))),
    Case("TILE", ((2, 3),), "TileOptions", {}, (np.array([2, 3], "int32"),)),
    Case("BROADCAST_TO", ((2, 1, 3),), "BroadcastToOptions", {}, (np.array([2, 4, 3], "int32"),),
         version=2),
    Case("REVERSE_V2", ((2, 4, 3),), "ReverseV2Options", {}, (np.array([1], "int32"),)),
    Case("ARG_MAX", PICTURE, "ArgMaxOptions", {"outputType": 2}, (np.array(-1, "int32"),),
         raw_output="int32"),
    Case("ARG_MIN", PICTURE, "ArgMinOptions", {"outputType": 2}, (np.array(1, "int32"),),
         raw_output="int32"),
    strided([0, 1, 0, 0], [1, 5, 6, 3], [1, 2, 1, 1]),
    strided([0, -1, 0, 0], [1, -6, 6, 3], [1, -1, 1, 1]),
    strided([0, 4, 5, 0], [0, 0, 1, 0], [1, -2, -2, 1], beginMask=1, endMask=0b1011),
    strided([0, 2, 0, 1], [0, 3, 0, 3], [1, 1, 1, 1], endMask=5, shrinkAxisMask=2),
    strided([0, 1], [0, 3], [1, 1], ellipsisMask=1),
    strided([0, 0, 1], [1, 0, 2], [1, 1, 1], newAxisMask=2),
    *(resize("RESIZE_NEAREST_NEIGHBOR", size, align, half)
      for size in ([10, 8], [7, 9], [3, 2]) for align, half in SAMPLING),
)  # fmt: skip
"""Operators that only move elements, or return the larger of two."""

ARITHMETIC = (
    *(Case(kind, shapes, options, {"fusedActivationFunction": a}, grids=g)
      for kind, options, g in (
          ("ADD", "AddOptions", "sum_of_two"), ("SUB", "SubOptions", "sum_of_two"),
          ("MUL", "MulOptions", "product"))
      for shapes, a in ((PAIR, 0), (BROADCAST, 1), (PAIR, 3))),
    *(Case(kind, PICTURE, "Pool2DOptions",
           {"padding": p, "strideW": s, "strideH": s, "filterWidth": 3, "filterHeight": 2,
            "fusedActivationFunction": a})
      for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
      for p, s, a in ((SAME, 1, 0), (VALID, 2, 1), (SAME, 2, 3))),
    *(Case("MEAN", PICTURE, "ReducerOptions", {"keepDims": keep}, (np.array(axes, "int32"),),
           grids=g)
      for keep in (True, False) for axes, g in (([1, 2], "same"), ([3], "free"), ([2, 1], "free"))),
    *(Case(kind, ((1, 300),), "", grids="free") for kind in ("RELU", "RELU6") for _ in range(4)),
    *(Case("LEAKY_RELU", ((1, 300),), "LeakyReluOptions", {"alpha": a}, grids="free")
      for a in (0.1, 0.3, 1.5, -0.5)),
    *(Case("EXP", ((1, 300),), "ExpOptions", grids="exponential") for _ in range(4)),
    *(Case("LOGISTIC", ((1, 2000),), "", grids="logistic") for _ in range(8)),
    *(Case("TANH", ((1, 2000),), "", grids="tanh") for _ in range(8)),
    *(Case("SOFTMAX", shape, "SoftmaxOptions", {"beta": beta}, grids="softmax")
      for shape in (((1, 10),), ((5, 40),), ((1, 2, 3, 7),), ((1, 400),)) for beta in (1.0, 0.5)),
    *(Case("BATCH_MATMUL", shapes, "BatchMatMulOptions", {"adjX": x, "adjY": y}, grids="product")
      for shapes, x, y in (
          (((2, 5, 7), (2, 7, 4)), False, False), (((2, 5, 7), (2, 4, 7)), False, True))),
    *(resize("RESIZE_BILINEAR", size, align, half)
      for size in ([10, 8], [7, 9], [3, 2]) for align, half in SAMPLING),
)  # fmt: skip
"""Operators that also compute on 16-bit activations."""

COMPUTED = (
    *(Case("REDUCE_PROD", PICTURE, "ReducerOptions", {"keepDims": keep}, (np.array(axes, "int32"),),
           grids="free", version=2)
      for keep, axes in ((False, [1]), (True, [-1, 2]))),
    *(resize("RESIZE_BILINEAR", size, align, half)
      for size in ([10, 8], [7, 9], [3, 2]) for align, half in SAMPLING),
    *(Case("PRELU", ((2, 5, 4, 3),), "", {}, (), grids="slopes") for _ in range(6)),
    *(Case("LEAKY_RELU", ((1, 300),), "LeakyReluOptions", {"alpha": a}, grids="free")
      for a in (0.1, 0.3, 0.01, 0.9, 1.5, -0.5)),
    *(Case("HARD_SWISH", ((1, 300),), "HardSwishOptions", grids="wide") for _ in range(10)),
    *(Case("RELU_N1_TO_1", ((1, 300),), "", grids="free") for _ in range(3)),
    *(Case("ABS", ((1, 300),), "AbsOptions", grids="free") for _ in range(6)),
    *(Case("RSQRT", ((1, 300),), "", grids="positive") for _ in range(6)),
    *(Case("EXP", ((1, 300),), "ExpOptions", grids="free") for _ in range(6)),
    *(Case("LOG", ((1, 300),), "", grids="free") for _ in range(6)),
    *(Case("GELU", ((1, 300),), "GeluOptions", {"approximate": a}, grids="free")
      for a in (True, False) for _ in range(4)),
    *(Case("SQUARED_DIFFERENCE", shapes, "SquaredDifferenceOptions", grids="square")
      for shapes in (PAIR, BROADCAST) for _ in range(3)),
    *(Case("SUM", PICTURE, "ReducerOptions", {"keepDims": keep}, (np.array(axes, "int32"),),
           grids="sum") for keep in (True, False) for axes in ([1, 2], [3], [1])),
    *(Case("BATCH_MATMUL", shapes, "BatchMatMulOptions", {"adjX": x, "adjY": y}, grids="product")
      for shapes, x, y in (
          (((2, 5, 7), (2, 7, 4)), False, False), (((2, 5, 7), (2, 4, 7)), False, True),
          (((2, 3, 7, 5), (2, 3, 7, 4)), True, False), (((1, 5, 7), (2, 7, 4)), False, False),
          (((5, 7), (7, 4)), False, False))),
    *(Case("LOG_SOFTMAX", shape, "LogSoftmaxOptions", grids="log_softmax")
      for shape in (((1, 10),), ((5, 40),))),
    *(Case("L2_NORMALIZATION", shape, "L2NormOptions", grids="unit")
      for shape in (((1, 10),), ((2, 5, 4, 16),))),
)  # fmt: skip
"""Operators that compute."""


def random_grid(random: np.random.Generator, dtype: str) -> Quantization:
    """A scale over four decades, and a zero point that is often an extreme of its type."""
    limits = np.iinfo(dtype)
    points = [limits.min, limits.max, int(random.integers(limits.min, limits.max)), 0]
    point = 0 if dtype == "int16" else int(random.choice(points))
    return Quantization(float(np.float32(10 ** random.uniform(-3, 1))), point)


def scaled_grid(grid: Quantization, factor: float, point: int) -> Quantization:
    return Quantization(float(np.float32(grid.scale * factor)), point)


def input_grids(case: Case, dtype: str, random: np.random.Generator) -> list[Quantization]:
    """Return quantization parameters per input for which results use much of the output's range."""
    grids = [random_grid(random, dtype) for _ in case.inputs]
    widest = int(np.iinfo(dtype).max)
    if case.grids == "same":
        return [grids[0]] * len(grids)
    if case.grids == "wide":
        scale = float(np.float32(random.uniform(0.01, 0.2)))
        return [Quantization(scale, g.zero_point) for g in grids]
    if case.grids in ("positive", "root"):
        return [Quantization(float(grids[0].scale), int(np.iinfo(dtype).min))]
    if case.grids == "log_softmax":
        point = 0 if dtype == "int16" else 3
        return [Quantization(float(np.float32(random.uniform(0.02, 0.2))), point)]
    if case.grids in ("logistic", "tanh", "softmax") and dtype == "int16":
        scale = float(2.0 ** -random.integers(9, 14) * random.choice([1, random.uniform(0.5, 1)]))
        return [Quantization(float(np.float32(scale)), 0)]
    if case.grids == "exponential":
        return [Quantization(float(np.float32(random.uniform(1, 8) / widest)), 0)]
    if case.grids in ("sum_of_two", "square"):
        return [scaled_grid(grids[0], float(random.uniform(0.2, 2)), g.zero_point) for g in grids]
    return grids


def output_grid(
    case: Case, grids: list[Quantization], dtype: str, random: np.random.Generator
) -> Quantization:
    point = random_grid(random, dtype).zero_point
    ratio = float(random.integers(1, 12) / random.integers(1, 8))
    limits = np.iinfo(dtype)
    unit = 32768 if dtype == "int16" else 256
    fixed = {
        "same": grids[0],
        "log_softmax": Quantization(16 / 256, 0 if dtype == "int16" else int(limits.max)),
        "unit": Quantization(1 / 128, 128 if dtype == "uint8" else 0),
        "logistic": Quantization(1 / unit, 0 if dtype == "int16" else int(limits.min)),
        "softmax": Quantization(1 / unit, 0 if dtype == "int16" else int(limits.min)),
        "tanh": Quantization(1 / 128, 128 if dtype == "uint8" else 0),
    }
    if dtype == "int16":
        fixed["tanh"] = fixed["logistic"]
    if case.grids in fixed:
        return fixed[case.grids]
    first, last = float(grids[0].scale), float(grids[-1].scale)
    factors = {
        "square": max(first, last) * 90 * ratio,
        "product": last * (9000 if dtype == "int16" else 40) * ratio,
        "sum": 5 * ratio,
        "sum_of_two": max(1.0, last / first) * float(random.uniform(0.7, 2)),
        "exponential": float(np.exp(first * limits.max)) / int(limits.max) / first,
        "positive": float(random.uniform(0.002, 0.02)) / first**1.5,
        "root": float(random.uniform(0.04, 0.12)) / first**0.5,
        "wide": float(random.uniform(0.4, 2)),
    }
    return scaled_grid(grids[0], factors.get(case.grids, ratio), point)


def add_case(builder: ModelBuilder, case: Case, dtype: str, random: np.random.Generator) -> None:
    """Add one operator with random quantization parameters; :func:`shaped` adds output shapes."""
    real = dtype in ("float32", "int32", "bool")
    grids = [] if real else input_grids(case, dtype, random)
    inputs = [
        builder.input(shape, dtype, None if real else grids[i])
        for i, shape in enumerate(case.inputs)
    ]
    if dtype in LIMITS:
        builder.limits.update((f"t{index}", LIMITS[dtype]) for index in inputs)
    constants = [builder.constant(array) for array in case.constants]
    if case.grids == "slopes":
        shape = (1, 1, case.inputs[0][-1])
        slopes = random.normal(0, 1, shape).astype(dtype) if real else random.integers(
            np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)  # fmt: skip
        constants = [builder.constant(slopes, None if real else random_grid(random, dtype))]
    inputs = [*constants, *inputs] if case.constants_first else [*inputs, *constants]
    grid = None if real or case.raw_output else output_grid(case, grids, dtype, random)
    outputs = [
        builder.output(case.output, case.raw_output or dtype, grid) for _ in range(case.outputs)
    ]
    builder.operator(
        case.kind, inputs, outputs, case.options, version=case.version, **dict(case.values)
    )


def infer_shapes(builder: ModelBuilder, kernels: str = REFERENCE) -> None:
    """Give the outputs the shapes that LiteRT infers."""
    interpreter = make_interpreter(builder.build(), kernels)
    interpreter.allocate_tensors()
    for index, detail in zip(builder.graph.outputs, interpreter.get_output_details(), strict=True):
        builder.graph.tensors[index].shape = [int(d) for d in detail["shape"]]


def shaped(builder: ModelBuilder) -> bytes:
    """Return the model with its outputs of the shapes that LiteRT infers."""
    infer_shapes(builder)
    return builder.build()
