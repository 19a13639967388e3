"""The generated functions compile without a warning, compute the model, and are readable."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from tvm import script, te, tirx

from firmwright.codegen.c_source import print_c
from firmwright.lowering.loop_structure import schedule_region
from firmwright.models import FORMATS
from tests.networks.firmware import assert_exact, run_generated
from tests.networks.onnx_models import graph, node, value

INT64 = TensorProto.INT64


def parse(body: str, **dtypes: str) -> tirx.PrimFunc:
    """Return a function of arrays of 8 elements from the TVMScript of its statements."""
    arrays = ", ".join(f'{name}: T.Buffer((8,), "{dtype}")' for name, dtype in dtypes.items())
    text = f"@T.prim_func(s_tir=True)\ndef function({arrays}):\n{indent(dedent(body), '    ')}"
    return script.from_source(text, {"T": script.tirx})


def print_function(function: tirx.PrimFunc) -> list[str]:
    """Return the C of a function whose arrays are a, b, c …, without its indentation."""
    names = "abcdef"[: len(function.params)]
    return [line.strip() for line in print_c(function, list(names)).body.splitlines()]


def print_element(formula: Any, *dtypes: str) -> str:
    """Return the C of one value, which a formula computes from arrays of 8 elements."""
    arrays = [te.placeholder((8,), dtype) for dtype in dtypes]
    y = te.compute((8,), lambda i: formula(*(array[i] for array in arrays)))
    scheduled = schedule_region(te.create_prim_func([*arrays, y]))
    lines = print_function(scheduled.function)
    return lines[-2].split(" = ", 1)[1].replace("[i]", "").rstrip(";")


@pytest.mark.parametrize(
    ("formula", "dtypes", "expected"),
    [
        (lambda a, b: a - (a - b), ("float32", "float32"), "a - (a - b)"),
        (lambda a, b: a + (a + b), ("float32", "float32"), "a + (a + b)"),
        (lambda a, b: a * b / a * b, ("float32", "float32"), "(a * b / a) * b"),
        (lambda a: a * tirx.const(-0.5, "float32"), ("float32",), "a * -0.5f"),
        (lambda a: a + tirx.const(-5, "int32"), ("int32",), "a - 5"),
        (lambda a: tirx.const(1, "int64") << a, ("int64",), "(int64_t)1 << a"),
        (lambda a: a.astype("float64"), ("float32",), "(double)a"),
        (lambda a, b: tirx.all(a < b, tirx.any(a > 1, b > 1)), ("int32", "int32"),
         "a < b && (1 < a || 1 < b)"),
        (lambda a, b: tirx.Select(a < b, tirx.const(1, "int32"), tirx.const(0, "int32")),
         ("int32", "int32"), "a < b ? (int32_t)1 : 0"),
    ],
)  # fmt: skip
def test_expressions_have_the_parentheses_and_types_that_c_needs(
    formula: Any, dtypes: tuple[str, ...], expected: str
) -> None:
    assert print_element(formula, *dtypes) == expected


def test_a_variable_is_declared_with_its_first_value_in_the_block_that_uses_it() -> None:
    x = te.placeholder((4, 8), "int32", "x")
    axis = te.reduce_axis((0, 8), "k")
    y = te.compute((4,), lambda i: te.sum(x[i, axis], axis=axis), "sum")
    z = te.compute((4,), lambda i: y[i] * 2, "z")
    scheduled = schedule_region(te.create_prim_func([x, z]))
    assert print_function(scheduled.function) == [
        "for (int32_t i = 0; i < 4; ++i) {",
        "int32_t sum = 0;",
        "for (int32_t k = 0; k < 8; ++k) {",
        "sum = sum + a[i * 8 + k];",
        "}",
        "b[i] = sum * 2;",
        "}",
    ]


def test_names_are_unique_within_their_blocks_and_hide_no_function() -> None:
    function = parse(
        """
        expf = T.alloc_buffer((8,), "float32")
        for i in range(8):
            expf[i] = T.call_pure_extern("float32", "expf", a[i])
        for i in range(8):
            b[i] = expf[7 - i]
        """,
        a="float32",
        b="float32",
    )
    assert print_function(function) == [
        "float expf_1[8];",
        "for (int32_t i = 0; i < 8; ++i) {",
        "expf_1[i] = expf(a[i]);",
        "}",
        "for (int32_t i = 0; i < 8; ++i) {",
        "b[i] = expf_1[7 - i];",
        "}",
    ]


def test_a_guarded_value_is_not_computed_before_its_guard() -> None:
    function = parse(
        """
        for i in range(8):
            b[i] = i < 7 and T.max(a[i + 1], a[0]) * 2 == a[i]
        """,
        a="int32",
        b="bool",
    )
    assert print_function(function) == [
        "for (int32_t i = 0; i < 8; ++i) {",
        "bool chosen = i < 7;",
        "if (chosen) {",
        "int32_t value = a[i + 1];",
        "int32_t value_1 = a[0];",
        "chosen = (value > value_1 ? value : value_1) * 2 == a[i];",
        "}",
        "b[i] = chosen;",
        "}",
    ]


def test_arrays_that_nothing_reads_leave_nothing() -> None:
    function = parse(
        """
        first = T.alloc_buffer((8,), "int32")
        second = T.alloc_buffer((8,), "int32")
        for i in range(T.min(a[0], 8)):
            if i < 4:
                first[i] = a[i]
        for i in range(8):
            second[i] = first[i] + second[i]
        b[0] = a[0]
        """,
        a="int32",
        b="int32",
    )
    printed = print_c(function, ["a", "b"])
    assert printed.body == "    b[0] = a[0];"
    assert not printed.scratch


def test_a_value_is_read_again_after_a_store() -> None:
    function = parse(
        """
        b[0] = T.max(b[1], a[0])
        b[1] = T.max(b[1], a[0])
        """,
        a="int32",
        b="int32",
    )
    assert print_function(function) == [
        "int32_t value = b[1];",
        "int32_t value_1 = a[0];",
        "b[0] = value > value_1 ? value : value_1;",
        "int32_t value_2 = b[1];",
        "b[1] = value_2 > value_1 ? value_2 : value_1;",
    ]


def test_the_end_of_a_loop_is_computed_before_the_loop_changes_it() -> None:
    function = parse(
        """
        for i in range(T.min(a[0], 8)):
            a[0] = i
            b[i] = 1
        """,
        a="int32",
        b="int32",
    )
    lines = print_function(function)
    assert lines[1:3] == [
        "int32_t end = value < 8 ? value : 8;",
        "for (int32_t i = 0; i < end; ++i) {",
    ]


def make_model(
    *nodes: onnx.NodeProto, shape: tuple[int, ...], result: tuple[int, ...], kind: int = 1,
    inputs: dict[str, tuple[int, ...]] | None = None, **constants: Any,
) -> bytes:  # fmt: skip
    """Return a model from ``x`` and other inputs, indices of int64, to ``y``."""
    others = [value(name, sizes, INT64) for name, sizes in (inputs or {}).items()]
    made = graph(nodes, [value("x", shape), *others], [value("y", result, kind)], constants)
    return bytes(made.SerializeToString())


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("consumer", ["Gelu", "Softplus"])
def test_a_result_and_its_fused_copy_have_two_names(consumer: str, tmp_path: Path) -> None:
    data = make_model(
        node("LogSoftmax", ["x"], ["l"]), node(consumer, ["l"], ["y"]), shape=(2, 5), result=(2, 5)
    )
    sample = {"x": np.linspace(-3, 3, 10, dtype="float32").reshape(2, 5)}
    (found,) = run_generated(data, [sample], tmp_path, ("-Wconversion",))
    (expected,) = FORMATS["onnx"].load().run_reference(data, [sample]).outputs
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("used", ["values", "indices"])
def test_the_best_element_needs_only_one_of_its_results(used: str, tmp_path: Path) -> None:
    is_value = used == "values"
    data = make_model(
        node("TopK", ["x", "k"], ["y", "unread"] if is_value else ["unread", "y"]),
        shape=(2, 8), result=(2, 1), kind=1 if is_value else INT64, k=np.array([1]),
    )  # fmt: skip
    x = np.array([[3, 1, 9, 2, 9, 0, 4, 4], [-1, -7, -2, -1, -5, -9, -3, -8]], "float32")
    assert_exact(data, tmp_path, [{"x": x}])


@pytest.mark.needs("gcc")
def test_an_index_that_decides_nothing_leaves_no_variable(tmp_path: Path) -> None:
    data = make_model(
        node("Gather", ["x", "i"], ["t"], axis=1), node("Gather", ["t", "j"], ["y"], axis=2),
        shape=(3, 1, 1), result=(3, 2, 2), inputs={"i": (2,), "j": (2,)},
    )  # fmt: skip
    indices = {"i": np.array([0, -1]), "j": np.array([-1, 0])}
    x = np.arange(3, dtype="float32").reshape(3, 1, 1)
    assert_exact(data, tmp_path, [{"x": x, **indices}])


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin"])
def test_the_extreme_of_one_element_is_clamped(operator: str, dtype: str, tmp_path: Path) -> None:
    """Without a loop of one step, the start value and the result are in one block."""
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = graph(
        [node(operator, ["x"], ["extreme"], axes=[0]), node("Relu", ["extreme"], ["y"])],
        [value("x", [1, 8], kind)],
        [value("y", [1, 8], kind)],
        opset=17,
    )
    sample = {"x": np.arange(-4, 4).astype(dtype).reshape(1, 8)}
    assert_exact(made.SerializeToString(), tmp_path, [sample])
