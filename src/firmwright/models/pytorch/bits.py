"""Imports ``view(dtype)``, which reads the bytes of a tensor as elements of another type."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import tvm
from tvm import relax

from firmwright.ir.relax import dtype_of, static_shape
from firmwright.models.onnx.written_kernels import cast_bits


def view_bits(importer: Any, node: torch.fx.Node) -> relax.Expr:
    """Import ``view(dtype)``. The bytes are in little-endian order.

    If the sizes of the types differ, the last axis becomes longer or shorter. Raises ValueError for
    Booleans.
    """
    builder, data = importer.block_builder, importer.env[node.args[0]]
    before, after = dtype_of(data), importer._convert_data_type(node.meta["val"].dtype)
    if "bool" in (before, after):
        raise ValueError("the bytes of Booleans are not defined; convert them to uint8")
    sizes = [tvm.DataType(kind).bits for kind in (before, after)]
    if sizes[0] == sizes[1]:
        return cast_bits(builder, data, after)
    small, large = sorted(sizes)
    words = cast_bits(builder, data, f"uint{sizes[0]}")
    *leading, length = static_shape(words)
    count = large // small
    shifts = relax.const(np.arange(count) * small, f"uint{large}")
    if sizes[0] == large:
        column = builder.emit(relax.op.expand_dims(words, -1))
        parts = builder.emit(relax.op.right_shift(column, shifts))
        parts = builder.emit(relax.op.astype(parts, f"uint{small}"))
        words = builder.emit(relax.op.reshape(parts, (*leading, length * count)))
    else:
        wide = builder.emit(relax.op.astype(words, f"uint{large}"))
        groups = builder.emit(relax.op.reshape(wide, (*leading, length // count, count)))
        moved = builder.emit(relax.op.left_shift(groups, shifts))
        words = builder.emit(relax.op.sum(moved, -1))
    return cast_bits(builder, words, after)
