"""Converts custom operators to calls of their C functions."""

from __future__ import annotations

import re
from typing import Any

from tvm import relax, te

from firmwright.ir.library_call import call_library, call_operator
from firmwright.ir.relax import dtype_of, static_shape
from firmwright.models.tflite.checks import decode_text, to_ints
from firmwright.models.tflite.custom_calls import list_known_operators
from firmwright.models.tflite.custom_operators import DTYPES, TensorKind, read_options


def convert_custom(converter: Any, op: Any) -> relax.Expr:
    """Return the results of a custom operator's C function, and the next values of its states.

    The C function receives the integers of quantized tensors, unless ``in_float`` is set.
    """
    name = read_custom_code(converter.model, op)
    definition, options = list_known_operators()[name], read_options(op.CustomOptionsAsNumpy())
    given = [t for t in converter.get_input_tensors(op) if t.tensor_idx >= 0]
    inputs = [get_input(converter, tensor, definition.in_float) for tensor in given]
    kinds = [TensorKind(tuple(static_shape(each)), dtype_of(each)) for each in inputs]
    results = [
        TensorKind(tuple(to_ints(t.tensor.ShapeAsNumpy())), DTYPES[t.tensor.Type()])
        for t in converter.get_output_tensors(op)
    ]
    if definition.shapes is not None:
        stated = list(definition.shapes(kinds, options))
        results = [*stated, *results[len(stated) :]]
    function = definition.function.format(dtype=kinds[0].dtype)

    def call(*tensors: te.Tensor) -> Any:
        if definition.numbers is None:
            found = call_library(function, results, tensors)
        else:
            numbers = definition.numbers(kinds, options)
            found = call_operator(function, [*results, *scratch], tensors, numbers)
        return found if len(found) > 1 else found[0]

    scratch = definition.scratch(kinds, options)

    constants = [relax.const(array) for array in definition.constants(kinds, options)]
    hint = re.sub(r"\W", "_", name)
    found = converter.bb.call_te(call, *inputs, *constants, primfunc_name_hint=hint)
    if not scratch:
        return found
    whole = converter.bb.emit(found)
    return relax.Tuple([relax.TupleGetItem(whole, i) for i in range(len(results))])


def get_input(converter: Any, tensor: Any, in_float: bool) -> relax.Expr:
    stored = converter.get_tensor_expr(tensor)
    if not in_float or tensor.qnn_params is None:
        return stored
    return converter.bb.emit(converter.dequantize(stored, tensor))


def read_custom_code(model: Any, operator: Any) -> str:
    return decode_text(model.OperatorCodes(operator.OpcodeIndex()).CustomCode())
