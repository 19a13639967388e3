"""The range of an input is the range of values that its readers do not clip."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.verify.input_ranges import find_index_ranges, find_input_ranges, find_whole_inputs

Branch = Callable[[relax.Expr], relax.Expr]


def quantize(value: relax.Expr) -> relax.Expr:
    return relax.op.quantize(value, relax.const(0.5), relax.const(3, "int8"), out_dtype="int8")


def clip(value: relax.Expr) -> relax.Expr:
    return relax.op.minimum(relax.op.maximum(value, relax.const(-2.0)), relax.const(70.0))


def network(*branches: Branch) -> tvm.IRModule:
    """Return a network with one float input and an output for each branch."""
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
        ([lambda x: quantize(relax.op.reshape(x, (8,))), quantize], (-65.5, 62)),
        ([clip], (-2, 70)),
        ([lambda x: relax.op.clip(x, 0.0, 6.0)], (0, 6)),
        ([lambda x: quantize(clip(x))], (-2, 62)),
        ([lambda x: clip(relax.op.floor(relax.op.reshape(x, (8,))))], (-2, 70)),
        ([quantize, clip], (-65.5, 70)),
        ([lambda x: clip(relax.op.floor(relax.op.divide(x, relax.const(-0.5))))], (-35, 1)),
        ([quantize, relax.op.exp], None),
        ([lambda x: relax.op.maximum(x, relax.const(0.0))], None),
        ([lambda x: relax.op.add(x, relax.const(0.5))], None),
    ],
    ids="grid grid-behind limits clip both behind widest scaled one-reader one-side none".split(),
)
def test_range_of_an_input(branches: list[Branch], expected: tuple[float, float] | None) -> None:
    assert find_input_ranges(network(*branches)) == (expected,)


def test_integers_that_index_are_elements_of_the_axis() -> None:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((2, 4), "int64"))
    with builder.function("main", [x]):
        with builder.dataflow():
            zero, count = relax.const(0, "int64"), relax.const(30, "int64")
            wrapped = builder.emit(relax.op.add(x, count))
            places = builder.emit(relax.op.where(relax.op.less(x, zero), wrapped, x))
            table = relax.const(np.zeros((30, 5), "float32"))
            output = builder.emit_output(relax.op.take(table, places, axis=0))
        builder.emit_func_output(output)
    assert find_input_ranges(relax.transform.Normalize()(builder.get())) == ((0, 29),)


def test_indices_are_numbers_of_their_type() -> None:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((2, 4), "uint8"))
    with builder.function("main", [x]):
        with builder.dataflow():
            places = builder.emit(relax.op.astype(x, "int64"))
            table = relax.const(np.zeros((1000, 5), "float32"))
            output = builder.emit_output(relax.op.take(table, places, axis=0))
        builder.emit_func_output(output)
    assert find_index_ranges(relax.transform.Normalize()(builder.get())) == ((0, 255),)


@pytest.mark.parametrize(
    ("branch", "expected"),
    [
        (lambda x: relax.op.matmul(x, relax.const(np.full((4, 3), 7, "float32"))), True),
        (
            lambda x: relax.op.matmul(
                relax.op.reshape(x, (1, 8)), relax.const(np.full((8, 3), 7, "float32"))
            ),
            True,
        ),
        (lambda x: relax.op.matmul(x, relax.const(np.full((4, 3), 0.5, "float32"))), False),
        (lambda x: relax.op.matmul(x, relax.const(np.eye(4, dtype="float32"))), False),
    ],
    ids="whole moved fractions ones".split(),
)
def test_floats_that_stand_for_integers(branch: Branch, expected: bool) -> None:
    module = relax.transform.Normalize()(network(branch))
    assert find_whole_inputs(module) == (expected,)
