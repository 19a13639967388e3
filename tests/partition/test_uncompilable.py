"""Operators whose results the generated C does not support, by name and in one message."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.tensors import ModelInterface, Operator
from firmwright.partition.uncompilable import find_result_problem, refuse_uncompilable
from tests.partition.graphs import build_main

OPERATORS = (Operator("first", "Exp", ()), Operator("last", "Exp", ()))
INTERFACE = ModelInterface("onnx", "", (), (), OPERATORS)


@pytest.mark.parametrize(
    ("shape", "dtype", "problem"),
    [
        ((2, 3), "float32", ""),
        ((), "int64", ""),
        (
            (2, 3),
            "float8_e4m3fn",
            "computes float8_e4m3fn, which firmware does not support; use another type",
        ),
        ((2, 0), "float32", "computes a tensor without elements, [2, 0]; remove it from the model"),
        ((2**29 - 1,), "float32", ""),
        ((2**29,), "float32", "computes [536870912]; a tensor has to be smaller than 2 GiB"),
        ((2**31 - 1,), "int8", ""),
        ((2**31,), "int8", "computes [2147483648]; a tensor has to be smaller than 2 GiB"),
    ],
)
def test_tensors(shape: tuple[int, ...], dtype: str, problem: str) -> None:
    assert find_result_problem(relax.TensorType(shape, dtype)) == problem


def test_shapes_of_run_time_and_other_values() -> None:
    n = tvm.tirx.Var("n", "int64")
    assert "known only at run time" in find_result_problem(relax.TensorType((2, n), "float32"))
    assert "known only at run time" in find_result_problem(relax.TensorType(dtype="int8", ndim=1))
    assert find_result_problem(relax.ShapeType((2,))) == "has a result that is not a tensor"


def test_one_message_names_all_operators() -> None:
    """The message lists operators without a name in the model by their kind."""

    def write(x: relax.Expr) -> relax.Expr:
        builder = relax.BlockBuilder.current()
        y = builder.emit(relax.op.exp(x), name_hint="lv")
        return relax.op.abs(builder.emit(relax.op.sqrt(y), name_hint="root"))

    _, bindings = build_main(write, ((2, 0), "float32"))
    with pytest.raises(UserError) as raised:
        refuse_uncompilable(bindings, INTERFACE)
    first, *lines = str(raised.value).splitlines()
    assert first == "operators that cannot be compiled:"
    assert lines[0].startswith("  exp ('first', 'last') computes a tensor without elements, [2, 0]")
    assert lines[1].startswith("  sqrt ('root') computes a tensor without elements, [2, 0]")
    assert lines[2].startswith("  abs")


def test_all_results_of_an_operator_count() -> None:
    bad = relax.TensorType((2, 0), "float32")
    parts = relax.TupleType([relax.TensorType((2,), "float32"), bad])
    call = relax.op.split(relax.Var("x", relax.TensorType((2, 2), "float32")), 2, axis=1)
    with pytest.raises(UserError, match=r"split.* computes a tensor without elements, \[2, 0\]"):
        refuse_uncompilable([relax.VarBinding(relax.Var("lv", parts), call)], INTERFACE)


def test_a_network_that_can_be_compiled_passes() -> None:
    _, bindings = build_main(relax.op.exp, ((2, 3), "float32"))
    refuse_uncompilable(bindings, INTERFACE)
