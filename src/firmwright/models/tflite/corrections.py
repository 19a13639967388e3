"""Corrects errors and gaps of TVM 0.27's TFLite converter, with one function per operator.

The arguments of each function are the converter and an operator of the file. The first sentence
describes TVM's error, so that the function can be removed after a fix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tflite
from tvm import relax
from tvm.relax.frontend.tflite import tflite_frontend

from firmwright.errors import UserError
from firmwright.ir.relax import static_shape
from firmwright.models.tflite import (
    activations,
    arithmetic,
    data_movement,
    indices,
    lstm,
    reductions,
)
from firmwright.models.tflite.activations import quantize_like, read_float
from firmwright.models.tflite.custom_calls import convert_custom
from firmwright.models.tflite.integer_products import (
    pad_transposed,
    read_scale,
    read_zero_point,
    requantize,
)
from firmwright.models.tflite.svdf import convert_svdf

Correction = Callable[[Any, Any], relax.Expr]


def convert_average_pool(converter: Any, op: Any) -> relax.Expr:
    """Convert AVERAGE_POOL_2D, because TVM truncates the int32 quotient, but TFLite rounds."""
    (source,) = converter.get_input_tensors(op)
    (target,) = converter.get_output_tensors(op)
    if source.qnn_params is None:
        return converter.convert_pool2d(op, pool_type="average")
    options = converter._get_builtin_options(op, tflite.Pool2DOptions)
    size = [options.FilterHeight(), options.FilterWidth()]
    strides = [options.StrideH(), options.StrideW()]
    before, after = [0, 0], [0, 0]
    if options.Padding() == tflite.Padding.SAME:
        lengths = tflite_frontend.to_int_list(converter.get_tensor_shape(source))[1:3]
        pads = map(tflite_frontend.get_pad_value, lengths, size, strides)
        before, after = (list(p) for p in zip(*pads, strict=True))
    averaged = relax.op.nn.avg_pool2d(
        converter.dequantize(converter.get_expr(source.tensor_idx), source),
        pool_size=size,
        strides=strides,
        padding=[*before, *after],
        count_include_pad=False,
        layout="NHWC",
    )
    scalar = tflite_frontend.get_scalar_from_constant
    return converter.convert_qnn_fused_activation_function(
        expr=converter.quantize(averaged, target),
        fused_activation_fn=options.FusedActivationFunction(),
        scale=scalar(target.qnn_params["scale"]),
        zero_point=scalar(target.qnn_params["zero_point"]),
        dtype=converter.get_tensor_type_str(target.tensor.Type()),
    )


def convert_fully_connected(converter: Any, op: Any) -> relax.Expr:
    """Convert FULLY_CONNECTED, because TVM does not flatten inputs of several axes to rows."""
    source, weights, *_ = converter.get_input_tensors(op)
    given = converter.bb.normalize(converter.get_tensor_expr(source))
    length = int(converter.get_tensor_shape(weights)[1])
    flat = len(given.ty.shape) == 2 and int(given.ty.shape[1]) == length
    rows = given if flat else relax.op.reshape(given, [-1, length])
    keep = converter._get_builtin_options(op, tflite.FullyConnectedOptions).KeepNumDims()
    name = tflite_frontend.get_tensor_name(converter.subgraph, source.tensor_idx)
    converter.exp_tab.set_expr(name, converter.bb.emit(rows), force_override=True)
    result = converter.bb.normalize(converter.convert_fully_connected(op))
    converter.exp_tab.set_expr(name, given, force_override=True)
    units = int(converter.get_tensor_shape(weights)[0])
    shape = [*[int(d) for d in given.ty.shape][:-1], units]
    if not keep or [int(d) for d in result.ty.shape] == shape:
        return result
    return relax.op.reshape(result, shape)


def convert_expand_dims(converter: Any, op: Any) -> relax.Expr:
    """Convert EXPAND_DIMS, because TVM's call has one argument too many."""
    source, _ = converter.get_input_tensors(op)
    (target,) = converter.get_output_tensors(op)
    shape = data_movement.shape_of(converter, target)
    return relax.op.reshape(converter.get_tensor_expr(source), shape)


def convert_dequantize(converter: Any, op: Any) -> relax.Expr:
    """Convert DEQUANTIZE, because TVM accepts only computed tensors."""
    (source,) = converter.get_input_tensors(op)
    data = converter.get_tensor_expr(source)
    if source.tensor.Type() == tflite.TensorType.FLOAT16:
        return relax.op.astype(data, "float32")
    return converter.dequantize(data, source)


def convert_quantize(converter: Any, op: Any) -> relax.Expr:
    """Convert QUANTIZE, because TVM does not support int32 results of int16 inputs.

    The values are rounded as in every change of scale. Source: tensorflow/lite/kernels/quantize.cc
    (Eval).
    """
    (source,), (target,) = converter.get_input_tensors(op), converter.get_output_tensors(op)
    types = [converter.get_tensor_type_str(t.tensor.Type()) for t in (source, target)]
    if (source.qnn_params is None and "float" not in types[0]) or target.qnn_params is None:
        raise UserError(
            f"converts {types[0]} to {types[1]} without scales: quantize the model again"
        )
    if types[1] != "int32":
        return converter.convert_quantize(op)
    if types[0] != "int16":
        raise UserError(
            f"converts {types[0]} to int32; LiteRT, the reference, converts only int16 to int32: "
            "remove the operator, or quantize its input as int16"
        )
    stored = relax.op.astype(converter.get_tensor_expr(source), "int32")
    centered = relax.op.subtract(stored, relax.const(read_zero_point(source), "int32"))
    factor = np.float64(read_scale(source)) / np.float64(read_scale(target))
    return requantize(converter, centered, factor, read_zero_point(target), "int32")


def convert_batch_matmul(converter: Any, op: Any) -> relax.Expr:
    """Convert BATCH_MATMUL, because TVM rejects quantized factors and uses only the left batch.

    The right factor always gets a batch, because a plain matrix becomes FULLY_CONNECTED, which
    TFLite rounds differently.
    """
    left, right = converter.get_input_tensors(op)
    (target,) = converter.get_output_tensors(op)
    options = converter._get_builtin_options(op, tflite.BatchMatMulOptions)
    factors = []
    for tensor, transposed in ((left, options.AdjX()), (right, options.AdjY())):
        data = converter.bb.normalize(converter.get_tensor_expr(tensor))
        if transposed:
            axes = list(range(len(data.ty.shape)))
            data = relax.op.permute_dims(data, [*axes[:-2], axes[-1], axes[-2]])
        factors.append(data if tensor.qnn_params is None else converter.dequantize(data, tensor))
    factors[1] = converter.bb.normalize(factors[1])
    if len(factors[1].ty.shape) == 2:
        factors[1] = relax.op.expand_dims(factors[1], 0)
    product = relax.op.matmul(*factors)
    product = quantize_like(converter, product, target)
    return relax.op.reshape(product, data_movement.shape_of(converter, target))


def convert_squared_difference(converter: Any, op: Any) -> relax.Expr:
    """Convert SQUARED_DIFFERENCE, because TVM writes a product or a power.

    Later steps do not recognize the square in these forms.
    """
    tensors = converter.get_input_tensors(op)
    (target,) = converter.get_output_tensors(op)
    if target.qnn_params is None:
        return relax.op.square(relax.op.subtract(*map(converter.get_tensor_expr, tensors)))
    real = [converter.dequantize(converter.get_tensor_expr(t), t) for t in tensors]
    return converter.quantize(relax.op.square(relax.op.subtract(*real)), target)


def convert_transpose_conv(converter: Any, op: Any) -> relax.Expr:
    """Convert TRANSPOSE_CONV, because TVM omits the activation and pads for the largest result.

    The file contains the shape of the result. Window elements outside this shape are removed.
    """
    tensors = converter.get_input_tensors(op)
    shape_tensor, weights, source = tensors[:3]
    (target,) = converter.get_output_tensors(op)
    options = converter._get_builtin_options(op, tflite.TransposeConvOptions)
    shape = [int(d) for d in converter.get_tensor_value(shape_tensor)]
    window, lengths = (data_movement.shape_of(converter, t)[1:3] for t in (weights, source))
    data = relax.op.permute_dims(converter.get_tensor_expr(source), [0, 3, 1, 2])
    kernel = relax.op.permute_dims(converter.get_tensor_expr(weights), [3, 0, 1, 2])
    if source.qnn_params is not None:
        params = weights.qnn_params
        kernel = relax.op.dequantize(kernel, params["scale"], params["zero_point"], 1)
        data = converter.dequantize(data, source)
    data, kernel = (converter.bb.normalize(e) for e in (data, kernel))
    result = relax.op.nn.conv2d_transpose(
        data, kernel, **pad_transposed(options, shape, lengths, window)
    )
    if len(tensors) == 4 and tensors[3].tensor_idx >= 0:
        bias = converter.bb.normalize(read_float(converter, tensors[3]))
        result = relax.op.add(result, relax.op.reshape(bias, [-1, 1, 1]))
    result = converter.convert_fused_activation_function(result, options.FusedActivationFunction())
    return relax.op.permute_dims(quantize_like(converter, result, target), [0, 2, 3, 1])


def convert_transpose_conv_3d(converter: Any, op: Any) -> relax.Expr:
    """Convert CONV_3D_TRANSPOSE, because TVM ignores the shape and cannot lower the layout."""
    tensors = converter.get_input_tensors(op)
    shape_tensor, weights, source = tensors[:3]
    options = converter._get_builtin_options(op, tflite.Conv3DOptions)
    factors = (options.DilationDFactor(), options.DilationHFactor(), options.DilationWFactor())
    if factors != (1, 1, 1):
        raise UserError(
            f"has the dilation factors {list(factors)}; firmwright supports only 1: convert the "
            "model again without dilation"
        )
    shape = [int(d) for d in converter.get_tensor_value(shape_tensor)]
    data, kernel = (
        converter.bb.normalize(relax.op.permute_dims(converter.get_tensor_expr(tensor), axes))
        for tensor, axes in ((source, [0, 4, 1, 2, 3]), (weights, [4, 3, 0, 1, 2]))
    )
    lengths, window = data_movement.shape_of(converter, source)[1:4], static_shape(kernel)[2:]
    paddings = pad_transposed(options, shape, lengths, list(window))
    result = relax.op.nn.conv3d_transpose(data, kernel, **paddings)
    if len(tensors) == 4 and tensors[3].tensor_idx >= 0:
        bias = converter.bb.normalize(converter.get_tensor_expr(tensors[3]))
        result = relax.op.add(result, relax.op.reshape(bias, [-1, 1, 1, 1]))
    result = converter.convert_fused_activation_function(result, options.FusedActivationFunction())
    return relax.op.permute_dims(converter.bb.normalize(result), [0, 2, 3, 4, 1])


def on_bytes(converter: Any, op: Any, find: Callable[..., relax.Expr]) -> Callable[..., relax.Expr]:
    """Return a function that converts truth values to bytes first; else return ``find``."""
    source = converter.get_input_tensors(op)[0]
    if source.tensor.Type() != tflite.TensorType.BOOL:
        return find
    return lambda data, *given, **named: find(relax.op.astype(data, "uint8"), *given, **named)


def make_reduction(find: Callable[..., relax.Expr]) -> Correction:
    def convert(converter: Any, op: Any) -> relax.Expr:
        """Convert REDUCE_MIN or REDUCE_MAX; TVM compares no truth values."""
        (target,) = converter.get_output_tensors(op)
        result = converter._convert_reduce(on_bytes(converter, op, find), op)
        is_truth = target.tensor.Type() == tflite.TensorType.BOOL
        return relax.op.astype(converter.bb.normalize(result), "bool") if is_truth else result

    return convert


def make_arg_min_max(find: Callable[..., relax.Expr]) -> Correction:
    def convert(converter: Any, op: Any) -> relax.Expr:
        """Convert ARG_MIN or ARG_MAX; TVM returns an int64 index, TFLite the file's type.

        TVM compares no truth values.
        """
        (target,) = converter.get_output_tensors(op)
        index = converter._convert_arg_min_max(op, relax_op=on_bytes(converter, op, find))
        return relax.op.astype(index, converter.get_tensor_type_str(target.tensor.Type()))

    return convert


def make_min_max(find: Callable[..., relax.Expr]) -> Correction:
    def convert(converter: Any, op: Any) -> relax.Expr:
        """Convert MINIMUM or MAXIMUM, because TVM dequantizes tensors with equal parameters.

        With equal parameters, the order of the integers is the order of the real numbers. The
        converter rejects other parameters.
        """
        return find(*(converter.get_tensor_expr(t) for t in converter.get_input_tensors(op)))

    return convert


def convert_resize_bilinear(converter: Any, op: Any) -> relax.Expr:
    """Convert RESIZE_BILINEAR, because TVM divides by zero for some results.

    Raises UserError for these results, which have aligned corners and one row or column.
    """
    options = converter._get_builtin_options(op, tflite.ResizeBilinearOptions)
    if options.AlignCorners():
        _, size = converter.get_input_tensors(op)
        if 1 in converter.get_tensor_value(size):
            raise UserError(
                "has align_corners for a result of one row or column, which TVM cannot compute: "
                "convert the model with align_corners=False"
            )
    return converter.convert_resize_bilinear(op)


CORRECTIONS: dict[str, Correction] = {
    "ARG_MAX": make_arg_min_max(relax.op.argmax),
    "ARG_MIN": make_arg_min_max(relax.op.argmin),
    "AVERAGE_POOL_2D": convert_average_pool,
    "BATCH_MATMUL": convert_batch_matmul,
    "BIDIRECTIONAL_SEQUENCE_LSTM": lstm.convert_bidirectional,
    "BATCH_TO_SPACE_ND": data_movement.convert_batch_to_space,
    "BUCKETIZE": indices.convert_bucketize,
    "BITCAST": data_movement.convert_bitcast,
    "CAST": data_movement.convert_cast,
    "CONV_3D_TRANSPOSE": convert_transpose_conv_3d,
    "CUSTOM": convert_custom,
    "CUMSUM": reductions.convert_cumulative_sum,
    "DEQUANTIZE": convert_dequantize,
    "DYNAMIC_UPDATE_SLICE": indices.convert_dynamic_update_slice,
    "ELU": activations.convert_elu,
    "EMBEDDING_LOOKUP": indices.convert_embedding_lookup,
    "EXP": activations.convert_exp,
    "EXPAND_DIMS": convert_expand_dims,
    "FULLY_CONNECTED": convert_fully_connected,
    "GATHER": indices.convert_gather,
    "GATHER_ND": indices.convert_gather_nd,
    "STABLEHLO_GATHER": indices.convert_stablehlo_gather,
    "FAKE_QUANT": arithmetic.convert_fake_quant,
    "FILL": data_movement.convert_fill,
    "FLOOR_DIV": arithmetic.convert_floor_division,
    "FLOOR_MOD": arithmetic.convert_floor_mod,
    "GELU": activations.convert_gelu,
    "HASHTABLE_LOOKUP": indices.convert_hashtable_lookup,
    "L2_NORMALIZATION": reductions.convert_l2_normalization,
    "LOCAL_RESPONSE_NORMALIZATION": reductions.convert_local_response_normalization,
    "LSTM": lstm.convert_step,
    "MATRIX_DIAG": data_movement.convert_matrix_diag,
    "MATRIX_SET_DIAG": data_movement.convert_matrix_set_diag,
    "MAXIMUM": make_min_max(relax.op.maximum),
    "MINIMUM": make_min_max(relax.op.minimum),
    "MIRROR_PAD": data_movement.convert_mirror_pad,
    "NEG": arithmetic.convert_negative,
    "ONE_HOT": indices.convert_one_hot,
    "POW": arithmetic.convert_power,
    "PRELU": activations.convert_prelu,
    "QUANTIZE": convert_quantize,
    "RANGE": data_movement.convert_range,
    "REDUCE_MAX": make_reduction(relax.op.max),
    "REDUCE_MIN": make_reduction(relax.op.min),
    "REDUCE_PROD": reductions.convert_reduce_prod,
    "RESIZE_BILINEAR": convert_resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": data_movement.convert_resize_nearest_neighbor,
    "REVERSE_SEQUENCE": indices.convert_reverse_sequence,
    "RIGHT_SHIFT": arithmetic.convert_right_shift,
    "SCATTER_ND": indices.convert_scatter_nd,
    "SELECT": data_movement.convert_select,
    "SOFTMAX": activations.convert_softmax,
    "SPACE_TO_BATCH_ND": data_movement.convert_space_to_batch,
    "SPARSE_TO_DENSE": indices.convert_sparse_to_dense,
    "SQUARED_DIFFERENCE": convert_squared_difference,
    "SVDF": convert_svdf,
    "STABLEHLO_MULTIPLY": arithmetic.convert_stablehlo_product,
    "STRIDED_SLICE": data_movement.convert_strided_slice,
    "TRANSPOSE_CONV": convert_transpose_conv,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm.convert_lstm,
    "UNPACK": data_movement.convert_unpack,
    **dict.fromkeys(arithmetic.SEGMENTS, arithmetic.convert_segments),
    "ZEROS_LIKE": data_movement.convert_zeros_like,
}

DATA_MOVEMENT = frozenset(
    "BROADCAST_TO CAST DEPTH_TO_SPACE DILATE GATHER GATHER_ND PACK PAD PADV2 RANK REVERSE_V2 "
    "SELECT_V2 SHAPE SLICE SPACE_TO_DEPTH SPLIT SPLIT_V SQUEEZE STABLEHLO_MAXIMUM "
    "STABLEHLO_MINIMUM STABLEHLO_PAD TILE TOPK_V2 TRANSPOSE".split()
)
"""Operators that only move elements. TVM converts only float tensors."""

FLOAT_ONLY = frozenset({"SQUARE"})
"""Operators with only a float32 form in TVM; they are dequantized before and quantized after."""
