"""Kinds of layers that a network has are found, and computed by a form.

That they are exact is tested beside this: tests/lowering/test_tflite_operators.py for TFLite,
tests/lowering/test_qdq_properties.py for ONNX.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.networks.firmware import lowered
from tests.networks.tflite_models import ModelBuilder
from tests.networks.tflite_operators import SAME, shaped
from tests.networks.tflite_weighted import Weighted, add_weighted, windows

LAYERS = {
    "grouped": Weighted("CONV_2D", (1, 5, 5, 6), (4, 3, 3, 3), windows(SAME)),
    "channel multiplier": Weighted(
        "DEPTHWISE_CONV_2D", (1, 5, 5, 3), (1, 3, 3, 6), windows(SAME) | {"depthMultiplier": 2}
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_convolution_of_groups_has_a_form(name: str) -> None:
    builder = ModelBuilder()
    add_weighted(builder, LAYERS[name], "int8", "int8", "int32", np.random.default_rng(0))
    (kernel,) = lowered(shaped(builder)).kernels.kernels
    assert "portable_grouped_conv2d" in (kernel.note or "")
