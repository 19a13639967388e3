"""Expressions of TIR as C."""

from __future__ import annotations

import pytest
from tvm import tirx
from tvm.ir.prim import expr as prim

from firmwright.codegen.c_blocks import Blocks
from firmwright.codegen.c_expressions import Expressions


@pytest.mark.parametrize(("dtype", "expected"), [("bool", "!x"), ("int32", "~x")])
def test_complements_of_truth_values_are_logical(dtype: str, expected: str) -> None:
    x = tirx.Var("x", dtype)
    expressions = Expressions(Blocks([]), {x: "x"}, set(), set())
    assert expressions.print(prim.BitwiseNot(x)).text == expected
