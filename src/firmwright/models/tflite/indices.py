"""Corrects TFLite operators that compute indices, or that read or write at computed indices."""

from __future__ import annotations

from typing import Any

import tflite
from tvm import relax, te
from tvm.relax.frontend.tflite import tflite_frontend

from firmwright.ir.relax import static_shape
from firmwright.models.tflite.data_movement import shape_of


def convert_gather(converter: Any, op: Any) -> relax.Expr:
    """Convert GATHER, because TVM ignores the batch axes.

    The first ``batch`` axes of the data and of the indices correspond. Source:
    tensorflow/lite/kernels/internal/reference/gather.h.
    """
    options = converter._get_builtin_options(op, tflite.GatherOptions)
    tensors = converter.get_input_tensors(op)
    lengths, rank = (len(shape_of(converter, tensor)) for tensor in tensors)
    axis, batch = options.Axis() % lengths, options.BatchDims()
    batch += rank if batch < 0 else 0
    if not batch:
        return tflite_frontend.OperatorConverter.convert_gather(converter, op)
    data, indices = (converter.bb.emit(converter.get_tensor_expr(t)) for t in tensors)
    inner = rank - batch

    def gather(data: te.Tensor, indices: te.Tensor) -> te.Tensor:
        shape = [*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :]]

        def read(*at: Any) -> Any:
            position = indices[(*at[:batch], *at[axis : axis + inner])]
            return data[(*at[:axis], position, *at[axis + inner :])]

        return te.compute(shape, read, "gathered")

    return converter.bb.emit_te(gather, data, indices, primfunc_name_hint="gather")


def convert_gather_nd(converter: Any, op: Any) -> relax.Expr:
    """Convert GATHER_ND, because TVM moves index vectors to the first axis.

    Relax expects the last axis.
    """
    data, indices = (converter.get_tensor_expr(t) for t in converter.get_input_tensors(op))
    return relax.op.gather_nd(data, relax.op.astype(indices, "int64"))


def convert_scatter_nd(converter: Any, op: Any) -> relax.Expr:
    """Convert SCATTER_ND, because TVM misreads index vectors and keeps only one update.

    TFLite adds several updates of an element. Source:
    tensorflow/lite/kernels/internal/reference/reference_ops.h (ScatterNd).
    """
    indices, updates, _ = (converter.get_tensor_expr(t) for t in converter.get_input_tensors(op))
    (target,) = converter.get_output_tensors(op)
    shape = [int(length) for length in converter.get_tensor_shape(target)]
    zeros = relax.op.zeros(shape, converter.get_tensor_type_str(target.tensor.Type()))
    return relax.op.scatter_nd(zeros, relax.op.astype(indices, "int64"), updates, "add")


def convert_bucketize(converter: Any, op: Any) -> relax.Expr:
    """Convert BUCKETIZE to the number of boundaries that are not greater than each element.

    TVM's operator counts the boundaries below an element. NaN is in the last bucket. Source:
    tensorflow/lite/kernels/bucketize.cc, which compares integers as float32.
    """
    (source,), (target,) = converter.get_input_tensors(op), converter.get_output_tensors(op)
    data = converter.get_tensor_expr(source)
    limits = converter._get_builtin_options(op, tflite.BucketizeOptions).BoundariesAsNumpy()
    dtype = "float64" if data.ty.dtype == "float64" else "float32"
    column = relax.op.expand_dims(relax.op.astype(data, dtype), -1)
    below = converter.bb.normalize(relax.op.less(column, relax.const(limits.astype(dtype))))
    result = converter.get_tensor_type_str(target.tensor.Type())
    above = relax.op.sum(relax.op.astype(below, result), axis=-1)
    return relax.op.subtract(relax.const(len(limits), result), above)


def convert_embedding_lookup(converter: Any, op: Any) -> relax.Expr:
    """Convert EMBEDDING_LOOKUP, because TVM reads the first input, which contains indices, as rows.

    Rows of bytes with a float32 result are multiplied by one scale, or by one scale per row.
    """
    positions, table = converter.get_input_tensors(op)
    (target,) = converter.get_output_tensors(op)
    indices, rows = map(converter.get_tensor_expr, (positions, table))
    found = converter.bb.normalize(relax.op.take(rows, indices, axis=0))
    if table.qnn_params is None or target.qnn_params is not None:
        return found
    scale = table.qnn_params["scale"]
    if scale.ty.shape:
        axes = [-1] + [1] * (len(static_shape(rows)) - 1)
        scale = converter.bb.normalize(relax.op.take(scale, indices, axis=0))
        scale = converter.bb.normalize(relax.op.reshape(scale, axes))
    return relax.op.multiply(relax.op.astype(found, "float32"), scale)
