"""Corrects TFLite operators that compute indices, or that read or write at computed indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import tflite
from tvm import relax, te, tirx
from tvm.relax.frontend.tflite import tflite_frontend

from firmwright.errors import UserError
from firmwright.ir.relax import static_shape
from firmwright.models.tflite.checks import RENEW
from firmwright.models.tflite.data_movement import read_inputs, shape_of


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
    data, indices = read_inputs(converter, op)
    return relax.op.gather_nd(data, relax.op.astype(indices, "int64"))


def convert_stablehlo_gather(converter: Any, op: Any) -> relax.Expr:
    """Convert STABLEHLO_GATHER in all forms, because TVM supports one start index per slice.

    A start is moved so that its slice is within the data. Source:
    tensorflow/lite/kernels/stablehlo_gather.cc.
    """
    options = converter._get_stablehlo_options(op, tflite.StablehloGatherOptions)
    offsets = [options.OffsetDims(i) for i in range(options.OffsetDimsLength())]
    collapsed = {options.CollapsedSliceDims(i) for i in range(options.CollapsedSliceDimsLength())}
    mapped = [options.StartIndexMap(i) for i in range(options.StartIndexMapLength())]
    sizes = [options.SliceSizes(i) for i in range(options.SliceSizesLength())]
    (target,) = converter.get_output_tensors(op)
    shape = [int(length) for length in converter.get_tensor_shape(target)]
    along = options.IndexVectorDim()
    tensors = converter.get_input_tensors(op)
    data, starts = (converter.bb.emit(converter.get_tensor_expr(t)) for t in tensors)
    kept = [axis for axis in range(len(sizes)) if axis not in collapsed]

    def gather(data: te.Tensor, starts: te.Tensor) -> te.Tensor:
        def read(*at: Any) -> Any:
            batch = [at[axis] for axis in range(len(shape)) if axis not in offsets]
            position: dict[int, Any] = dict.fromkeys(range(len(sizes)), 0)
            for number, axis in enumerate(mapped):
                vector = [number] if along < len(starts.shape) else []
                start = starts[(*batch[:along], *vector, *batch[along:])]
                last = tirx.const(int(data.shape[axis]) - sizes[axis], start.dtype)
                position[axis] = tirx.max(tirx.min(start, last), tirx.const(0, start.dtype))
            for axis, offset in zip(kept, offsets, strict=True):
                position[axis] = position[axis] + at[offset]
            return data[tuple(position.values())]

        return te.compute(shape, read, "gathered")

    return converter.bb.emit_te(gather, data, starts, primfunc_name_hint="stablehlo_gather")


def convert_scatter_nd(converter: Any, op: Any) -> relax.Expr:
    """Convert SCATTER_ND, because TVM misreads index vectors and keeps only one update.

    TVM moves index vectors to the first axis.

    TFLite adds several updates of an element. Source:
    tensorflow/lite/kernels/internal/reference/reference_ops.h (ScatterNd).
    """
    indices, updates, _ = read_inputs(converter, op)
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
    embeddings = converter.bb.normalize(relax.op.take(rows, indices, axis=0))
    if table.qnn_params is None or target.qnn_params is not None:
        return embeddings
    scale = table.qnn_params["scale"]
    if scale.ty.shape:
        axes = [-1] + [1] * (len(static_shape(rows)) - 1)
        scale = converter.bb.normalize(relax.op.take(scale, indices, axis=0))
        scale = converter.bb.normalize(relax.op.reshape(scale, axes))
    return relax.op.multiply(relax.op.astype(embeddings, "float32"), scale)


def convert_one_hot(converter: Any, op: Any) -> relax.Expr:
    """Convert ONE_HOT, because TVM rejects constant indices and variable values."""
    tensors = converter.get_input_tensors(op)
    indices, on, off = (converter.get_tensor_expr(tensors[i]) for i in (0, 2, 3))
    depth = int(converter.get_tensor_value(tensors[1]))
    rank = len(shape_of(converter, tensors[0])) + 1
    axis = converter._get_builtin_options(op, tflite.OneHotOptions).Axis() % rank
    lengths = [depth if i == axis else 1 for i in range(rank)]
    dtype = str(converter.bb.normalize(indices).ty.dtype)
    positions = relax.const(np.arange(depth, dtype=dtype).reshape(lengths))
    matches = relax.op.equal(relax.op.expand_dims(indices, axis), positions)
    return relax.op.where(matches, on, off)


def convert_sparse_to_dense(converter: Any, op: Any) -> relax.Expr:
    """Convert SPARSE_TO_DENSE, because TVM calls a function of its runtime."""
    tensors = converter.get_input_tensors(op)
    indices, values, default = (
        converter.bb.normalize(converter.get_tensor_expr(tensors[i])) for i in (0, 2, 3)
    )
    shape = [int(length) for length in converter.get_tensor_value(tensors[1])]
    count = static_shape(indices)[0] if static_shape(indices) else 1
    rows = relax.op.reshape(relax.op.astype(indices, "int64"), [count, len(shape)])
    dense = relax.op.broadcast_to(relax.op.reshape(default, [1] * len(shape)), shape)
    given = relax.op.broadcast_to(relax.op.reshape(values, [-1]), [count])
    return relax.op.scatter_nd(dense, rows, given, "update")


def convert_dynamic_update_slice(converter: Any, op: Any) -> relax.Expr:
    """Convert DYNAMIC_UPDATE_SLICE, because TVM has no converter.

    The start is moved so that the slice is inside. Source:
    tensorflow/lite/kernels/dynamic_update_slice.cc.
    """
    data, update, start = (
        converter.bb.emit(converter.get_tensor_expr(t)) for t in converter.get_input_tensors(op)
    )

    def replace(data: te.Tensor, update: te.Tensor, start: te.Tensor) -> te.Tensor:
        def find_start(axis: int) -> Any:
            last = data.shape[axis] - update.shape[axis]
            return tirx.max(tirx.min(start[axis].astype("int32"), last), 0)

        def read(*at: Any) -> Any:
            offsets = [index - find_start(axis) for axis, index in enumerate(at)]
            inside = tirx.all(
                *(o >= 0 for o in offsets),
                *(o < n for o, n in zip(offsets, update.shape, strict=True)),
            )
            return tirx.if_then_else(inside, update(*offsets), data(*at))

        return te.compute(data.shape, read, "replaced")

    return converter.bb.emit_te(replace, data, update, start, primfunc_name_hint="replace_slice")


def convert_hashtable_lookup(converter: Any, op: Any) -> relax.Expr:
    """Convert HASHTABLE_LOOKUP, because TVM has no loops for its conversion.

    A missing key has a row of zeros. Source: tensorflow/lite/kernels/hashtable_lookup.cc.
    """
    lookup, keys, rows = read_inputs(converter, op)
    equal = relax.op.equal(relax.op.expand_dims(lookup, 1), relax.op.expand_dims(keys, 0))
    matches = converter.bb.emit(relax.op.astype(converter.bb.normalize(equal), "int32"))
    hits = converter.bb.emit(relax.op.max(matches, 1))
    positions = converter.bb.normalize(relax.op.argmax(matches, 1))
    taken = converter.bb.normalize(relax.op.take(rows, positions, 0))
    rank, dtype = len(static_shape(rows)), str(rows.ty.dtype)
    is_hit = converter.bb.normalize(relax.op.astype(hits, "bool"))
    is_hit = relax.op.reshape(is_hit, [*static_shape(lookup), *[1] * (rank - 1)])
    values = converter.bb.emit(relax.op.where(is_hit, taken, relax.const(0, dtype)))
    return relax.Tuple([values, converter.bb.emit(relax.op.astype(hits, "uint8"))])


def convert_reverse_sequence(converter: Any, op: Any) -> relax.Expr:
    """Convert REVERSE_SEQUENCE, because TVM reverses other elements if a length is short."""
    options = converter._get_builtin_options(op, tflite.ReverseSequenceOptions)
    along, batch = options.SeqDim(), options.BatchDim()
    rank = len(shape_of(converter, converter.get_input_tensors(op)[0]))
    if along == batch or not {along, batch} <= set(range(rank)):
        raise UserError(
            f"its axes are seqDim {along} and batchDim {batch}; expected two axes of 0 to "
            f"{rank - 1}: {RENEW}"
        )
    emit = converter.bb.emit
    data, lengths = (emit(converter.get_tensor_expr(t)) for t in converter.get_input_tensors(op))
    shape = static_shape(data)
    ends = [shape[axis] if axis == batch else 1 for axis in range(len(shape))]
    length = emit(relax.op.reshape(relax.op.astype(lengths, "int64"), ends))
    steps = [shape[axis] if axis == along else 1 for axis in range(len(shape))]
    step = relax.const(np.arange(shape[along]).reshape(steps), "int64")
    last = emit(relax.op.subtract(length, relax.const(1, "int64")))
    mirrored = emit(relax.op.subtract(last, step))
    positions = emit(relax.op.where(emit(relax.op.less(step, length)), mirrored, step))
    indices = emit(relax.op.broadcast_to(positions, shape))
    return relax.op.gather_elements(data, indices, along)
