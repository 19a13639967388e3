"""Inside a CPU region, quantised values stay integers for as long as the algebra allows.

A dequantized tensor is scale · (data - zero point). Convolutions and matrix products are linear,
so they run on the integers and only their sum is scaled; max-pooling, ReLU and layout changes
commute with a positive scale. What remains in float32 is one multiplication an output value.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.models.interface import ELEMENT_BYTES
from firmwright.transforms.rewriting import (
    Constant,
    constant_array,
    dtype_of,
    operator_name,
    static_shape,
)

LARGEST_PRODUCT = 255 * 255
"""Of two values of 8 bits after their zero points are subtracted."""

COMMUTING = frozenset(
    f"relax.{n}"
    for n in ("reshape", "permute_dims", "expand_dims", "squeeze", "flatten", "strided_slice",
              "nn.max_pool2d")
)  # fmt: skip


@dataclass(frozen=True)
class Quantised:
    """scale · (data - zero_point); both of shape (1,), or one for each channel along ``axis``."""

    data: relax.Expr
    scale: npt.NDArray[np.float64]
    zero_point: npt.NDArray[np.int64]
    axis: int

    @property
    def per_tensor(self) -> bool:
        return self.scale.size == 1 and self.zero_point.size == 1

    @property
    def eight_bit(self) -> bool:
        return ELEMENT_BYTES[dtype_of(self.data)] == 1

    def along_axis(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Shape per-channel values so that they broadcast against the data."""
        if values.size == 1:
            return values.reshape(())
        rank = len(static_shape(self.data))
        shape = [1] * rank
        shape[self.axis] = values.size
        return values.reshape(shape)


Value = relax.Expr | Quantised


class IntegerArithmetic:
    """Rebuilds one region function; use :func:`with_integer_arithmetic`."""

    def __init__(self, function: relax.Function) -> None:
        self.function = function
        self.builder = relax.BlockBuilder()
        self.values: dict[relax.Var, Value] = {}

    def run(self, name: str) -> tvm.IRModule:
        parameters = [relax.Var(p.name, p.ty) for p in self.function.params]
        self.values.update(zip(self.function.params, parameters, strict=True))
        with self.builder.function(name, parameters):
            with self.builder.dataflow():
                for block in self.function.body.blocks:
                    for binding in block.bindings:
                        self.values[binding.var] = self.translate(binding.value)
                result = self.builder.emit_output(self.plain(self.values[self.function.body.body]))
            self.builder.emit_func_output(result)
        return self.builder.get()

    def translate(self, call: tvm.ir.Call) -> Value:
        """Return what the call computes, as integers with a scale where that is exact."""
        handler = {
            "relax.dequantize": self.dequantize,
            "relax.quantize": self.quantize,
            "relax.nn.conv2d": self.conv2d,
            "relax.matmul": self.matmul,
            "relax.add": self.add,
            "relax.nn.relu": self.relu,
            "relax.clip": self.clip,
        }.get(operator_name(call), self.commute if operator_name(call) in COMMUTING else None)
        result = handler(call) if handler else None
        return self.emit_plain(call) if result is None else result

    def value(self, argument: relax.Expr) -> Value:
        return self.values[argument] if isinstance(argument, relax.Var) else argument

    def plain(self, value: Value) -> relax.Expr:
        """Return the value as an ordinary tensor, scaled to float32 where it is quantised."""
        if not isinstance(value, Quantised):
            return value
        real = self.emit(relax.op.astype(self.centred(value), "float32"))
        scale = relax.const(value.along_axis(value.scale).astype("float32"), "float32")
        return self.emit(relax.op.multiply(real, scale))

    def emit(self, expression: relax.Expr) -> relax.Var:
        return self.builder.emit(expression)

    def emit_plain(self, call: tvm.ir.Call) -> relax.Expr:
        arguments = [self.plain_argument(a) for a in call.args]
        return self.emit(tvm.ir.Call(call.op, arguments, call.attrs, call.ty_args))

    def plain_argument(self, argument: relax.Expr) -> relax.Expr:
        if isinstance(argument, relax.Tuple):
            return relax.Tuple([self.plain_argument(f) for f in argument.fields])
        return self.plain(self.value(argument))

    def centred(self, value: Quantised) -> relax.Expr:
        """Return data - zero point as int32."""
        data = value.data
        if dtype_of(data) != "int32":
            data = self.emit(relax.op.astype(data, "int32"))
        if not value.zero_point.any():
            return data
        zero_point = value.along_axis(value.zero_point).astype("int32")
        return self.emit(relax.op.subtract(data, relax.const(zero_point, "int32")))

    def dequantize(self, call: tvm.ir.Call) -> Value | None:
        data, scale, zero_point = call.args
        source = self.value(data)
        if isinstance(source, Quantised) or not dtype_of(source).startswith(("int", "uint")):
            return None
        if not (isinstance(scale, Constant) and isinstance(zero_point, Constant)):
            return None
        scales = constant_array(scale).astype("float64").reshape(-1)
        points = constant_array(zero_point).astype("int64").reshape(-1)
        return Quantised(source, scales, points, int(call.attrs.axis))

    def quantize(self, call: tvm.ir.Call) -> Value | None:
        """Scale once, by the quotient of the two scales, round half to even, clamp."""
        source = self.value(call.args[0])
        if not isinstance(source, Quantised) or not all(
            isinstance(a, Constant) for a in call.args[1:]
        ):
            return None
        scale = constant_array(call.args[1]).astype("float64").reshape(-1)
        zero_point = constant_array(call.args[2]).astype("int64").reshape(-1)
        out_dtype = str(call.attrs.out_dtype)
        if scale.size != 1 or zero_point.size != 1 or not out_dtype.startswith(("int", "uint")):
            return None
        if (
            source.per_tensor
            and dtype_of(source.data) == out_dtype
            and np.float32(source.scale[0]) == np.float32(scale[0])
            and source.zero_point[0] == zero_point[0]
        ):
            return source.data
        real = self.emit(relax.op.astype(self.centred(source), "float32"))
        factor = source.along_axis(source.scale / scale).astype("float32")
        scaled = self.emit(relax.op.multiply(real, relax.const(factor, "float32")))
        rounded = self.emit(relax.op.round(scaled))
        moved = self.emit(relax.op.add(rounded, relax.const(float(zero_point[0]), "float32")))
        limits = np.iinfo(out_dtype)
        clamped = self.emit(relax.op.clip(moved, float(limits.min), float(limits.max)))
        return self.emit(relax.op.astype(clamped, out_dtype))

    def conv2d(self, call: tvm.ir.Call) -> Value | None:
        layout = str(call.attrs.kernel_layout)
        kernel = static_shape(call.args[1])
        terms = prod(kernel) // kernel[layout.index("O")]
        operands = self.integer_operands(call, layout.index("O"), terms)
        if operands is None:
            return None
        data, weights, scale = operands
        a = call.attrs
        out_layout = str(a.out_layout) or str(a.data_layout)
        total = self.emit(
            relax.op.nn.conv2d(
                data, weights, strides=list(a.strides), padding=list(a.padding),
                dilation=list(a.dilation), groups=int(a.groups), data_layout=a.data_layout,
                kernel_layout=a.kernel_layout, out_layout=out_layout, out_dtype="int32",
            )
        )  # fmt: skip
        return Quantised(total, scale, np.zeros(1, "int64"), out_layout.index("C"))

    def matmul(self, call: tvm.ir.Call) -> Value | None:
        right = static_shape(call.args[1])
        operands = self.integer_operands(call, len(right) - 1, right[0]) if len(right) == 2 else None
        if operands is None:
            return None
        total = self.emit(relax.op.matmul(operands[0], operands[1], out_dtype="int32"))
        return Quantised(
            total, operands[2], np.zeros(1, "int64"), len(static_shape(total)) - 1
        )

    def integer_operands(
        self, call: tvm.ir.Call, channel_axis: int, terms: int
    ) -> tuple[relax.Expr, relax.Expr, npt.NDArray[np.float64]] | None:
        """Return both operands centred, and their product's scale, if int32 can hold the sum."""
        data, weights = (self.value(a) for a in call.args)
        if not (isinstance(data, Quantised) and isinstance(weights, Quantised)):
            return None
        if not (data.per_tensor and data.eight_bit and weights.eight_bit):
            return None
        if not weights.per_tensor and weights.axis != channel_axis:
            return None
        if terms * LARGEST_PRODUCT >= 2**31:
            return None
        scale = data.scale * weights.scale
        return self.centred(data), self.centred(weights), scale

    def add(self, call: tvm.ir.Call) -> Value | None:
        """Add a bias on the accumulator's own grid as an integer."""
        left, right = (self.value(a) for a in call.args)
        if not (isinstance(left, Quantised) and isinstance(right, Quantised)):
            return None
        if not (dtype_of(left.data) == dtype_of(right.data) == "int32"):
            return None
        if left.zero_point.any() or right.zero_point.any():
            return None
        if not np.allclose(left.scale, right.scale, rtol=1e-5, atol=0.0):
            return None
        total = self.emit(relax.op.add(left.data, right.data))
        if static_shape(total) != static_shape(left.data):
            return None
        return Quantised(total, left.scale, left.zero_point, left.axis)

    def relu(self, call: tvm.ir.Call) -> Value | None:
        source = self.value(call.args[0])
        if not isinstance(source, Quantised) or source.zero_point.any():
            return None
        zero = relax.const(0, dtype_of(source.data))
        clamped = self.emit(relax.op.maximum(source.data, zero))
        return Quantised(clamped, source.scale, source.zero_point, source.axis)

    def clip(self, call: tvm.ir.Call) -> Value | None:
        """Drop a clip to the whole range of its integers, which importers leave behind."""
        source = self.value(call.args[0])
        if isinstance(source, Quantised) or not dtype_of(source).startswith(("int", "uint")):
            return None
        limits = np.iinfo(dtype_of(source))
        low, high = (float(a.value) for a in call.args[1:])
        return source if low <= limits.min and high >= limits.max else None

    def commute(self, call: tvm.ir.Call) -> Value | None:
        source = self.value(call.args[0])
        if not isinstance(source, Quantised) or not source.per_tensor:
            return None
        others = [self.plain_argument(a) for a in call.args[1:]]
        moved = self.emit(tvm.ir.Call(call.op, [source.data, *others], call.attrs, call.ty_args))
        return Quantised(moved, source.scale, source.zero_point, 0)


def with_integer_arithmetic(name: str, function: relax.Function) -> tvm.IRModule:
    """Return a module whose function ``name`` computes the same with integers where it can."""
    return IntegerArithmetic(function).run(name)
