"""TFLite's operators with computed indices: the C equals LiteRT bit for bit."""

from __future__ import annotations

from pathlib import Path

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
