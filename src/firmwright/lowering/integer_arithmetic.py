"""Inside a CPU region, quantized values stay integers for as long as the algebra allows.

A dequantized tensor is scale · (data - zero point). Convolutions and matrix products are linear,
so they run on the integers and only their sum is scaled; max-pooling, ReLU and layout changes
commute with a positive scale. How the scaled sum is rounded is the model format's business
(:mod:`firmwright.lowering.rounding`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, prod
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, te, tirx

from firmwright.codegen.names import c_identifier
from firmwright.ir.regions import Region
from firmwright.ir.relax import Constant, constant_array, dtype_of, operator_name, static_shape
from firmwright.lowering.float_use import ArithmeticUse, FloatUseTracker
from firmwright.lowering.quantized_tensor import (
    BATCH_MATMUL,
    INT32_LIMIT,
    OutputQuantParams,
    QuantizedTensor,
    RoundFunction,
    Value,
    has_quant_params,
    largest_integer,
    read_dequantize,
    read_quant_params,
    smallest_integer,
)
from firmwright.lowering.rounding import Rounding

COMMUTING_OPERATORS = frozenset(
    f"relax.{n}"
    for n in ("reshape", "permute_dims", "expand_dims", "squeeze", "flatten", "strided_slice",
              "nn.max_pool2d", "max", "min", "take", "flip", "tile", "repeat", "broadcast_to")
)  # fmt: skip

NO_ZERO_POINT = np.zeros(1, "int64")


class IntegerRewriter:
    """Rebuilds one region function; use :func:`use_integer_arithmetic`."""

    def __init__(self, region: Region, module: tvm.IRModule, rounding: Rounding) -> None:
        self.region = region
        self.function = module[region.name]
        self.rounding = rounding
        self.float_use = FloatUseTracker(region, self.function)
        called = {v: f for v, f in module.functions.items() if isinstance(f, tirx.PrimFunc)}
        self.builder = relax.BlockBuilder(tvm.IRModule(called))
        self.values: dict[relax.Var, Value] = {}
        self.definitions: dict[relax.Var, tvm.ir.Call] = {}

    def run(self) -> tuple[tvm.IRModule, ArithmeticUse]:
        name = self.region.name
        # TVM makes names of temporaries from these.
        parameters = [relax.Var(c_identifier(str(p.name)), p.ty) for p in self.function.params]
        self.values.update(zip(self.function.params, parameters, strict=True))
        with self.builder.function(name, parameters):
            with self.builder.dataflow():
                for block in self.function.body.blocks:
                    for binding in block.bindings:
                        self.definitions[binding.var] = binding.value
                        value = self.values[binding.var] = self.translate(binding.value)
                        self.float_use.record(binding, value)
                results: list[relax.Var] = []
                for returned in self.function.body.body.fields:
                    value = self.materialize(self.values[returned])
                    if isinstance(value, Constant) or any(value.same_as(p) for p in parameters):
                        value = self.emit_te("copy", copy_tensor, value)
                    results.append(self.builder.emit_output(value))
            self.builder.emit_func_output(relax.Tuple(results))
        # A rounding may compute anew, on integers, what was also emitted in float32.
        module = relax.transform.DeadCodeElimination([name])(self.builder.get())
        return module, self.float_use.summarize(module[name])

    def translate(self, call: relax.Expr) -> Value:
        """Return what the call computes, as integers with a scale where that is exact.

        A constant is itself; an item of an operator's several results is an ordinary tensor.
        """
        if isinstance(call, Constant):
            return call
        if isinstance(call, relax.TupleGetItem):
            return self.emit(relax.TupleGetItem(self.values[call.tuple_value], call.index))
        handler = {
            "relax.dequantize": self.dequantize,
            "relax.quantize": self.quantize,
            "relax.nn.conv2d": self.conv2d,
            "relax.nn.conv2d_transpose": self.conv2d_transpose,
            "relax.matmul": self.matmul,
            "relax.add": self.add,
            "relax.nn.relu": self.relu,
            "relax.clip": self.clip,
            "relax.concat": self.concat,
        }.get(
            operator_name(call),
            self.commute if operator_name(call) in COMMUTING_OPERATORS else None,
        )
        result = handler(call) if handler else self.rounding.lower_to_integers(self, call)
        return self.emit_materialized(call) if result is None else result

    def value(self, argument: relax.Expr) -> Value:
        return self.values[argument] if isinstance(argument, relax.Var) else argument

    def find_call(self, argument: relax.Expr, operator: str) -> tvm.ir.Call | None:
        """Return the call that an argument is bound to, if it is one of the operator."""
        call = self.definitions.get(argument)
        return call if call is not None and operator_name(call) == operator else None

    def materialize(self, value: Value) -> relax.Expr:
        """Return the value as an ordinary tensor, scaled to float32 where it is quantized."""
        if not isinstance(value, QuantizedTensor):
            return value
        real = self.emit(relax.op.astype(self.subtract_zero_point(value), "float32"))
        scale = relax.const(value.reshape_for_broadcast(value.scale).astype("float32"), "float32")
        return self.emit(relax.op.multiply(real, scale))

    def emit(self, expression: relax.Expr) -> relax.Var:
        return self.builder.emit(expression)

    def emit_te(self, name: str, compute: Callable[..., Any], *tensors: relax.Expr) -> relax.Var:
        """Emit a computation written as tensor expressions; ``name`` is seen in the C source."""
        return self.builder.emit_te(compute, *tensors, primfunc_name_hint=name)

    def emit_constant(self, name: str, array: npt.NDArray[Any]) -> relax.Var:
        """Emit a constant array that is to keep its name in the C source."""
        return self.builder.emit(relax.const(array, str(array.dtype)), name_hint=name)

    def emit_materialized(self, call: tvm.ir.Call) -> relax.Expr:
        arguments = [self.materialize_argument(a) for a in call.args]
        return self.emit(tvm.ir.Call(call.op, arguments, call.attrs, call.ty_args))

    def materialize_argument(self, argument: relax.Expr) -> relax.Expr:
        if isinstance(argument, relax.Tuple):
            return relax.Tuple([self.materialize_argument(f) for f in argument.fields])
        return self.materialize(self.value(argument))

    def subtract_zero_point(self, value: QuantizedTensor) -> relax.Expr:
        """Return data - zero point as int32; as int64 what is a sum of that width."""
        dtype = "int64" if dtype_of(value.data) == "int64" else "int32"
        data = self.cast(value.data, dtype)
        if not value.zero_point.any():
            return data
        zero_point = value.reshape_for_broadcast(value.zero_point).astype(dtype)
        return self.emit(relax.op.subtract(data, relax.const(zero_point, dtype)))

    def cast(self, data: relax.Expr, dtype: str) -> relax.Expr:
        return data if dtype_of(data) == dtype else self.emit(relax.op.astype(data, dtype))

    def dequantize(self, call: tvm.ir.Call) -> Value | None:
        return read_dequantize(call, self.value(call.args[0]))

    def quantize(self, call: tvm.ir.Call) -> Value | None:
        """Leave integers alone that are on the grid already; else ask the rounding."""
        grid = read_quant_params(call)
        if grid is None:
            return None
        source = self.value(call.args[0])
        if isinstance(source, QuantizedTensor) and has_quant_params(source, grid):
            return source.data
        return self.rounding.quantize(self, call.args[0], grid)

    def fuse_activation(
        self, argument: relax.Expr, grid: OutputQuantParams, nearest: RoundFunction
    ) -> tuple[relax.Expr, OutputQuantParams]:
        """Return what a ReLU or clip reads, and the grid with the activation's limits.

        Exact because rounding to a grid never reorders values.
        """
        limits = self.match_clamp(argument)
        if limits is None:
            return argument, grid
        operand, low, high = limits
        return self.fuse_activation(operand, grid.clamp_to(low, high, nearest), nearest)

    def match_clamp(self, argument: relax.Expr) -> tuple[relax.Expr, float, float] | None:
        """Return operand and limits of an operator that only clamps to constants."""
        call = self.definitions.get(argument)
        if call is None:
            return None
        name = operator_name(call)
        if name in ("relax.nn.relu", "relax.nn.relu6"):
            return call.args[0], 0.0, 6.0 if name.endswith("6") else inf
        if name == "relax.clip":
            return call.args[0], *(float(a.value) for a in call.args[1:])
        if name in ("relax.maximum", "relax.minimum") and isinstance(call.args[1], Constant):
            limit = constant_array(call.args[1])
            if limit.size == 1 and static_shape(call) == static_shape(call.args[0]):
                bound = float(limit.item())
                return call.args[0], *((bound, inf) if "max" in name else (-inf, bound))
        return None

    def conv2d(self, call: tvm.ir.Call) -> Value | None:
        layout = str(call.attrs.kernel_layout)
        kernel = static_shape(call.args[1])
        terms = prod(kernel) // kernel[layout.index("O")]
        operands = self.integer_operands(call, layout.index("O"), terms)
        if operands is None:
            return None
        data, weights, scale, largest, activations = operands
        sums = sum_type(largest)
        a = call.attrs
        out_layout = str(a.out_layout) or str(a.data_layout)
        total = self.emit(
            relax.op.nn.conv2d(
                data, weights, strides=list(a.strides), padding=list(a.padding),
                dilation=list(a.dilation), groups=int(a.groups), data_layout=a.data_layout,
                kernel_layout=a.kernel_layout, out_layout=out_layout, out_dtype=sums,
            )
        )  # fmt: skip
        axis = out_layout.index("C")
        return QuantizedTensor(
            total, scale, NO_ZERO_POINT, axis, largest, operator_name(call), activations
        )

    def conv2d_transpose(self, call: tvm.ir.Call) -> Value | None:
        layout, a = str(call.attrs.kernel_layout), call.attrs
        kernel = static_shape(call.args[1])
        terms = prod(kernel) // kernel[layout.index("O")]
        operands = self.integer_operands(call, layout.index("O"), terms)
        if operands is None or int(a.groups) != 1:
            return None
        data, weights, scale, largest, activations = operands
        sums = sum_type(largest)
        out_layout = str(a.out_layout) or str(a.data_layout)
        total = self.emit(
            relax.op.nn.conv2d_transpose(
                data, weights, strides=list(a.strides), padding=list(a.padding),
                output_padding=list(a.output_padding), dilation=list(a.dilation),
                data_layout=a.data_layout, kernel_layout=a.kernel_layout, out_layout=out_layout,
                out_dtype=sums,
            )
        )  # fmt: skip
        axis = out_layout.index("C")
        return QuantizedTensor(
            total, scale, NO_ZERO_POINT, axis, largest, operator_name(call), activations
        )

    def matmul(self, call: tvm.ir.Call) -> Value | None:
        right = static_shape(call.args[1])
        operands = self.integer_operands(call, len(right) - 1, right[max(len(right) - 2, 0)])
        if operands is None:
            return None
        data, weights, scale, largest, activations = operands
        sums = sum_type(largest)
        total = self.emit(relax.op.matmul(data, weights, out_dtype=sums))
        axis = len(static_shape(total)) - 1
        operator = operator_name(call)
        if len(right) > 2:
            operator = BATCH_MATMUL
        return QuantizedTensor(total, scale, NO_ZERO_POINT, axis, largest, operator, activations)

    def integer_operands(
        self, call: tvm.ir.Call, channel_axis: int, terms: int
    ) -> tuple[relax.Expr, relax.Expr, npt.NDArray[np.float64], int, str] | None:
        """Return both operands centred, the products' scale, their sum's largest magnitude.

        Last is the left one's type. None where int32 might not hold the sum of
        8-bit operands.
        """
        data, weights = (self.value(a) for a in call.args)
        if not (isinstance(data, QuantizedTensor) and isinstance(weights, QuantizedTensor)):
            return None
        wide = data.is_16bit
        narrow = weights.is_8bit or (wide and weights.is_16bit)
        if not (data.is_per_tensor and (data.is_8bit or wide) and narrow):
            return None
        if not weights.is_per_tensor and weights.axis != channel_axis:
            return None
        largest = terms * data.largest * weights.largest
        if largest >= INT32_LIMIT and not wide:
            return None
        scale = data.scale * weights.scale
        return (
            self.subtract_zero_point(data),
            self.subtract_zero_point(weights),
            scale,
            largest,
            dtype_of(data.data),
        )

    def add(self, call: tvm.ir.Call) -> Value | None:
        """Add a bias on the accumulator's own grid as an integer."""
        left, right = (self.value(a) for a in call.args)
        if not (isinstance(left, QuantizedTensor) and isinstance(right, QuantizedTensor)):
            return None
        if dtype_of(left.data) not in ("int32", "int64") or dtype_of(right.data) != "int32":
            return None
        if not left.operator:
            left, right = right, left
        if left.zero_point.any() or right.zero_point.any():
            return None
        if not np.allclose(left.scale, right.scale, rtol=1e-5, atol=0.0):
            return None
        largest = left.largest + right.largest
        if largest >= INT32_LIMIT and not left.has_wide_sums:
            return None
        terms = [self.cast(v.data, sum_type(largest)) for v in (left, right)]
        total = self.emit(relax.op.add(*terms))
        if static_shape(total) != static_shape(left.data):
            return None
        return replace(left, data=total, largest=largest)

    def relu(self, call: tvm.ir.Call) -> Value | None:
        source = self.value(call.args[0])
        if not isinstance(source, QuantizedTensor) or source.zero_point.any():
            return None
        zero = relax.const(0, dtype_of(source.data))
        clamped = self.emit(relax.op.maximum(source.data, zero))
        return replace(source, data=clamped)

    def clip(self, call: tvm.ir.Call) -> Value | None:
        """Drop a clip to the whole range of its integers, which importers leave behind."""
        source = self.value(call.args[0])
        if isinstance(source, QuantizedTensor) or not dtype_of(source).startswith(("int", "uint")):
            return None
        low, high = (float(a.value) for a in call.args[1:])
        dtype = dtype_of(source)
        whole = low <= smallest_integer(dtype) and high >= largest_integer(dtype)
        return source if whole else None

    def concat(self, call: tvm.ir.Call) -> Value | None:
        """Join integers that are all on one grid."""
        parts = [self.value(field) for field in getattr(call.args[0], "fields", ())]
        sources = [p for p in parts if isinstance(p, QuantizedTensor)]
        if not sources or len(sources) < len(parts) or not sources[0].is_per_tensor:
            return None
        if not all(s.has_same_params(sources[0]) for s in sources):
            return None
        data = relax.Tuple([s.data for s in sources])
        joined = self.emit(tvm.ir.Call(call.op, [data], call.attrs, call.ty_args))
        return replace(sources[0], data=joined, largest=max(s.largest for s in sources))

    def commute(self, call: tvm.ir.Call) -> Value | None:
        source = self.value(call.args[0])
        if not isinstance(source, QuantizedTensor) or not source.is_per_tensor:
            return None
        others = [self.materialize_argument(a) for a in call.args[1:]]
        moved = self.emit(tvm.ir.Call(call.op, [source.data, *others], call.attrs, call.ty_args))
        return replace(source, data=moved, axis=0)


def sum_type(largest: int) -> str:
    """Return the narrowest type, int32 or int64, that holds sums up to a magnitude."""
    return "int32" if largest < INT32_LIMIT else "int64"


def copy_tensor(data: te.Tensor) -> te.Tensor:
    """Copy what needs no computation: a region fills an output of its own."""
    return te.compute(data.shape, lambda *indices: data(*indices), name="copied")


def use_integer_arithmetic(
    region: Region, module: tvm.IRModule, rounding: Rounding
) -> tuple[tvm.IRModule, ArithmeticUse]:
    """Return a module whose function of the region computes the same with integers where it can."""
    return IntegerRewriter(region, module, rounding).run()
