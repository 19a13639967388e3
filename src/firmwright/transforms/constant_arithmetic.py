"""Evaluates arithmetic on constants, such as the arithmetic of a decomposed batch normalization."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from firmwright.ir.relax import (
    Constant,
    constant_array,
    definition,
    dtype_of,
    operator_name,
    rewrite_each,
)

ROUNDED_EXACTLY = {
    "relax.add": np.add,
    "relax.subtract": np.subtract,
    "relax.multiply": np.multiply,
    "relax.divide": np.divide,
    "relax.sqrt": np.sqrt,
}
"""Operators for which IEEE 754 defines every bit, so that the firmware computes equal results."""


@rewrite_each(*ROUNDED_EXACTLY)
def fold_constant_arithmetic(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Replace operators on float32 constants by the result, unless the result is larger."""
    operands = [definition(builder, argument) for argument in call.args]
    if dtype_of(call) != "float32" or not all(isinstance(o, Constant) for o in operands):
        return call
    arrays = [constant_array(operand) for operand in operands]
    with np.errstate(all="ignore"):
        result = ROUNDED_EXACTLY[operator_name(call)](*arrays)
    return call if result.size > max(a.size for a in arrays) else relax.const(result)
