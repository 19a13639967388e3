"""TFLite's operators with computed indices: the C equals LiteRT bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.hammer.networks import MADE
from tests.networks.firmware import assert_exact

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
