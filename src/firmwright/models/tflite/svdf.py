"""Converts SVDF, which is a dense layer and a filter over the layer's current and earlier results.

Each filter multiplies the input by feature weights. The state contains the filter's last results,
and the newest result is last. The output of a filter is the sum of these results, weighted by the
time weights. ``rank`` filters form a unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from tvm import relax, te

from firmwright.errors import UserError
from firmwright.models.tflite.hybrid import multiply_rows, require_bytes
from firmwright.models.tflite.integer_products import read_scale, read_zero_point, requantize

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Lengths:
    """The batch, inputs, units, filters per unit (rank), and results per filter (memory)."""

    batch: int
    inputs: int
    units: int
    rank: int
    memory: int

    @property
    def filters(self) -> int:
        return self.units * self.rank


def convert_svdf(converter: Any, op: Any) -> relax.Expr:
    """Convert SVDF, because TVM has no quantized form, uses an old state, and loses the new state.

    Return the result and the next state. Raises UserError if the rank does not divide the number of
    filters.
    """
    source, _, times, *_ = converter.get_input_tensors(op)
    options = converter._get_builtin_options(op, tflite.SVDFOptions)
    batch, inputs = (int(d) for d in converter.get_tensor_shape(source))
    filters, memory = (int(d) for d in converter.get_tensor_shape(times))
    rank = options.Rank()
    if rank < 1 or filters % rank:
        raise UserError(
            f"has {filters} filters; expected a multiple of its rank, {rank}: correct the rank, "
            "then convert the model again"
        )
    lengths = Lengths(batch, inputs, filters // rank, rank, memory)
    result, after = (
        convert_float(converter, op, lengths)
        if source.qnn_params is None
        else convert_integers(converter, op, lengths)
    )
    return relax.Tuple([result, after])


def convert_float(converter: Any, op: Any, lengths: Lengths) -> tuple[relax.Expr, relax.Expr]:
    source, features, times, bias, state = converter.get_input_tensors(op)
    options = converter._get_builtin_options(op, tflite.SVDFOptions)
    weights = relax.const(converter.get_tensor_value(features).T.copy())
    of_times = converter.get_tensor_value(times)
    data = converter.get_tensor_expr(source)
    if features.qnn_params is None:
        newest = relax.op.matmul(data, weights)
    else:  # LiteRT dequantizes the time weights
        require_bytes(converter, features)
        require_bytes(converter, times)
        symmetric = not options.AsymmetricQuantizeInputs()
        newest = multiply_rows(
            converter, data, weights, np.atleast_1d(read_scale(features)), symmetric
        )
        of_times = of_times * read_scale(times)
    after = shift_in(converter, state, newest, lengths)
    total = filter_over_time(converter, after, of_times, lengths)
    if bias.tensor_idx >= 0:
        total = converter.bb.emit(relax.op.add(total, converter.get_tensor_expr(bias)))
    activation = options.FusedActivationFunction()
    return converter.convert_fused_activation_function(total, activation), after


def convert_integers(converter: Any, op: Any, lengths: Lengths) -> tuple[relax.Expr, relax.Expr]:
    """Return the results of LiteRT's integer kernel.

    The result is int8. The state and the time weights are int16. Raises UserError for other types.
    """
    source, features, times, bias, state = converter.get_input_tensors(op)
    (target, *_) = converter.get_output_tensors(op)
    types = [converter.get_tensor_type_str(t.tensor.Type()) for t in (features, times, state)]
    if types != ["int8", "int16", "int16"]:
        raise UserError(
            f"has {types[0]} features, {types[1]} time weights and a state of {types[2]}; LiteRT, "
            "the reference, always computes with int8, int16 and int16: quantize the model again "
            "with these types"
        )
    weights = converter.get_tensor_value(features)
    scales = [read_scale(t) for t in (source, features, state, times, target)]
    given, of_features, of_state, of_times, of_result = scales
    shift = -read_zero_point(source) * weights.astype("int32").sum(1)
    product = relax.op.matmul(
        converter.get_tensor_expr(source), relax.const(weights.T.copy()), out_dtype="int32"
    )
    product = relax.op.add(product, relax.const(shift.astype("int32")))
    newest = requantize(converter, product, given * of_features / of_state, 0, "int16")
    after = shift_in(converter, state, newest, lengths)
    total = filter_over_time(converter, after, converter.get_tensor_value(times), lengths)
    if bias.tensor_idx >= 0:
        total = relax.op.add(total, relax.const(converter.get_tensor_value(bias)))
    factor = of_state * of_times / of_result
    return requantize(converter, total, factor, read_zero_point(target), "int8"), after


def shift_in(converter: Any, state: Any, newest: relax.Expr, lengths: Lengths) -> relax.Expr:
    """Remove the oldest result of each filter from the state, and append the newest result."""
    shape = (lengths.batch, lengths.filters, lengths.memory)
    newest = relax.op.reshape(newest, (*shape[:2], 1))
    if lengths.memory > 1:
        before = relax.op.reshape(converter.get_tensor_expr(state), shape)
        kept = relax.op.strided_slice(before, axes=[2], begin=[1], end=[lengths.memory])
        newest = relax.op.concat([kept, newest], axis=2)
    return converter.bb.emit(
        relax.op.reshape(newest, (lengths.batch, lengths.filters * lengths.memory))
    )


def filter_over_time(
    converter: Any, state: relax.Expr, weights: Array, lengths: Lengths
) -> relax.Expr:
    """Return the weighted sums of the results of all filters of a unit, (batch, units).

    Sums of integers wrap around, as in LiteRT.
    """
    whole = weights.dtype.kind == "i"
    result, wide = ("int32", "uint32") if whole else ("float32", "float32")

    def compute(values: te.Tensor, factors: te.Tensor) -> te.Tensor:
        time = te.reduce_axis((0, lengths.memory), "time")
        filters = te.reduce_axis((0, lengths.rank), "filters")

        def weigh(b: Any, f: Any, t: Any) -> Any:
            value = values[b, f * lengths.memory + t].astype(result)
            return (value * factors[f, t].astype(result)).astype(wide)

        sums = te.compute(
            (lengths.batch, lengths.filters),
            lambda b, f: te.sum(weigh(b, f, time), axis=time),
            "filtered",
        )
        if lengths.rank > 1:
            filtered = sums
            sums = te.compute(
                (lengths.batch, lengths.units),
                lambda b, u: te.sum(filtered[b, u * lengths.rank + filters], axis=filters),
                "summed",
            )
        if not whole:
            return sums
        return te.compute(sums.shape, lambda *at: sums[at].astype(result), "whole")

    return converter.bb.emit_te(
        compute, state, relax.const(weights), primfunc_name_hint="filter_over_time"
    )
