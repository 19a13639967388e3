"""Converts operators to kernels in TIR, and conversions of bit patterns to calls of C functions.

The kernels compute probabilities of classes and products of packed weights. The conversions are
BitCast, and 8-bit and 4-bit floats in bytes. Their C functions are in bit_patterns.h or
sixteen_bit_floats.h (templates/network).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as script

from firmwright.ir.operators import PACKED_PRODUCT
from firmwright.ir.relax import static_shape
from firmwright.ir.tensors import SIXTEEN_BIT_FLOATS

Kernel = Callable[[Sequence[Any], Any], tirx.Stmt]
"""Returns a kernel's statement for the buffers of its inputs and of its result."""


def emit_kernel(
    builder: relax.BlockBuilder,
    inputs: Sequence[relax.Expr],
    shape: Sequence[int],
    kernel: Kernel,
    hint: str,
    result: str,
) -> relax.Var:
    """Emit a call of a kernel that writes one float32 tensor, whose name is ``result``."""

    def compute(*tensors: te.Tensor) -> te.Tensor:
        return te.extern(
            [shape],
            [*tensors],
            lambda ins, outs: kernel(ins, outs[0]),
            # TVM's operators have buffers without a layout.
            in_buffers=[tirx.decl_buffer(t.shape, t.dtype, layout=None) for t in tensors],
            out_buffers=[tirx.decl_buffer(shape, "float32", layout=None)],
            dtype=["float32"],
            name=result,
        )

    return builder.emit_te(compute, *inputs, primfunc_name_hint=hint)


def make_local(name: str, *shape: int) -> Any:
    return script.buffer_proxy(IRBuilder.name(name, script.alloc_buffer(list(shape), "float32")))


ROUNDS = 100
"""The maximum number of rounds of ONNX Runtime's approximation."""


def convert_pairwise_probabilities(
    builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], _: Mapping[str, Any]
) -> relax.Expr:
    """Convert PairwiseProbabilities, the second part of an SVMClassifier with probabilities.

    The input has the shape (rows, classes, classes). Element (i, j) is the probability of class i
    if the class is i or j. The result has the shape (rows, classes).
    """
    rows, count = static_shape(inputs[0])[:2]
    return emit_kernel(
        builder,
        inputs,
        [rows, count],
        lambda ins, result: approximate(ins[0], result, rows, count),
        "pairwise_probabilities",
        "probabilities",
    )


def approximate(pairs: Any, result: Any, rows: int, count: int) -> tirx.Stmt:
    """Approximate the probabilities until the error of each probability is below 0.005 / ``count``.

    Source: Wu, Lin, Weng, "Probability Estimates for Multi-class Classification by Pairwise
    Coupling" (2004), algorithm 2. The maximum number of rounds is equal to ONNX Runtime's maximum.
    """
    limit = tirx.const(np.float32(0.005) / np.float32(count), "float32")
    with IRBuilder() as builder:
        pairs, p = script.buffer_proxy(pairs), script.buffer_proxy(result)
        with script.serial(0, rows) as row:
            IRBuilder.name("row", row)
            matrix, products = make_local("matrix", count, count), make_local("products", count)
            total, error, step = (make_local(name, 1) for name in ("total", "error", "step"))
            fill_matrix(pairs, matrix, p, row, count)
            with script.serial(0, ROUNDS) as number:
                IRBuilder.name("number", number)
                measure_error(matrix, products, total, error, p, row, count)
                with script.If(error[0] >= limit), script.Then(), script.serial(0, count) as i:
                    IRBuilder.name("i", i)
                    step[0] = (total[0] - products[i]) / matrix[i, i]
                    p[row, i] = p[row, i] + step[0]
                    grown = tirx.const(1, "float32") + step[0]
                    change = step[0] * (step[0] * matrix[i, i] + products[i] + products[i])
                    total[0] = (total[0] + change) / grown / grown
                    with script.serial(0, count) as j:
                        IRBuilder.name("j", j)
                        products[j] = (products[j] + step[0] * matrix[i, j]) / grown
                        p[row, j] = p[row, j] / grown
        return builder.get()


def fill_matrix(pairs: Any, matrix: Any, p: Any, row: Any, count: int) -> None:
    """Compute the matrix of the quadratic form, and set all probabilities to 1 / ``count``."""
    with script.serial(0, count) as i:
        IRBuilder.name("i", i)
        p[row, i] = tirx.const(np.float32(1) / np.float32(count), "float32")
        matrix[i, i] = tirx.const(0, "float32")
        with script.serial(0, count) as j:
            IRBuilder.name("j", j)
            with script.If(tirx.NE(i, j)), script.Then():
                matrix[i, i] = matrix[i, i] + pairs[row, j, i] * pairs[row, j, i]
                matrix[i, j] = -(pairs[row, j, i] * pairs[row, i, j])


def measure_error(
    matrix: Any, products: Any, total: Any, error: Any, p: Any, row: Any, count: int
) -> None:
    """Compute the matrix-vector product, the quadratic form, and their largest difference."""
    total[0] = tirx.const(0, "float32")
    with script.serial(0, count) as i:
        IRBuilder.name("i", i)
        products[i] = tirx.const(0, "float32")
        with script.serial(0, count) as j:
            IRBuilder.name("j", j)
            products[i] = products[i] + matrix[i, j] * p[row, j]
        total[0] = total[0] + p[row, i] * products[i]
    error[0] = tirx.const(0, "float32")
    with script.serial(0, count) as k:
        IRBuilder.name("k", k)
        error[0] = tirx.max(error[0], tirx.abs(products[k] - total[0]))


def convert_packed_product(
    builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attributes: Mapping[str, Any]
) -> relax.Expr:
    """Convert PackedProduct, the float32 form of a MatMulNBits with constant weights.

    The inputs are the data (…, K), the bytes (N, blocks, bytes per block), and the scales and zero
    points of the blocks (N, blocks). The weights have 2, 4 or 8 bits, and remain packed in flash.
    The lowest bits of a byte are the first weight. The last block may have fewer weights. The
    result is (…, N).
    """
    bits, block = int(attributes["bits"]), int(attributes["block_size"])
    data, stored, *factors = inputs
    *outer, depth = static_shape(data)
    rows, columns = prod(outer), static_shape(stored)[0]
    flat = builder.normalize(relax.op.reshape(data, [rows, depth]))
    product = emit_kernel(
        builder,
        [flat, stored, *factors],
        [rows, columns],
        lambda ins, result: add_products(ins, result, rows, columns, depth, bits, block),
        PACKED_PRODUCT,
        "product",
    )
    return relax.op.reshape(product, [*outer, columns])


def add_products(
    inputs: Sequence[Any], result: Any, rows: int, columns: int, depth: int, bits: int, block: int
) -> tirx.Stmt:
    """Unpack each byte in registers, add the products of a block, and multiply by its scale."""
    per_byte = 8 // bits
    with IRBuilder() as builder:
        data, stored, scales, points = map(script.buffer_proxy, inputs)
        sums = script.buffer_proxy(result)

        def add_weights(row: Any, column: Any, number: Any, byte: Any, count: int) -> None:
            """Add the products of the first ``count`` weights of a byte."""
            packed = stored[column, number, byte]
            last = tirx.const(2**bits - 1, "uint8")
            for position in range(count):
                shifted = packed >> tirx.const(bits * position, "uint8") if position else packed
                weight = tirx.Cast("float32", shifted & last) - zero[0]
                index = number * block + byte * per_byte + position
                part[0] = part[0] + data[row, index] * weight

        def add_block(row: Any, column: Any, number: Any, count: int) -> None:
            """Add the scaled sum of the first ``count`` weights of a block."""
            part[0] = tirx.const(0, "float32")
            zero[0] = tirx.Cast("float32", points[column, number])
            whole, rest = divmod(count, per_byte)
            if whole:
                with script.serial(0, whole) as byte:
                    IRBuilder.name("byte", byte)
                    add_weights(row, column, number, byte, per_byte)
            if rest:
                add_weights(row, column, number, tirx.const(whole, "int32"), rest)
            sums[row, column] = sums[row, column] + part[0] * scales[column, number]

        with script.serial(0, rows) as row, script.serial(0, columns) as column:
            IRBuilder.name("row", row)
            IRBuilder.name("column", column)
            part, zero = make_local("part", 1), make_local("zero", 1)
            sums[row, column] = tirx.const(0, "float32")
            full, rest = divmod(depth, block)
            if full:
                with script.serial(0, full) as number:
                    IRBuilder.name("number", number)
                    add_block(row, column, number, block)
            if rest:
                add_block(row, column, tirx.const(full, "int32"), rest)
        return builder.get()


Convert = Callable[[Any], tirx.Expr]

ROUND_MODES = {b"up": 0x7FFFFF, b"down": 0, b"nearest": 0x400000}
"""The number that is added to a float32's bits before float8_e8m0fnu keeps only the exponent."""


def convert_float_to_code(
    builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attributes: Mapping[str, Any]
) -> relax.Expr:
    """Convert floats to codes of the type ``kind``, which are uint8."""
    (data,) = inputs
    kind = attributes["kind"].decode()
    saturate = tirx.const(int(attributes["saturate"]), "int32")
    settings = {
        "float4_e2m1fn": (),
        "float8_e8m0fnu": (tirx.const(ROUND_MODES[attributes["round_mode"]], "uint32"), saturate),
    }
    given = settings.get(kind, (saturate,))
    if str(data.ty.dtype) == "float64":
        data = map_elements(builder, data, make_call("float32", "float64_to_odd_float32"))
    elif str(data.ty.dtype) != "float32":
        data = builder.emit(relax.op.astype(data, "float32"))
    return map_elements(builder, data, make_call("uint8", f"float32_to_{kind}", *given))


def convert_code_to_float(
    builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attributes: Mapping[str, Any]
) -> relax.Expr:
    """Convert uint8 codes of the type ``kind`` to float32."""
    kind = attributes["kind"].decode()
    return map_elements(builder, inputs[0], make_call("float32", f"{kind}_to_float32"))


def convert_bit_cast(
    builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attributes: Mapping[str, Any]
) -> relax.Expr:
    """Convert BitCast, because TVM has no converter.

    Between integers, BitCast is a cast that wraps around.
    """
    (data,) = inputs
    return cast_bits(builder, data, onnx.helper.tensor_dtype_to_np_dtype(attributes["to"]).name)


def cast_bits(builder: relax.BlockBuilder, data: relax.Expr, after: str) -> relax.Expr:
    """Return the bits of each element as an element of the type ``after``, of the same size."""
    before = str(data.ty.dtype)
    if before == after:
        return data
    if "float" in before:
        data = map_elements(builder, data, UNPACK[before])
    if "float" not in after:
        return data if str(data.ty.dtype) == after else builder.emit(relax.op.astype(data, after))
    word = f"uint{tvm.DataType(after).bits}"
    if str(data.ty.dtype) != word:
        data = builder.emit(relax.op.astype(data, word))
    return map_elements(builder, data, PACK[after])


def make_call(result: str, function: str, *arguments: tirx.Expr) -> Convert:
    return lambda element: tirx.call_pure_extern(result, function, element, *arguments)


def make_reinterpretation(result: str) -> Convert:
    """Return a conversion that keeps the bits.

    :mod:`firmwright.lowering.float_bit_patterns` lowers these conversions.
    """
    return lambda element: tirx.reinterpret(result, element)


UNPACK = {
    "float32": make_call("uint32", "float32_bits"),
    "float64": make_call("uint64", "float64_bits"),
    **dict.fromkeys(SIXTEEN_BIT_FLOATS, make_reinterpretation("uint16")),
}
"""Functions that convert floats to bits."""

PACK = {
    "float32": make_call("float32", "float32_of_bits"),
    "float64": make_call("float64", "float64_of_bits"),
    **{kind: make_reinterpretation(kind) for kind in SIXTEEN_BIT_FLOATS},
}
"""Functions that convert bits to floats."""


def map_elements(builder: relax.BlockBuilder, data: relax.Expr, convert: Convert) -> relax.Var:
    """Convert each element in a function that has the name of a cast."""

    def compute(tensor: te.Tensor) -> te.Tensor:
        return te.compute(tensor.shape, lambda *position: convert(tensor(*position)))

    return builder.emit_te(compute, data, primfunc_name_hint="cast")
