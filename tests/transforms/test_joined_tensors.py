"""Slices of joined tensors read the joined parts, as in the loops that TensorFlow writes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.ir.relax import main_bindings, operator_name, remove_dead_bindings
from firmwright.ir.virtual_machine import make_virtual_machine
from firmwright.transforms.joined_tensors import read_parts

STEPS = 4


def replace_rows(axis: int, steps: list[int]) -> tvm.IRModule:
    """Return a network that replaces rows of zeros by the rows of its input, one at a time."""
    shape = [3, 3]
    shape[axis] = STEPS
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    builder = relax.BlockBuilder()

    def cut(value: relax.Expr, begin: int, end: int) -> relax.Expr:
        return builder.emit(relax.op.strided_slice(value, [axis], [begin], [end]))

    with builder.function("main", [x]):
        with builder.dataflow():
            rows = builder.emit(relax.op.zeros(shape, "float32"))
            for step in steps:
                parts = [
                    cut(rows, 0, step),
                    builder.emit(relax.op.negative(cut(x, step, step + 1))),
                    cut(rows, step + 1, STEPS),
                ]
                rows = builder.emit(relax.op.concat(parts, axis))
            result = builder.emit_output(rows)
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_that_are_replaced_in_order_are_joined_once(axis: int) -> None:
    module = remove_dead_bindings(read_parts(replace_rows(axis, [*range(STEPS)])))
    joined = [b.value for b in main_bindings(module) if operator_name(b.value) == "relax.concat"]
    assert [len(call.args[0].fields) for call in joined] == [STEPS]


@pytest.mark.parametrize("steps", [[0, 1], [2, 0], [3, 3, 1]])
def test_a_row_that_is_not_replaced_stays(steps: list[int]) -> None:
    module = remove_dead_bindings(read_parts(replace_rows(0, steps)))
    x = np.arange(12, dtype="float32").reshape(4, 3)
    expected = np.where(np.isin(np.arange(4), steps)[:, None], -x, 0)
    found = make_virtual_machine(module)["main"](tvm.runtime.tensor(x))
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize(("begin", "end"), [(-7, -1), (-100, 5), (2, 100), (-4, -2)])
def test_a_slice_may_begin_before_the_joined_tensors(begin: int, end: int) -> None:
    x = relax.Var("x", relax.TensorType((3, 2), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            joined = builder.emit(relax.op.concat([x, builder.emit(relax.op.negative(x))], 0))
            part = builder.emit_output(relax.op.strided_slice(joined, [0], [begin], [end]))
        builder.emit_func_output(part)
    given = np.arange(6, dtype="float32").reshape(3, 2)
    found = make_virtual_machine(read_parts(builder.get()))["main"](tvm.runtime.tensor(given))
    np.testing.assert_array_equal(found.numpy(), np.concatenate([given, -given])[begin:end])
