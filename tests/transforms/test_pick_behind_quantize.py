"""ConvertConvStride picks integers of a quantized convolution, equal to the integers before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.ir.relax import dtype_of, main_bindings, operator_name
from firmwright.models.relax.importer import run_reference
from firmwright.transforms.layout_on_integers import keep_layout_on_integers
from firmwright.transforms.optional import apply_transforms

op = relax.op
RANDOM = np.random.default_rng(5)


def number(value: float, dtype: str = "float32") -> relax.Expr:
    return relax.const(np.asarray(value, dtype))


def floats(*shape: int) -> relax.Expr:
    return relax.const(RANDOM.normal(0, 1, shape).astype("float32"))


def bias(axis: int) -> relax.Expr:
    stored = RANDOM.integers(-500, 500, [6 if i == axis else 1 for i in range(4)]).astype("int32")
    return op.dequantize(relax.const(stored), number(0.01), number(0, "int32"))


def convolution(x: relax.Expr, layout: str) -> relax.Expr:
    shape = (6, 4, 3, 3) if layout == "NCHW" else (3, 3, 4, 6)
    kernel = relax.const(RANDOM.integers(-20, 20, shape).astype("int8"))
    return op.nn.conv2d(
        op.dequantize(x, number(0.1), number(0, "int8")),
        op.dequantize(kernel, number(0.05), number(0, "int8")),
        strides=[1, 2],
        padding=1,
        data_layout=layout,
        kernel_layout="OIHW" if layout == "NCHW" else "HWIO",
        out_layout=layout,
    )


Behind = Callable[[relax.Expr], relax.Expr]


def network(
    behind: Behind, layout: str = "NCHW", others: bool = False, grid: Any = 0.07
) -> tvm.IRModule:
    """Return quantize(behind(convolution)); with ``others``, the floats are also an output."""
    shape = (1, 4, 8, 10) if layout == "NCHW" else (1, 8, 10, 4)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "int8"))
    with builder.function("main", [x]):
        with builder.dataflow():
            found = builder.emit(behind(builder.emit(convolution(x, layout), "conv")), "found")
            zero = number(np.zeros_like(grid), "int8")
            stored = op.quantize(found, number(grid), zero, axis=1, out_dtype="int8")
            outputs = [builder.emit_output(stored)]
            outputs += [builder.emit_output(op.negative(found))] if others else []
        builder.emit_func_output(outputs if others else outputs[0])
    return builder.get()


def residual() -> tvm.IRModule:
    """Return the quantized sum of two convolutions."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 4, 8, 10), "int8"))
    with builder.function("main", [x]):
        with builder.dataflow():
            total = op.add(convolution(x, "NCHW"), convolution(x, "NCHW"))
            stored = op.quantize(total, number(0.07), number(0, "int8"), out_dtype="int8")
            result = builder.emit_output(stored)
        builder.emit_func_output(result)
    return builder.get()


def operators(module: tvm.IRModule) -> list[str]:
    names = [operator_name(b.value).removeprefix("relax.") for b in main_bindings(module)]
    return [name for name in names if name and name != "dequantize"]


def outputs(module: tvm.IRModule) -> list[np.ndarray[Any, Any]]:
    (x,) = module["main"].params
    given = np.random.default_rng(1).integers(-128, 128, [int(d) for d in x.ty.shape])
    sample = {"x": given.astype("int8")}
    return run_reference(tvm.ir.save_json(module).encode(), [sample]).outputs[0]


@pytest.mark.parametrize(
    ("behind", "layout", "between"),
    [
        (lambda x: x, "NCHW", []),
        (lambda x: op.nn.relu(op.add(x, bias(1))), "NCHW", ["add", "nn.relu"]),
        (lambda x: op.clip(op.multiply(floats(6, 1, 1), x), 0, 3), "NCHW", ["multiply", "clip"]),
        (lambda x: op.sigmoid(op.subtract(number(1.5), x)), "NCHW", ["subtract", "sigmoid"]),
        (lambda x: op.nn.relu(op.add(x, bias(3))), "NHWC", ["add", "nn.relu"]),
    ],
)
def test_integers_are_picked(behind: Behind, layout: str, between: list[str]) -> None:
    module = network(behind, layout)
    after = apply_transforms(module, {"ConvertConvStride"})
    assert operators(after) == ["nn.conv2d", *between, "quantize", "nn.max_pool2d"]
    assert dtype_of(main_bindings(after)[-1].value) == "int8"
    assert "conv" in [str(b.var.name) for b in main_bindings(after)]
    np.testing.assert_array_equal(outputs(after)[0], outputs(module)[0])


def test_a_network_outside_a_dataflow_block_is_rewritten_as_well() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 4, 8, 10), "int8"))
    grid = number(0.07), number(0, "int8")
    with builder.function("main", [x]):
        conv = op.quantize(builder.emit(convolution(x, "NCHW"), "conv"), *grid, out_dtype="int8")
        pool = builder.emit(op.nn.max_pool2d(op.dequantize(conv, *grid), [2, 2]), "pool")
        builder.emit_func_output(builder.emit(op.quantize(pool, *grid, out_dtype="int8")))
    module = builder.get()
    after = keep_layout_on_integers(apply_transforms(module, {"ConvertConvStride"}))
    assert operators(after) == ["nn.conv2d", "quantize", "nn.max_pool2d", "nn.max_pool2d"]
    np.testing.assert_array_equal(outputs(after)[0], outputs(module)[0])


@pytest.mark.parametrize(
    "module",
    [
        network(lambda x: op.add(x, floats(8, 5))),
        network(lambda x: op.add(x, floats(5))),
        residual(),
        network(lambda x: op.multiply(op.nn.max_pool2d(x, [2, 2]), number(-1))),
        network(lambda x: op.nn.relu(op.nn.max_pool2d(x, [1, 1], padding=[0, 1, 0, 1]))),
        network(op.nn.relu, others=True),
        network(op.nn.relu, grid=np.full(6, 0.07)),
        network(op.nn.softmax),
    ],
    ids=[
        *("constant image", "constant row", "two tensors", "other pool", "padded pool"),
        *("other readers", "grids", "softmax"),
    ],
)
def test_where_floats_have_to_be_picked_they_are(module: tvm.IRModule) -> None:
    after = apply_transforms(module, {"ConvertConvStride"})
    names = operators(after)
    assert names.index("quantize") > max(i for i, n in enumerate(names) if n == "nn.max_pool2d")
    assert names.count("nn.max_pool2d") == operators(module).count("nn.max_pool2d") + names.count(
        "nn.conv2d"
    )
    for now, before in zip(outputs(after), outputs(module), strict=True):
        np.testing.assert_array_equal(now, before)
