"""Corrects TFLite operators that read or write at computed indices."""

from __future__ import annotations

from typing import Any

from tvm import relax


def convert_gather_nd(converter: Any, op: Any) -> relax.Expr:
    """Convert GATHER_ND; TVM moves index vectors to the first axis, but Relax expects the last."""
    data, indices = (converter.get_tensor_expr(t) for t in converter.get_input_tensors(op))
    return relax.op.gather_nd(data, relax.op.astype(indices, "int64"))


def convert_scatter_nd(converter: Any, op: Any) -> relax.Expr:
    """Convert SCATTER_ND; TVM moves index vectors to the first axis, and keeps only one update.

    TFLite adds up several updates of an element
    (tensorflow/lite/kernels/internal/reference/reference_ops.h, ScatterNd).
    """
    indices, updates, _ = (converter.get_tensor_expr(t) for t in converter.get_input_tensors(op))
    (target,) = converter.get_output_tensors(op)
    shape = [int(length) for length in converter.get_tensor_shape(target)]
    zeros = relax.op.zeros(shape, converter.get_tensor_type_str(target.tensor.Type()))
    return relax.op.scatter_nd(zeros, relax.op.astype(indices, "int64"), updates, "add")


def convert_embedding_lookup(converter: Any, op: Any) -> relax.Expr:
    """Convert EMBEDDING_LOOKUP; TVM reads the first input as rows, but it has the indices."""
    indices, rows = (converter.get_tensor_expr(t) for t in converter.get_input_tensors(op))
    return relax.op.take(rows, indices, axis=0)
