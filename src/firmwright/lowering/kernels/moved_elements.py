"""Quantizes tensors before operators move their elements.

The results are exact, because rounding keeps the order of values: quantize(concat(a, b)) =
concat(quantize(a), quantize(b)) for any parameters of a and b. Quantization commutes with every
operator of this module, because each result element is an input element.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from firmwright.ir.operators import VALUE_PRESERVING, relax_names
from firmwright.ir.quant_params import find_integer_limits
from firmwright.ir.relax import dtype_of, operator_name
from firmwright.lowering.kernels.builder import RegionBuilder
from firmwright.lowering.kernels.quantized_tensor import (
    OutputQuantParams,
    QuantizedTensor,
    Value,
    has_quant_params,
)
from firmwright.lowering.kernels.rounding import Rounding
from firmwright.lowering.kernels.tables import constant_values, to_storage_array

PARTS = relax_names("strided_slice take")
"""Movements that usually omit elements."""


def quantize_before_moving(
    builder: RegionBuilder, argument: relax.Expr, params: OutputQuantParams, rounding: Rounding
) -> relax.Expr | None:
    """Return the integers of a moved value, computed from the integers of the inputs.

    The result is None if the operator moves only a part of a tensor that is not quantized yet. In
    this case, it is cheaper to round only that part.
    """
    call = builder.definitions.get(argument)
    if call is None or not is_data_movement(call):
        return None
    if operator_name(call) in PARTS and not is_exact(builder.value(call.args[0]), params):
        return None
    arguments = [quantize_argument(builder, a, params, rounding) for a in call.args]
    if operator_name(call) == "relax.nn.pad":
        fill = to_storage_array(
            rounding.nearest(np.float32(call.attrs.pad_value) / params.scale), params
        )
        width = [int(n) for n in call.attrs.pad_width]
        mode = str(call.attrs.pad_mode)
        return builder.emit(relax.op.nn.pad(arguments[0], width, mode, int(fill)))
    return builder.emit_like(call, *arguments)


def is_data_movement(call: tvm.ir.Call) -> bool:
    name = operator_name(call)
    if name == "relax.image.resize2d":
        return str(call.attrs.method) == "nearest_neighbor"
    return name in VALUE_PRESERVING and dtype_of(call) == "float32"


def quantize_argument(
    builder: RegionBuilder, argument: relax.Expr, params: OutputQuantParams, rounding: Rounding
) -> relax.Expr:
    """Quantize a real argument, and return an index, a shape or a condition unchanged."""
    if isinstance(argument, relax.Tuple):
        return relax.Tuple(
            [quantize_argument(builder, f, params, rounding) for f in argument.fields]
        )
    if not isinstance(argument.ty, relax.TensorType) or dtype_of(argument) != "float32":
        return builder.materialize_argument(argument)
    value = builder.value(argument)
    constant = constant_values(value)
    if constant is not None:
        stored = to_storage_array(rounding.nearest(constant / params.scale), params)
        return relax.const(stored, params.dtype)
    if isinstance(value, QuantizedTensor) and is_exact(value, params):
        return value.data
    return rounding.quantize(builder, argument, params)


def is_exact(value: Value, params: OutputQuantParams) -> bool:
    """Return whether a value already has the output's parameters and needs no clamp."""
    limits = find_integer_limits(params.dtype)
    whole_range = (params.low, params.high) == limits
    return isinstance(value, QuantizedTensor) and has_quant_params(value, params) and whole_range
