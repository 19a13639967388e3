"""ELU on int8: the C equals LiteRT bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.networks.firmware import assert_exact
from tests.networks.tflite_models import ModelBuilder, Quantization


@pytest.mark.needs("gcc")
def test_elu_of_all_bytes(tmp_path: Path) -> None:
    builder = ModelBuilder()
    for scale, point, result in ((0.05, -3, 0.07), (0.013, 100, 0.011), (0.1, -128, 0.1)):
        source = builder.input((1, 256), "int8", Quantization(scale, point))
        output = builder.output((1, 256), "int8", Quantization(result, 5))
        builder.operator("ELU", [source], [output], version=1)
    data = np.arange(-128, 128, dtype="int8").reshape(1, -1)
    assert_exact(builder.build(), tmp_path, [dict.fromkeys(("t0", "t2", "t4"), data)])
