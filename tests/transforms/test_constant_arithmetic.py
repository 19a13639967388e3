"""Arithmetic on float32 constants is computed once, with the bits that firmware would compute."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.ir.relax import Constant, constant_array, main_bindings, operator_name
from firmwright.transforms.layout_of_constants import fold_constant_arithmetic

op = relax.op
RANDOM = np.random.default_rng(3)
VARIANCE = RANDOM.uniform(0, 2, (8, 1)).astype("float32")
EPSILON = np.float32(1e-3)


def folded(constant: relax.Expr) -> list[relax.Expr]:
    """Return the values of a module that adds an expression to its input."""
    x = relax.Var("x", relax.TensorType((8, 5), constant.args[0].ty.dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            added = builder.emit(constant)
            result = builder.emit_output(op.add(x, added))
        builder.emit_func_output(result)
    return [b.value for b in main_bindings(fold_constant_arithmetic(builder.get()))]


def test_a_chain_on_constants_is_one_constant_of_the_same_bits() -> None:
    scale = op.sqrt(op.add(relax.const(VARIANCE), relax.const(EPSILON)))
    values = folded(op.divide(relax.const(EPSILON), scale))
    (added,) = [v for v in values if operator_name(v)]
    constants = [v for v in (*values, *added.args) if isinstance(v, Constant)]
    (expected,) = [constant_array(c) for c in constants]
    np.testing.assert_array_equal(expected, EPSILON / np.sqrt(VARIANCE + EPSILON))


@pytest.mark.parametrize(
    "constant",
    [
        op.exp(relax.const(VARIANCE)),  # from another library than the firmware's
        op.add(relax.const(VARIANCE), relax.const(VARIANCE.reshape(1, 8)[:, :5])),  # larger
        op.add(relax.const(np.ones(5, "int32")), relax.const(np.ones(5, "int32"))),
    ],
)
def test_what_is_left_to_the_firmware(constant: tvm.ir.Call) -> None:
    assert [operator_name(v) for v in folded(constant)] == [str(constant.op.name), "relax.add"]
