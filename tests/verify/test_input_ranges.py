"""The range of an input is what its readers keep of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm
from tvm import relax

from firmwright.verify.input_ranges import find_input_ranges

Branch = Callable[[relax.Expr], relax.Expr]


def quantize(value: relax.Expr) -> relax.Expr:
    return relax.op.quantize(value, relax.const(0.5), relax.const(3, "int8"), out_dtype="int8")


def clip(value: relax.Expr) -> relax.Expr:
    return relax.op.minimum(relax.op.maximum(value, relax.const(-2.0)), relax.const(70.0))


def network(*branches: Branch) -> tvm.IRModule:
    """Return a network with an output for each branch behind one input of floats."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((2, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            results = [builder.emit(branch(x)) for branch in branches]
            output = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(output)
    return builder.get()


@pytest.mark.parametrize(
    ("branches", "expected"),
    [
        ([quantize], (-65.5, 62)),
        ([clip], (-2, 70)),
        ([lambda x: relax.op.clip(x, 0.0, 6.0)], (0, 6)),
        ([lambda x: quantize(clip(x))], (-2, 62)),
        ([lambda x: clip(relax.op.floor(relax.op.reshape(x, (8,))))], (-2, 70)),
        ([quantize, clip], (-65.5, 70)),
        ([quantize, relax.op.exp], None),
        ([lambda x: relax.op.maximum(x, relax.const(0.0))], None),
        ([lambda x: relax.op.add(x, relax.const(0.5))], None),
    ],
    ids="grid limits clip both behind widest one-reader one-side none".split(),
)
def test_range_of_an_input(branches: list[Branch], expected: tuple[float, float] | None) -> None:
    assert find_input_ranges(network(*branches)) == (expected,)
