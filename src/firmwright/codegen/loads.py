"""Finds loads in expressions, whose values depend on data."""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm_ffi import structural_walk


def depends_on_data(value: tirx.Expr) -> bool:
    """Return whether an expression reads an array."""
    found: list[bool] = []
    structural_walk(value, (tvm.ir.TensorLoad, lambda _: found.append(True)))
    return bool(found)
