"""Exports quantized networks as ONNX. The quantizer exports only float networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from onnx import helper
from tvm import relax

from firmwright.ir.relax import (
    Constant,
    constant_array,
    dtype_of,
    main_bindings,
    operator_name,
    static_shape,
)
from firmwright.ir.tensors import ELEMENT_BYTES, ModelInterface
from firmwright.models.onnx.export import (
    ELEMENTWISE,
    NEWER_TYPES_OPSET,
    TO_CHANNELS_FIRST,
    NotExportableError,
    OnnxValue,
)
from firmwright.models.onnx.float_export import FloatExporter

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class DequantizedConstant(OnnxValue):
    """A dequantized constant.

    The exporter writes the constant when an operator reads it, in the operator's order of axes.
    """

    call: tvm.ir.Call | None = None


class QuantizedExporter(FloatExporter):
    def __init__(self, module: tvm.IRModule, interface: ModelInterface) -> None:
        super().__init__(module, interface)
        tensors = [b.var for b in main_bindings(module) if isinstance(b.var.ty, relax.TensorType)]
        computed = {dtype_of(tensor) for tensor in tensors}
        if computed.union(t.dtype for t in interface.inputs) & {"int16", "uint16"}:
            self.opset = NEWER_TYPES_OPSET

    def find_converter(self, name: str) -> Callable[[tvm.ir.Call], OnnxValue]:
        more: dict[str, Callable[[tvm.ir.Call], OnnxValue]] = {
            "relax.quantize": self.quantize,
            "relax.dequantize": self.dequantize,
            **dict.fromkeys(("relax.maximum", "relax.minimum"), self.min_or_max),
        }
        return more[name] if name in more else super().find_converter(name)

    def quantize(self, call: tvm.ir.Call) -> OnnxValue:
        return self.export_quant_op("QuantizeLinear", call, dtype_of(call))

    def dequantize(self, call: tvm.ir.Call) -> OnnxValue:
        if isinstance(call.args[0], Constant):
            return DequantizedConstant("", call=call)
        return self.export_quant_op("DequantizeLinear", call, dtype_of(call.args[0]))

    def get_value(self, argument: relax.Expr) -> OnnxValue:
        value = super().get_value(argument)
        if not isinstance(value, DequantizedConstant):
            return value
        self.values[argument] = OnnxValue(
            self.emit_dequantized(value, range(len(static_shape(argument))))
        )
        return self.values[argument]

    def emit_dequantized(self, constant: DequantizedConstant, order: Sequence[int]) -> str:
        """Write a dequantized constant with its axes in another order, and return its name.

        If ``order`` has more axes than the constant, axes of length 1 are added before its shape.
        """
        call = constant.call
        assert call is not None
        data, scale, zero_point = (constant_array(a) for a in call.args[:3])
        added = len(order) - data.ndim
        data = data.reshape((1,) * added + data.shape).transpose(order)
        names = [
            self.add_constant(a)
            for a in (data, *to_onnx_shapes(scale, zero_point, str(data.dtype)))
        ]
        axis = [*order].index(int(call.attrs.axis) % (data.ndim - added) + added)
        along: dict[str, Any] = {"axis": axis} if scale.size > 1 else {}
        name = self.make_unique_name("parameter")
        self.nodes.append(helper.make_node("DequantizeLinear", names, [name], name, **along))
        return name

    def is_constant(self, argument: relax.Expr) -> bool:
        return super().is_constant(argument) or isinstance(
            self.values.get(argument), DequantizedConstant
        )

    def add_constant_channels_first(self, argument: relax.Expr) -> str:
        value = self.values.get(argument)
        if isinstance(value, DequantizedConstant):
            return self.emit_dequantized(value, TO_CHANNELS_FIRST)
        return super().add_constant_channels_first(argument)

    def export_quant_op(self, kind: str, call: tvm.ir.Call, integers: str) -> OnnxValue:
        """Write a quantize or dequantize operator. ``integers`` is the type of the integers."""
        scale, zero_point = (constant_array(a) for a in call.args[1:3])
        source = self.get_value(call.args[0])
        names = [self.add_constant(a) for a in to_onnx_shapes(scale, zero_point, integers)]
        if scale.size == 1:
            return OnnxValue(self.emit(kind, [source.name, *names]), source.channels_first)
        return OnnxValue(
            self.emit(kind, [self.to_relax_layout(source), *names], axis=int(call.attrs.axis))
        )

    def min_or_max(self, call: tvm.ir.Call) -> OnnxValue:
        """Write a maximum or minimum.

        8-bit integers become int32, because ONNX Runtime does not support 8-bit operands.
        """
        integers = dtype_of(call)
        if integers == "float32":
            return self.elementwise(call)
        if ELEMENT_BYTES[integers] >= 4 or "int" not in integers:
            raise NotExportableError
        wide, narrow = (helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in ("int32", integers))
        names = [
            self.emit("Cast", [self.to_relax_layout(self.get_value(a))], to=wide) for a in call.args
        ]
        result = self.emit(ELEMENTWISE[operator_name(call)], names)
        return OnnxValue(self.emit("Cast", [result], to=narrow))

    def mean(self, call: tvm.ir.Call) -> OnnxValue:
        return super().mean(call) if self.opset < 18 else self.reduction(call)

    def add_kernel(self, weights: relax.Expr, order: list[int]) -> str:
        value = self.values.get(weights)
        if isinstance(value, DequantizedConstant):
            return self.emit_dequantized(value, order)
        if isinstance(weights, Constant):
            return super().add_kernel(weights, order)
        name = self.to_relax_layout(self.get_value(weights))
        return name if order == sorted(order) else self.transpose(name, tuple(order))


def to_onnx_shapes(scale: Array, zero_point: Array, integers: str) -> tuple[Array, Array]:
    """Return scale and zero point in ONNX's shapes: scalars, or one element per channel."""
    shape = () if scale.size == 1 else (scale.size,)
    zero_points = np.broadcast_to(zero_point.reshape(-1), (scale.size,))
    return scale.reshape(shape), zero_points.astype(integers).reshape(shape)
