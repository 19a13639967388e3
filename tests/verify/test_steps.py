"""The step of an output: 1 for integers, and for floats the scale of the last quantization."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relax

from firmwright.verify.network_values import find_output_steps

Emit = Callable[[relax.BlockBuilder, relax.Expr], relax.Expr]


def quantize(value: relax.Expr, scale: float = 0.25) -> relax.Expr:
    return relax.op.quantize(value, relax.const(scale), relax.const(3, "int8"), out_dtype="int8")


def dequantize(value: relax.Expr, scale: float = 0.25) -> relax.Expr:
    return relax.op.dequantize(value, relax.const(scale), relax.const(3, "int8"))


def requantize(value: relax.Expr) -> relax.Expr:
    return quantize(dequantize(value, 0.5))


@pytest.mark.parametrize(
    ("operators", "step"),
    [
        ([quantize], 1),
        ([quantize, lambda x: relax.op.reshape(x, (8,))], 1),
        ([quantize, dequantize], 0.25),
        ([quantize, lambda x: dequantize(x, 0.5), requantize, dequantize, relax.op.exp], 0.25),
        ([lambda x: relax.op.concat([x, dequantize(quantize(x), 0.5)], 1)], 0.5),
        ([quantize, lambda x: relax.op.argmax(x, 1)], 0),
        ([relax.op.exp], 0),
    ],
    ids=["integers", "reshaped", "float", "last", "largest", "index", "no-steps"],
)
def test_step_of_an_output(
    operators: list[Callable[[relax.Expr], relax.Expr]], step: float
) -> None:
    builder = relax.BlockBuilder()
    value: relax.Expr = relax.Var("x", relax.TensorType((2, 4), "float32"))
    with builder.function("main", [value]):
        with builder.dataflow():
            for operator in operators:
                value = builder.emit(operator(value))
            value = builder.emit_output(value)
        builder.emit_func_output(value)
    assert find_output_steps(builder.finalize()) == (step,)
