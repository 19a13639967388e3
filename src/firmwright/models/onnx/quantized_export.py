"""Networks as ONNX that the quantizer does not write: quantized ones, and more operators."""

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
    INT16_OPSET,
    TO_CHANNELS_FIRST,
    Exporter,
    NotExportableError,
    OnnxValue,
    SeveralValues,
    to_ints,
)

Array = npt.NDArray[Any]
MORE_ELEMENTWISE = {
    f"relax.{name}": name.title() for name in "acos asin asinh atan cos cosh sin sinh tan".split()
}
REDUCTIONS = {f"relax.{name}": f"Reduce{name.title()}" for name in "max min sum mean".split()}
ARG_REDUCTIONS = {"relax.argmax": "ArgMax", "relax.argmin": "ArgMin"}
RESIZE_ROUNDING = {"round": "round_prefer_floor", "floor": "floor", "ceil": "ceil"}


@dataclass(frozen=True)
class DequantizedConstant(OnnxValue):
    """A dequantized constant, written where it is read: its axes may be wanted in another order."""

    call: tvm.ir.Call | None = None


class QuantizedExporter(Exporter):
    """Also writes what the quantizer does not: quantized tensors, and more operators."""

    def __init__(self, module: tvm.IRModule, interface: ModelInterface) -> None:
        super().__init__(module, interface)
        tensors = [b.var for b in main_bindings(module) if isinstance(b.var.ty, relax.TensorType)]
        computed = {dtype_of(tensor) for tensor in tensors}
        if computed.union(t.dtype for t in interface.inputs) & {"int16", "uint16"}:
            self.opset = INT16_OPSET

    def find_converter(self, name: str) -> Callable[[tvm.ir.Call], OnnxValue]:
        more: dict[str, Callable[[tvm.ir.Call], OnnxValue]] = {
            "relax.quantize": self.quantize,
            "relax.dequantize": self.dequantize,
            "relax.astype": self.cast,
            "relax.nn.prelu": self.prelu,
            "relax.nn.instance_norm": self.instance_norm,
            "relax.nn.conv2d_transpose": self.conv_transpose,
            "relax.nn.layer_norm": self.layer_norm,
            "relax.nn.gelu": self.gelu,
            "relax.image.resize2d": self.resize,
            "relax.strided_slice": self.slice,
            "relax.take": self.gather,
            "relax.topk": self.topk,
            "relax.scatter_elements": self.scatter,
            **dict.fromkeys(MORE_ELEMENTWISE, self.unary),
            **dict.fromkeys(ARG_REDUCTIONS, self.arg_reduction),
            **dict.fromkeys(REDUCTIONS, self.reduction),
            "relax.mean": self.mean,
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
        found = super().get_value(argument)
        if not isinstance(found, DequantizedConstant):
            return found
        self.values[argument] = OnnxValue(
            self.emit_dequantized(found, range(len(static_shape(argument))))
        )
        return self.values[argument]

    def emit_dequantized(self, found: DequantizedConstant, order: Sequence[int]) -> str:
        """Write a dequantized constant with its axes in another order; return its name.

        Ones are put in front of its shape if ``order`` has more axes.
        """
        call = found.call
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
        found = self.values.get(argument)
        if isinstance(found, DequantizedConstant):
            return self.emit_dequantized(found, TO_CHANNELS_FIRST)
        return super().add_constant_channels_first(argument)

    def export_quant_op(self, kind: str, call: tvm.ir.Call, integers: str) -> OnnxValue:
        """Write a quantize or dequantize; ``integers`` is the type on the quantized side."""
        scale, zero_point = (constant_array(a) for a in call.args[1:3])
        source = self.get_value(call.args[0])
        names = [self.add_constant(a) for a in to_onnx_shapes(scale, zero_point, integers)]
        if scale.size == 1:
            return OnnxValue(self.emit(kind, [source.name, *names]), source.channels_first)
        return OnnxValue(
            self.emit(kind, [self.to_relax_layout(source), *names], axis=int(call.attrs.axis))
        )

    def cast(self, call: tvm.ir.Call) -> OnnxValue:
        source = self.get_value(call.args[0])
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype_of(call)))
        return OnnxValue(self.emit("Cast", [source.name], to=kind), source.channels_first)

    def unary(self, call: tvm.ir.Call) -> OnnxValue:
        source = self.get_value(call.args[0])
        kind = MORE_ELEMENTWISE[operator_name(call)]
        return OnnxValue(self.emit(kind, [source.name]), source.channels_first)

    def min_or_max(self, call: tvm.ir.Call) -> OnnxValue:
        """Write a maximum or minimum; of 8-bit integers, which ONNX Runtime has not, in int32."""
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

    def arg_reduction(self, call: tvm.ir.Call) -> OnnxValue:
        source = self.to_relax_layout(self.get_value(call.args[0]))
        kept, kind = int(call.attrs.keepdims), ARG_REDUCTIONS[operator_name(call)]
        return OnnxValue(self.emit(kind, [source], axis=int(call.attrs.axis), keepdims=kept))

    def reduction(self, call: tvm.ir.Call) -> OnnxValue:
        """Write a reduction; its axes became an input, of a sum in operator set 13, else in 18."""
        kind, attrs = REDUCTIONS[operator_name(call)], call.attrs
        rank = len(static_shape(call.args[0]))
        axes = range(rank) if attrs.axis is None else to_ints(attrs.axis)
        axes = [axis % rank for axis in axes]
        source, kept = self.to_relax_layout(self.get_value(call.args[0])), int(attrs.keepdims)
        if kind == "ReduceSum" or self.opset >= 18:
            stated = self.add_constant(np.array(axes, "int64"))
            return OnnxValue(self.emit(kind, [source, stated], keepdims=kept))
        return OnnxValue(self.emit(kind, [source], axes=axes, keepdims=kept))

    def mean(self, call: tvm.ir.Call) -> OnnxValue:
        return super().mean(call) if self.opset < 18 else self.reduction(call)

    def add_kernel(self, weights: relax.Expr, order: list[int]) -> str:
        """Return weights that may be dequantized, or computed, which the quantizer's may not."""
        found = self.values.get(weights)
        if isinstance(found, DequantizedConstant):
            return self.emit_dequantized(found, order)
        if isinstance(weights, Constant):
            return super().add_kernel(weights, order)
        name = self.to_relax_layout(self.get_value(weights))
        return name if order == sorted(order) else self.transpose(name, tuple(order))

    def conv_transpose(self, call: tvm.ir.Call) -> OnnxValue:
        a = call.attrs
        layout = str(a.data_layout)
        order = [str(a.kernel_layout).index(letter) for letter in "IOHW"]
        result = self.emit(
            "ConvTranspose",
            [self.to_nchw(call.args[0], layout), self.add_kernel(call.args[1], order)],
            strides=to_ints(a.strides),
            pads=to_ints(a.padding),
            output_padding=to_ints(a.output_padding),
            dilations=to_ints(a.dilation),
            group=int(a.groups),
        )
        return OnnxValue(result, layout == "NHWC")

    def layer_norm(self, call: tvm.ir.Call) -> OnnxValue:
        rank = len(static_shape(call))
        axes = sorted(axis % rank for axis in to_ints(call.attrs.axes))
        if axes != list(range(axes[0], rank)):
            raise NotExportableError
        names = [self.to_relax_layout(self.get_value(a)) for a in call.args]
        epsilon = float(call.attrs.epsilon)
        return OnnxValue(self.emit("LayerNormalization", names, axis=axes[0], epsilon=epsilon))

    def instance_norm(self, call: tvm.ir.Call) -> OnnxValue:
        rank, attrs = len(static_shape(call)), call.attrs
        axes = sorted(axis % rank for axis in to_ints(attrs.axes))
        if int(attrs.channel_axis) % rank != 1 or axes != list(range(2, rank)):
            raise NotExportableError
        names = [self.to_relax_layout(self.get_value(a)) for a in call.args]
        return OnnxValue(self.emit("InstanceNormalization", names, epsilon=float(attrs.epsilon)))

    def prelu(self, call: tvm.ir.Call) -> OnnxValue:
        """Write a ReLU with a slope for each channel, which ONNX broadcasts from the right."""
        slopes, rank = call.args[1], len(static_shape(call))
        if not isinstance(slopes, Constant):
            raise NotExportableError
        shape = [-1] + [1] * (rank - 1 - int(call.attrs.axis) % rank)
        slope = self.add_constant(constant_array(slopes).reshape(shape))
        return OnnxValue(
            self.emit("PRelu", [self.to_relax_layout(self.get_value(call.args[0])), slope])
        )

    def gelu(self, call: tvm.ir.Call) -> OnnxValue:
        """Write x / 2 * (1 + erf(x / sqrt(2))): ONNX has Gelu since operator set 20."""
        x = self.get_value(call.args[0])
        half, one, root = (
            self.add_constant(np.array(c, "float32")) for c in (0.5, 1.0, np.sqrt(2))
        )
        erf = self.emit("Erf", [self.emit("Div", [x.name, root])])
        product = self.emit("Mul", [x.name, self.emit("Add", [erf, one])])
        return OnnxValue(self.emit("Mul", [product, half]), x.channels_first)

    def resize(self, call: tvm.ir.Call) -> OnnxValue:
        a = call.attrs
        layout, method = str(a.layout), str(a.method)
        if method not in ("nearest_neighbor", "linear"):
            raise NotExportableError
        shape = [static_shape(call)[layout.index(axis)] for axis in "NCHW"]
        size = self.add_constant(np.array(shape, "int64"))
        nearest = {"nearest_mode": RESIZE_ROUNDING[str(a.rounding_method) or "round"]}
        result = self.emit(
            "Resize",
            [self.to_nchw(call.args[0], layout), "", "", size],
            mode="nearest" if method == "nearest_neighbor" else "linear",
            coordinate_transformation_mode=str(a.coordinate_transformation_mode),
            **(nearest if method == "nearest_neighbor" else {}),
        )
        return OnnxValue(result, layout == "NHWC")

    def gather(self, call: tvm.ir.Call) -> OnnxValue:
        if call.attrs.axis is None:
            raise NotExportableError
        axis = int(call.attrs.axis)
        return OnnxValue(self.emit("Gather", self.read_arguments(call), axis=axis))

    def topk(self, call: tvm.ir.Call) -> OnnxValue:
        if str(call.attrs.ret_type) != "both":
            raise NotExportableError
        count = self.add_constant(np.array([int(call.attrs.k)], "int64"))
        largest = int(call.attrs.largest)
        found = self.emit(
            "TopK", [*self.read_arguments(call), count], axis=int(call.attrs.axis), largest=largest
        )
        indices = self.make_unique_name(f"{found}_indices")
        self.nodes[-1].output.append(indices)
        kind = str(call.attrs.dtype)
        if kind != "int64":
            to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
            indices = self.emit("Cast", [indices], to=to)
        return SeveralValues(found, results=(found, indices))

    def scatter(self, call: tvm.ir.Call) -> OnnxValue:
        if str(call.attrs.reduction) != "update":
            raise NotExportableError
        axis = int(call.attrs.axis)
        return OnnxValue(self.emit("ScatterElements", self.read_arguments(call), axis=axis))

    def slice(self, call: tvm.ir.Call) -> OnnxValue:
        axes, begins, ends, *strides = ([int(n.value) for n in part] for part in call.args[1:])
        steps = strides[0] if strides else [1] * len(axes)
        source = self.get_value(call.args[0])
        if source.channels_first:
            rank = len(TO_CHANNELS_FIRST)
            axes = [TO_CHANNELS_FIRST.index(axis % rank) for axis in axes]
        stated = [self.add_constant(np.array(n, "int64")) for n in (begins, ends, axes, steps)]
        return OnnxValue(self.emit("Slice", [source.name, *stated]), source.channels_first)


def to_onnx_shapes(scale: Array, zero_point: Array, integers: str) -> tuple[Array, Array]:
    """Return scale and zero point as ONNX has them: scalars, or one of each for each channel."""
    shape = () if scale.size == 1 else (scale.size,)
    zero_points = np.broadcast_to(zero_point.reshape(-1), (scale.size,))
    return scale.reshape(shape), zero_points.astype(integers).reshape(shape)
