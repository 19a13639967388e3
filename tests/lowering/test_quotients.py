"""The quotient of scales has the precision that TFLite's kernel of the operator uses."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from firmwright.lowering.kernels.quantized_tensor import (
    BATCH_MATMUL,
    OutputQuantParams,
    QuantizedTensor,
)
from firmwright.lowering.kernels.requantization import find_quotient

HALF = np.float32(0.5)
PRODUCT = 0.1 * 0.3
"""The product of two scales, which differs in single precision."""


@pytest.mark.parametrize(
    ("operator", "activation", "is_rounded"),
    [
        ("relax.nn.conv2d", "uint8", True),
        ("relax.nn.conv2d", "int8", False),
        ("relax.matmul", "uint8", False),
        (BATCH_MATMUL, "int8", True),
    ],
)
def test_the_product_of_scales_is_rounded_for_some_operators(
    operator: str, activation: str, is_rounded: bool
) -> None:
    sums = relax.Var("sums", relax.TensorType([1], "int32"))
    zero = np.zeros(1, np.int64)
    source = QuantizedTensor(sums, np.array([PRODUCT]), zero, 0, 1, operator, activation)
    quotient = find_quotient(source, OutputQuantParams("int8", HALF, 0, -128, 127), single=False)
    expected = float(np.float32(PRODUCT)) if is_rounded else PRODUCT
    assert quotient.tolist() == [expected / float(HALF)]
