"""TFLite's operators with computed indices: the C equals LiteRT bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hammer.networks import MADE
from tests.networks.firmware import assert_exact, lowered
from tests.networks.tflite_models import ModelBuilder, Quantization

pytestmark = pytest.mark.needs("gcc")

DATA = np.arange(15, dtype="float32").reshape(5, 3)
VECTORS = np.array([[0, 2], [4, 0], [3, 1], [0, 2]], "int32")
ROWS = np.array([4, 0, 2, 4], "int32")
SAMPLES = {
    "tflite embedding_lookup": {"t0": ROWS, "t1": DATA},
    "tflite gather_nd": {"t0": DATA, "t1": VECTORS},
    "tflite scatter_nd": {"t0": ROWS[:, None], "t1": DATA[:4]},
    "tflite segment_sum": {"t0": DATA[:4], "t1": ROWS},
}


@pytest.mark.parametrize("name", SAMPLES)
def test_indices_of_tflite(name: str, tmp_path: Path) -> None:
    assert_exact(MADE[name].load(), tmp_path, [SAMPLES[name]])


def test_rows_of_bytes_are_scaled(tmp_path: Path) -> None:
    """One table has one scale, the other table one scale per row; flash contains bytes."""
    builder = ModelBuilder()
    rows = np.random.default_rng(1).integers(-127, 128, (9, 5)).astype("int8")
    places = builder.input((4,), "int32", None)
    for scales in ((0.02,), tuple(float(s) for s in np.linspace(0.01, 0.05, 9, dtype="float32"))):
        table = builder.constant(rows, Quantization(scales[0], 0, scales))
        output = builder.output((4, 5), "float32", None)
        builder.operator("EMBEDDING_LOOKUP", [places, table], [output], version=4)
    assert_exact(builder.build(), tmp_path, [{"t0": ROWS}])
    weights = [w for k in lowered(builder.build()).kernels.kernels for w in k.weights]
    assert {w.dtype for w in weights if w.elements > 9} == {"int8"}


@pytest.mark.parametrize(
    ("axis", "batch", "shape", "result"),
    [(1, 1, (2,), (2, 4)), (2, 1, (2, 3), (2, 5, 3)), (-1, 2, (2, 5, 2), (2, 5, 2))],
)
def test_batch_axes_of_gather(
    axis: int, batch: int, shape: tuple[int, ...], result: tuple[int, ...], tmp_path: Path
) -> None:
    """The indices of a batch read the data of the same batch."""
    builder = ModelBuilder()
    grid, random = Quantization(0.1, 3), np.random.default_rng(4)
    given = [builder.input((2, 5, 4), "int8", grid), builder.input(shape, "int32", None)]
    output = builder.output(result, "int8", grid)
    builder.operator("GATHER", given, [output], "GatherOptions", 5, axis=axis, batchDims=batch)
    data = random.integers(-128, 128, (2, 5, 4)).astype("int8")
    places = random.integers(0, (5 if axis == 1 else 4), shape).astype("int32")
    assert_exact(builder.build(), tmp_path, [{"t0": data, "t1": places}])


@pytest.mark.parametrize(
    ("starts", "places", "sizes", "result"),
    [
        ([[[0, 0], [1, 0]], [[2, 1], [9, -4]]], ([2, 3], [0], [1, 0], 2), [1, 2, 2], (2, 2, 2, 2)),
        ([[1, 2, 0], [0, 3, 1]], ([1, 2], [2], [0, 1], 0), [2, 2, 1], (3, 2, 2)),
        ([[1], [7]], ([0, 2], [1], [1], 1), [3, 1, 2], (3, 2, 2)),
    ],
)
def test_a_stablehlo_gather_reads_slices(
    starts: list[Any], places: Any, sizes: list[int], result: tuple[int, ...], tmp_path: Path
) -> None:
    """A slice that is partly outside of the data is moved."""
    builder = ModelBuilder()
    given = [builder.input((3, 4, 2), "int8", None), builder.constant(np.array(starts, "int32"))]
    output = builder.output(result, "int8", None)
    offsets, collapsed, mapped, along = places
    builder.operator("STABLEHLO_GATHER", given, [output], "StablehloGatherOptions", 1,
                     offsetDims=offsets, collapsedSliceDims=collapsed, startIndexMap=mapped,
                     indexVectorDim=along, sliceSizes=sizes, indicesAreSorted=False)  # fmt: skip
    data = np.arange(24, dtype="int8").reshape(3, 4, 2)
    assert_exact(builder.build(), tmp_path, [{"t0": data}])
