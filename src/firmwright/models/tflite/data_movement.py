"""Corrects TFLite operators that move, make or select elements, or change their type.

Integers that only move keep their stored form. The first sentence of each docstring describes TVM's
error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from tvm import relax, te, tirx

from firmwright.errors import UserError
from firmwright.ir.relax import static_shape
from firmwright.models.tflite.checks import RENEW

Indices = npt.NDArray[np.int64]


def has_same_qnn_params(converter: Any, tensors: Sequence[Any]) -> bool:
    first, *others = tensors
    return all(t.qnn_params and converter.has_same_qnn_params(first, t) for t in others)


def shape_of(converter: Any, tensor: Any) -> list[int]:
    return [int(d) for d in converter.get_tensor_shape(tensor)]


def take_elements(data: relax.Expr, axis: int, positions: Indices) -> relax.Expr:
    return relax.op.take(data, relax.const(positions.astype("int32"), "int32"), axis, mode="fast")


def convert_resize_nearest_neighbor(converter: Any, op: Any) -> relax.Expr:
    """Convert RESIZE_NEAREST_NEIGHBOR, because TVM rounds differently.

    The roundings differ for half-pixel centers and aligned corners. The importer computes the
    source row and column of each element in float32. Source:
    tensorflow/lite/kernels/internal/reference/resize_nearest_neighbor.h.
    """
    source, size = converter.get_input_tensors(op)
    options = converter._get_builtin_options(op, tflite.ResizeNearestNeighborOptions)
    data = converter.get_tensor_expr(source)
    for axis, extent in zip((1, 2), converter.get_tensor_value(size), strict=True):
        length = shape_of(converter, source)[axis]
        flags = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
        positions = nearest_indices(length, int(extent), *flags)
        data = converter.bb.normalize(take_elements(data, axis, positions))
    return data


def nearest_indices(
    length: int, extent: int, align_corners: bool, half_pixel_centers: bool
) -> Indices:
    """Return the ``extent`` source indices along an axis of ``length`` elements."""
    inner = int(align_corners and extent > 1)
    scale = np.float32(length - inner) / np.float32(extent - inner)
    offset = np.float32(0.5 if half_pixel_centers else 0)
    real = (np.arange(extent, dtype="float32") + offset) * scale
    if align_corners:
        positions = np.trunc(real + np.copysign(np.float32(0.5), real))
    else:
        positions = np.floor(real)
    inside: Indices = np.clip(positions.astype("int64"), 0, length - 1)
    return inside


def convert_mirror_pad(converter: Any, op: Any) -> relax.Expr:
    """Convert MIRROR_PAD, because TVM does not support the symmetric mode."""
    source, paddings = converter.get_input_tensors(op)
    options = converter._get_builtin_options(op, tflite.MirrorPadOptions)
    mode = "reflect" if options.Mode() == 0 else "symmetric"
    data = converter.get_tensor_expr(source)
    for axis, (before, after) in enumerate(converter.get_tensor_value(paddings).tolist()):
        if before or after:
            positions = np.arange(shape_of(converter, source)[axis])
            padded: Indices = np.pad(positions, (before, after), mode=mode)  # type: ignore[call-overload]
            data = converter.bb.normalize(take_elements(data, axis, padded))
    return data


def convert_strided_slice(converter: Any, op: Any) -> relax.Expr:
    """Convert STRIDED_SLICE, because TVM misreads some bounds of negative strides.

    These bounds are before the first element. Source of the masks:
    tensorflow/lite/kernels/internal/strided_slice_logic.h.
    """
    source, *bounds = converter.get_input_tensors(op)
    (target,) = converter.get_output_tensors(op)
    options = converter._get_builtin_options(op, tflite.StridedSliceOptions)
    shape = shape_of(converter, source)
    lengths, rank = iter(enumerate(shape)), len(shape)
    begins, ends, strides = (converter.get_tensor_value(b).tolist() for b in bounds)

    def has_bit(mask: int, position: int) -> bool:
        return bool(mask >> position & 1)

    taken: list[tuple[int, int, int, int]] = []
    added = sum(has_bit(options.NewAxisMask(), p) for p in range(len(begins)))
    for position in range(len(begins)):
        if has_bit(options.EllipsisMask(), position):
            for _ in range(rank - (len(begins) - 1 - added)):
                next(lengths)
        elif not has_bit(options.NewAxisMask(), position):
            axis, length = next(lengths)
            begin = None if has_bit(options.BeginMask(), position) else begins[position]
            end = None if has_bit(options.EndMask(), position) else ends[position]
            stride = strides[position]
            if has_bit(options.ShrinkAxisMask(), position):
                begin, stride = begins[position] % length, 1
                end = begin + 1
            taken.append((axis, *slice(begin, end, stride).indices(length)))
    data = converter.get_tensor_expr(source)
    for axis, begin, end, stride in taken:
        positions = np.arange(begin, end, stride)
        if stride < 0:
            data = converter.bb.normalize(take_elements(data, axis, positions))
    forward = [t for t in taken if t[3] > 0]
    if forward:
        data = relax.op.strided_slice(data, *map(list, zip(*forward, strict=True)))
    return relax.op.reshape(data, shape_of(converter, target))


def convert_unpack(converter: Any, op: Any) -> relax.Expr:
    """Convert UNPACK to one slice per part, because the fields of TVM's split are wrong.

    TVM's split uses the field names of another tuple type.
    """
    (source,) = converter.get_input_tensors(op)
    options = converter._get_builtin_options(op, tflite.UnpackOptions)
    data = converter.get_tensor_expr(source)
    axis = options.Axis() % len(shape_of(converter, source))
    parts = [
        relax.op.squeeze(relax.op.strided_slice(data, [axis], [i], [i + 1]), [axis])
        for i in range(options.Num())
    ]
    return relax.Tuple([converter.bb.emit(p) for p in parts]) if len(parts) > 1 else parts[0]


def convert_space_to_batch(converter: Any, op: Any) -> relax.Expr:
    """Convert SPACE_TO_BATCH_ND to pad, reshape and transpose. TVM calls a runtime function."""
    source, block_tensor, paddings = converter.get_input_tensors(op)
    block = converter.get_tensor_value(block_tensor).tolist()
    lengths = shape_of(converter, source)
    pads = [[0, 0], *converter.get_tensor_value(paddings).tolist()]
    pads += [[0, 0]] * (len(lengths) - len(pads))
    data = converter.get_tensor_expr(source)
    zero = 0 if source.qnn_params is None else int(source.qnn_params["zero_point"].value.numpy())
    if any(p for pair in pads for p in pair):
        data = relax.op.nn.pad(data, [p for pair in pads for p in pair], pad_value=zero)
    padded = [n + sum(p) for n, p in zip(lengths, pads, strict=True)]
    split = [padded[0]]
    for n, b in zip(padded[1:], block, strict=False):
        split += [n // b, b]
    rest = padded[1 + len(block) :]
    data = relax.op.reshape(data, [*split, *rest])
    last = 1 + 2 * len(block)
    axes = [*range(2, last, 2), 0, *range(1, last, 2), *range(last, last + len(rest))]
    data = relax.op.permute_dims(data, axes)
    (target,) = converter.get_output_tensors(op)
    return relax.op.reshape(data, shape_of(converter, target))


def convert_batch_to_space(converter: Any, op: Any) -> relax.Expr:
    """Convert BATCH_TO_SPACE_ND to reshape, transpose and slice. TVM calls a runtime function."""
    source, block_tensor, crops_tensor = converter.get_input_tensors(op)
    block = converter.get_tensor_value(block_tensor).tolist()
    crops = converter.get_tensor_value(crops_tensor).tolist()
    lengths, count = shape_of(converter, source), len(block)
    batch = lengths[0] // int(np.prod(block))
    rest = lengths[1 + count :]
    data = relax.op.reshape(
        converter.get_tensor_expr(source), [*block, batch, *lengths[1 : 1 + count], *rest]
    )
    order = [count, *(axis for i in range(count) for axis in (count + 1 + i, i))]
    order += [2 * count + 1 + i for i in range(len(rest))]
    spread = [n * b for n, b in zip(lengths[1 : 1 + count], block, strict=True)]
    data = relax.op.reshape(relax.op.permute_dims(data, order), [batch, *spread, *rest])
    if not any(c for pair in crops for c in pair):
        return data
    ends = [n - after for n, (_, after) in zip(spread, crops, strict=True)]
    begins = [before for before, _ in crops]
    return relax.op.strided_slice(data, list(range(1, 1 + count)), begins, ends)


def read_inputs(converter: Any, op: Any) -> list[relax.Expr]:
    inputs = [converter.get_tensor_expr(tensor) for tensor in converter.get_input_tensors(op)]
    return [converter.bb.normalize(value) for value in inputs]


def convert_matrix_diag(converter: Any, op: Any) -> relax.Expr:
    """Convert MATRIX_DIAG, because TVM calls a function of its runtime."""
    (diagonal,) = read_inputs(converter, op)
    shape, dtype = static_shape(diagonal), str(diagonal.ty.dtype)
    matrix = relax.op.zeros([*shape, shape[-1]], dtype)
    return replace_diagonals(matrix, diagonal, shape[-1], shape[-1])


def convert_matrix_set_diag(converter: Any, op: Any) -> relax.Expr:
    """Convert MATRIX_SET_DIAG, because TVM calls a function of its runtime."""
    matrix, diagonal = read_inputs(converter, op)
    rows, columns = static_shape(matrix)[-2:]
    return replace_diagonals(matrix, diagonal, rows, columns)


def replace_diagonals(
    matrix: relax.Expr, diagonal: relax.Expr, rows: int, columns: int
) -> relax.Expr:
    """Replace the diagonals (..., smaller length) of matrices (..., rows, columns)."""
    positions = np.minimum(np.arange(rows), min(rows, columns) - 1).astype("int64")
    per_row = relax.op.take(diagonal, relax.const(positions), axis=-1)
    is_diagonal = relax.const(np.eye(rows, columns, dtype=bool))
    return relax.op.where(is_diagonal, relax.op.expand_dims(per_row, -1), matrix)


def convert_fill(converter: Any, op: Any) -> relax.Expr:
    """Convert FILL, because TVM rejects values that are known at run time."""
    sizes, value = converter.get_input_tensors(op)
    shape = [int(length) for length in converter.get_tensor_value(sizes).reshape(-1)]
    return relax.op.broadcast_to(converter.get_tensor_expr(value), shape)


def convert_range(converter: Any, op: Any) -> relax.Expr:
    """Convert RANGE, because TVM counts the elements of falling ranges incorrectly.

    Floats are sums of steps, as in tensorflow/lite/kernels/range.cc.
    """
    start, limit, step = (
        converter.get_tensor_value(t).reshape(()) for t in converter.get_input_tensors(op)
    )
    if not step:
        raise UserError(f"its step is 0; it must be a number other than 0: {RENEW}")
    count = max(0, int(np.ceil((float(limit) - float(start)) / float(step))))
    values = np.full(count, step, step.dtype)
    if count:
        values[0] = start
    return relax.const(np.cumsum(values, dtype=step.dtype))


def convert_zeros_like(converter: Any, op: Any) -> relax.Expr:
    """Convert ZEROS_LIKE, because TVM has no loops for its operator."""
    (target,) = converter.get_output_tensors(op)
    return relax.op.zeros(
        shape_of(converter, target), converter.get_tensor_type_str(target.tensor.Type())
    )


def convert_select(converter: Any, op: Any) -> relax.Expr:
    """Convert SELECT, because TVM aligns a vector of conditions with the last axis."""
    condition, first, other = read_inputs(converter, op)
    rank, lengths = len(static_shape(first)), static_shape(condition)
    if len(lengths) == 1:
        condition = relax.op.reshape(condition, [*lengths, *[1] * (rank - 1)])
    return relax.op.where(condition, first, other)


def convert_cast(converter: Any, op: Any) -> relax.Expr:
    """Convert CAST, because TVM reads the options' type, TFLite only the type of the result.

    LiteRT limits floats to the range of an integer type; NaN becomes the largest integer. Source:
    tensorflow/lite/kernels/cast.cc.
    """
    (source,), (target,) = converter.get_input_tensors(op), converter.get_output_tensors(op)
    data = converter.bb.normalize(converter.get_tensor_expr(source))
    dtype, given = converter.get_tensor_type_str(target.tensor.Type()), str(data.ty.dtype)
    if "int" not in dtype or "float" not in given:
        return relax.op.astype(data, dtype)
    limits = np.iinfo(dtype)
    low, beyond = (relax.const(float(n), given) for n in (limits.min, limits.max + 1))
    whole = relax.op.astype(relax.op.maximum(data, low), dtype)
    return relax.op.where(relax.op.less(data, beyond), whole, relax.const(limits.max, dtype))


def convert_bitcast(converter: Any, op: Any) -> relax.Expr:
    """Convert BITCAST, because TVM has no loops for its operator."""
    (source,), (target,) = converter.get_input_tensors(op), converter.get_output_tensors(op)
    data = converter.bb.emit(converter.get_tensor_expr(source))
    before, after = str(data.ty.dtype), converter.get_tensor_type_str(target.tensor.Type())
    functions = {
        ("float32", "int32"): "float32_bits",
        ("int32", "float32"): "float32_of_bits",
    }
    if before == after:
        return data
    if (before, after) not in functions:
        raise UserError(
            f"reads {before} as {after}; firmwright reads float32 as int32 and int32 as float32: "
            "replace the operator, or end the model before the operator"
        )

    def compute(tensor: te.Tensor) -> te.Tensor:
        function = functions[before, after]
        kind = "uint32" if after == "int32" else after

        def element(*at: Any) -> Any:
            value = tensor(*at)
            value = value.astype("uint32") if before == "int32" else value
            return tirx.call_pure_extern(kind, function, value).astype(after)

        return te.compute(tensor.shape, element, "cast")

    return converter.bb.emit_te(compute, data, primfunc_name_hint="cast")
