"""Builds a region's new function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt
import tvm
from tvm import relax, te

from firmwright.ir.relax import dtype_of, list_called, operator_name
from firmwright.lowering.kernels.quantized_tensor import QuantizedTensor, Value


class RegionBuilder:
    """Emits the new function of a region and stores the values of its variables.

    ``values`` maps each variable of the old function to a value of the new function.
    ``definitions`` maps each old variable to the value that the variable is bound to.
    """

    def __init__(self, module: tvm.IRModule, function: relax.Function) -> None:
        called = {v: module[v] for v in list_called(function)}
        self.block_builder = relax.BlockBuilder(tvm.IRModule(called))
        self.values: dict[relax.Var, Value] = {}
        self.definitions: dict[relax.Var, tvm.ir.Call] = {}

    def value(self, argument: relax.Expr) -> Value:
        return self.values[argument] if isinstance(argument, relax.Var) else argument

    def find_call(self, argument: relax.Expr, operator: str) -> tvm.ir.Call | None:
        call = self.definitions.get(argument)
        return call if call is not None and operator_name(call) == operator else None

    def find_integers(self, argument: relax.Expr, *widths: int) -> QuantizedTensor | None:
        """Return an argument that is quantized per tensor to one of the ``widths``, else None.

        The widths are in bits.
        """
        value = self.value(argument)
        fits = isinstance(value, QuantizedTensor) and value.is_per_tensor and value.width in widths
        return value if fits else None

    def emit(self, expression: relax.Expr) -> relax.Var:
        return self.block_builder.emit(expression)

    def emit_like(self, call: tvm.ir.Call, *arguments: relax.Expr) -> relax.Var:
        return self.emit(tvm.ir.Call(call.op, list(arguments), call.attrs, call.ty_args))

    def emit_te(self, name: str, compute: Callable[..., Any], *tensors: relax.Expr) -> relax.Var:
        """Emit a computation of tensor expressions. ``name`` is visible in the C source."""
        return self.block_builder.emit_te(compute, *tensors, primfunc_name_hint=name)

    def emit_elements(
        self,
        name: str,
        element: Callable[..., Any],
        *tensors: relax.Expr,
        result: str,
        shape: Sequence[int] | None = None,
    ) -> relax.Var:
        """Emit ``element(indices, *tensors)`` for all indices of ``shape``.

        The default ``shape`` is the shape of the first tensor.
        """

        def compute(*data: te.Tensor) -> te.Tensor:
            extents = data[0].shape if shape is None else shape
            return te.compute(extents, lambda *indices: element(indices, *data), name=result)

        return self.emit_te(name, compute, *tensors)

    def emit_constant(self, name: str, array: npt.NDArray[Any]) -> relax.Var:
        """Emit a constant array whose name is visible in the C source."""
        return self.block_builder.emit(relax.const(array, str(array.dtype)), name_hint=name)

    def materialize(self, value: Value) -> relax.Expr:
        """Return the value as an ordinary tensor, and scale a quantized value to float32."""
        if not isinstance(value, QuantizedTensor):
            return value
        real = self.emit(relax.op.astype(self.subtract_zero_point(value), "float32"))
        scale = relax.const(value.reshape_for_broadcast(value.scale).astype("float32"), "float32")
        return self.emit(relax.op.multiply(real, scale))

    def emit_materialized(self, call: tvm.ir.Call) -> relax.Var:
        return self.emit_like(call, *map(self.materialize_argument, call.args))

    def materialize_argument(self, argument: relax.Expr) -> relax.Expr:
        if isinstance(argument, relax.Tuple):
            return relax.Tuple([self.materialize_argument(f) for f in argument.fields])
        return self.materialize(self.value(argument))

    def subtract_zero_point(self, value: QuantizedTensor) -> relax.Expr:
        """Return data - zero point as int32, or as int64 if the data are int64 sums."""
        dtype = "int64" if dtype_of(value.data) == "int64" else "int32"
        data = self.cast(value.data, dtype)
        if not value.zero_point.any():
            return data
        zero_point = value.reshape_for_broadcast(value.zero_point).astype(dtype)
        return self.emit(relax.op.subtract(data, relax.const(zero_point, dtype)))

    def cast(self, data: relax.Expr, dtype: str) -> relax.Expr:
        return data if dtype_of(data) == dtype else self.emit(relax.op.astype(data, dtype))
