"""Converts tensors and functions to the device layout, with Relax functions.

:mod:`firmwright.devices.soma_dory.device_layout` defines the layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import tvm
from tvm import relax

from firmwright.devices.soma_dory.device_layout import ROW, WORD, device_shape, device_storage
from firmwright.ir.operators import ELEMENTWISE, RESHAPES, relax_names
from firmwright.ir.relax import (
    Constant,
    bind,
    constant_array,
    dtype_of,
    list_bindings,
    operator_name,
    static_shape,
)
from firmwright.ir.tensors import ELEMENT_BYTES, Storage


@dataclass(frozen=True)
class DeviceLayout:
    """Implements :class:`firmwright.partition.layouts.Layout` for DIANA."""

    allows_transforms: bool = True

    def storage(self, shape: tuple[int, ...]) -> Storage:
        return device_storage(shape)

    def convert_function(self, function: relax.Function) -> relax.Function | None:
        """Return the function with equal operators on tensors of the padded shapes, or None.

        If an operator computes a byte from bytes at the same position, the order of bytes is
        irrelevant. The operator also computes the padding. The accelerator reads the padding, so
        the padding must stay 0.
        """
        results = list(function.body.body.fields)
        if not function.params or not all(
            is_rows_of_bytes(v) for v in (*function.params, *results)
        ):
            return None
        new = {p: relax.Var(p.name, pad_type(p)) for p in function.params}
        bindings: list[relax.VarBinding] = []
        for binding in list_bindings(function):
            value = convert_operator(binding.value, new)
            if value is None:
                return None
            new[binding.var] = bind(bindings, value, str(binding.var.name), type(binding.var))
        return make_function([new[p] for p in function.params], bindings, [new[r] for r in results])

    def make_transform(self, shape: tuple[int, ...], dtype: str, inward: bool) -> relax.Function:
        """Return the function that converts a tensor to or, if not ``inward``, from device layout.

        The conversion to device layout pads the last axis and reverses the bytes of each word. The
        other conversion reverses the bytes and removes the padding.
        """
        padded = device_shape(shape)
        tensor = relax.Var("tensor", relax.TensorType(shape if inward else padded, dtype))
        bindings: list[relax.VarBinding] = []

        def emit(call: relax.Expr, kind: type[relax.Var] = relax.DataflowVar) -> relax.Var:
            return bind(bindings, call, "lv", kind)

        rows = tensor
        if inward:
            widths = [0] * (2 * len(shape) - 1) + [padded[-1] - shape[-1]]
            rows = emit(relax.op.nn.pad(tensor, widths))
        words = emit(relax.op.reshape(rows, (prod(padded) // WORD, WORD)))
        reversed_words = emit(relax.op.flip(words, 1))
        result = emit(relax.op.reshape(reversed_words, padded), relax.Var)
        if not inward:
            last = len(shape) - 1
            result = emit(relax.op.strided_slice(result, [last], [0], [shape[-1]]), relax.Var)
        return make_function([tensor], bindings, [result])


def make_function(
    parameters: list[relax.Var], bindings: list[relax.VarBinding], results: list[relax.Var]
) -> relax.Function:
    """Return a function whose result is a tuple, like the functions of regions."""
    returned = relax.Tuple(results)
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], returned)
    kind = relax.TupleType([r.ty for r in results])
    return relax.Function(parameters, body, kind)


def is_rows_of_bytes(variable: relax.Var) -> bool:
    return ELEMENT_BYTES[dtype_of(variable)] == 1 and len(static_shape(variable)) > 0


def pad_type(variable: relax.Var) -> relax.TensorType:
    return relax.TensorType(device_shape(static_shape(variable)), dtype_of(variable))


def convert_operator(value: relax.Expr, new: Mapping[relax.Var, relax.Var]) -> relax.Expr | None:
    """Return an operator on padded rows, or None if a byte of its result would move.

    An elementwise operator on tensors of equal shape and numbers moves no bytes. If the operator
    computes a nonzero number from zeros, the result is None, because the padding would not stay 0.
    A concatenation along any axis except the last joins whole rows. A reshape of whole rows moves
    no bytes.
    """
    name = operator_name(value)
    shape = static_shape(value) if name else ()
    if name in ELEMENTWISE:
        if not keeps_zeros(value):
            return None
        arguments = [convert_argument(a, shape, new) for a in value.args]
        return (
            None
            if any(a is None for a in arguments)
            else tvm.ir.Call(value.op, arguments, value.attrs)
        )
    if name == "relax.concat" and int(value.attrs.axis) % len(shape) != len(shape) - 1:
        fields = list(value.args[0].fields)
        if all(f in new for f in fields):
            return relax.op.concat([new[f] for f in fields], int(value.attrs.axis))
    if name in RESHAPES and value.args[0] in new and shape:
        before = static_shape(value.args[0])
        if before[-1:] == shape[-1:] or before[-1] % ROW == shape[-1] % ROW == 0:
            return relax.op.reshape(new[value.args[0]], device_shape(shape))
    return None


KEEPS_ZEROS = relax_names(
    "abs astype ceil floor left_shift multiply negative nn.leakyrelu nn.relu right_shift "
    "round sign sqrt square"
)
"""Operators that compute zeros from zeros, with any constants."""


def keeps_zeros(value: relax.Expr) -> bool:
    name = operator_name(value)
    if name == "relax.clip":
        low, high = (float(limit.value) for limit in value.args[1:])
        return low <= 0 <= high
    constants = [constant_array(a) for a in value.args if isinstance(a, Constant)]
    if name in ("relax.quantize", "relax.dequantize"):
        return len(constants) == 2 and not constants[1].any()
    if name in ("relax.add", "relax.subtract"):
        return not any(constant.any() for constant in constants)
    if name == "relax.maximum":
        return not any((constant.astype(float) > 0).any() for constant in constants)
    if name == "relax.minimum":
        return not any((constant.astype(float) < 0).any() for constant in constants)
    return name in KEEPS_ZEROS


def convert_argument(
    argument: relax.Expr, shape: tuple[int, ...], new: Mapping[relax.Var, relax.Var]
) -> relax.Expr | None:
    if isinstance(argument, relax.Var):
        return new[argument] if static_shape(argument) == shape else None
    if isinstance(argument, Constant):
        return argument if constant_array(argument).size == 1 else None
    return argument
