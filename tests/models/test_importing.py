"""Errors of converters in the terms of the model's format."""

from __future__ import annotations

import pytest

from firmwright.models.importing import describe_failure, plain_failure

INTERNAL = "this form of the operator cannot be compiled"


@pytest.mark.parametrize(
    "error",
    [
        AssertionError(),
        AttributeError("'int' object has no attribute 'copy'"),
        TypeError("Cannot cast <class 'tvm.ir.expr.GenericConst'> to list of Expr"),
        TypeError("'NoneType' object is not iterable"),
        ValueError("not enough values to unpack (expected 2, got 1)"),
        IndexError("list index out of range"),
        RuntimeError('Check failed: (info->name != "fused") is false: Inconsistent buffers'),
        ValueError("R.where(c, y, y1) uses datatype T.float32 on the LHS"),
    ],
)
def test_texts_of_libraries_do_not_reach_the_user(error: Exception) -> None:
    assert plain_failure(error) == INTERNAL
    assert describe_failure(error) == (
        f"{INTERNAL}; replace the operator, or end the model before the operator"
    )


def test_other_texts_remain() -> None:
    assert plain_failure(ValueError("3 groups do not divide 4 channels.")) == (
        "3 groups do not divide 4 channels"
    )
    assert plain_failure(KeyError("mode")) == "the value 'mode' is unknown"
