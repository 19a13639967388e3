"""Conditions in TIR under which loops may write their output over an input."""

from __future__ import annotations

import pytest
from tvm import script, tirx

from firmwright.ir.kernels import Parameter
from firmwright.lowering.in_place import find_in_place

ADDED = """
for i in range(24):
    with T.sblock("a"):
        v = T.axis.spatial(24, i)
        y[v] = x[v // 6, v % 6] + w[0]
"""
TURNED = ADDED.replace("x[v // 6, v % 6]", "x[v % 4, v // 4]")
SUMMED = """
for i, k in T.grid(24, 24):
    with T.sblock("a"):
        v, r = T.axis.remap("SR", [i, k])
        with T.init():
            y[v] = T.float32(0)
        y[v] = y[v] + x[v // 6, v % 6] * w[0]
"""
CLEARED = """
for i in range(24):
    with T.sblock("zero"):
        v = T.axis.spatial(24, i)
        y[v] = w[0]
for i in range(24):
    with T.sblock("a"):
        v = T.axis.spatial(24, i)
        y[v] = x[v // 6, v % 6] + w[0]
"""
REPEATED = """
for again in range(2):
    for i in range(24):
        with T.sblock("a"):
            v = T.axis.spatial(24, i)
            y[v] = x[v // 6, v % 6] + w[0]
"""
READ_BEFORE = """
for again in range(1):
    kept = T.sblock_alloc_buffer((24,), "float32")
    for i in range(24):
        with T.sblock("kept"):
            v = T.axis.spatial(24, i)
            kept[v] = x[v // 6, v % 6]
    for i in range(24):
        with T.sblock("a"):
            v = T.axis.spatial(24, i)
            y[v] = kept[23 - v] + w[0]
"""
READ_BEHIND = """
kept = T.sblock_alloc_buffer((24,), "float32")
for i in range(24):
    with T.sblock("a"):
        v = T.axis.spatial(24, i)
        y[v] = x[v // 6, v % 6] + w[0]
        kept[v] = x[v // 6, v % 6]
"""
HANDED_ON = """
for i in range(24):
    with T.sblock("a"):
        v = T.axis.spatial(24, i)
        y[v] = T.call_extern("float32", "f", T.address_of(x[v // 6, v % 6])) + w[0]
"""
SCALED_SUMS = """
sums = T.sblock_alloc_buffer((24,), "float32")
for i in range(24):
    for k in range(2):
        with T.sblock("sums"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                sums[v] = T.float32(0)
            sums[v] = sums[v] + w[r]
    with T.sblock("a"):
        v = T.axis.spatial(24, i)
        y[v] = x[v // 6, v % 6] + sums[v]
"""


def compile_loops(text: str) -> tirx.PrimFunc:
    body = "".join(f"    {line}\n" for line in text.strip().splitlines())
    types = "x: T.Buffer((4, 6)), w: T.Buffer((2,)), y: T.Buffer((24,))"
    return script.from_source(
        f"@T.prim_func(s_tir=True)\ndef loops({types}):\n{body}", {"T": script.tirx}
    )


def find(text: str, read: str = "float32", written: str = "float32") -> tuple[str, ...]:
    """Return the inputs that the output may overwrite."""
    x, y = Parameter("x", read, 24, "x"), Parameter("y", written, 24, "y")
    return find_in_place(compile_loops(text), (x,), (y,), between=1)


@pytest.mark.parametrize("text", [ADDED, SCALED_SUMS])
def test_loops_that_read_each_element_where_they_write_it(text: str) -> None:
    assert find(text) == ("x",)


@pytest.mark.parametrize(
    "text", [TURNED, SUMMED, CLEARED, REPEATED, READ_BEFORE, READ_BEHIND, HANDED_ON]
)
def test_loops_that_read_what_they_have_written(text: str) -> None:
    assert find(text) == ()


@pytest.mark.parametrize(
    ("read", "written", "allowed"),
    [("int8", "uint8", True), ("int32", "float32", False), ("bool", "int8", False)],
)
def test_only_types_that_c_takes_for_each_other(read: str, written: str, allowed: bool) -> None:
    assert find(ADDED, read, written) == (("x",) if allowed else ())


def test_of_two_inputs_only_the_one_of_the_type_of_the_output() -> None:
    loops = compile_loops(ADDED.replace("w[0]", "w[v]"))
    inputs = (Parameter("x", "float32", 24, "x"), Parameter("w", "int32", 24, "w"))
    assert find_in_place(loops, inputs, (Parameter("y", "float32", 24, "y"),), 0) == ("x",)
