"""Converts products of packed weights to kernels in TIR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as script

from firmwright.ir.operators import PACKED_PRODUCT
from firmwright.ir.relax import static_shape


def make_local(name: str, *shape: int) -> Any:
    return script.buffer_proxy(IRBuilder.name(name, script.alloc_buffer(list(shape), "float32")))


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

    def compute(*tensors: te.Tensor) -> te.Tensor:
        return te.extern(
            [(rows, columns)],
            [*tensors],
            lambda ins, outs: add_products(ins, outs[0], rows, columns, depth, bits, block),
            # TVM's operators have buffers without a layout.
            in_buffers=[tirx.decl_buffer(t.shape, t.dtype, layout=None) for t in tensors],
            out_buffers=[tirx.decl_buffer([rows, columns], "float32", layout=None)],
            dtype=["float32"],
            name="product",
        )

    product = builder.emit_te(compute, flat, stored, *factors, primfunc_name_hint=PACKED_PRODUCT)
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
