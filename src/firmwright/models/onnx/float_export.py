"""Exports float operators as ONNX that :mod:`firmwright.models.onnx.export` does not export."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import tvm
from onnx import helper, numpy_helper

from firmwright.ir.operators import short_name
from firmwright.ir.relax import (
    Constant,
    constant_array,
    count_readers,
    dtype_of,
    main_bindings,
    operator_name,
    static_shape,
)
from firmwright.ir.tensors import ModelInterface
from firmwright.models.onnx.export import (
    TO_CHANNELS_FIRST,
    Exporter,
    NotExportableError,
    OnnxValue,
    SeveralValues,
    order_kernel,
    refuse_quantized,
    to_ints,
)

MORE_ELEMENTWISE = {
    f"relax.{name}": name.title() for name in "acos asin asinh atan cos cosh sin sinh tan".split()
}
REDUCTIONS = {f"relax.{name}": f"Reduce{name.title()}" for name in "max min sum mean".split()}
ARG_REDUCTIONS = {"relax.argmax": "ArgMax", "relax.argmin": "ArgMin"}
COMPARISONS = {
    "relax.greater": "Greater", "relax.greater_equal": "GreaterOrEqual", "relax.less": "Less",
    "relax.less_equal": "LessOrEqual", "relax.equal": "Equal", "relax.where": "Where",
    "relax.logical_and": "And", "relax.logical_or": "Or", "relax.logical_xor": "Xor",
    "relax.logical_not": "Not",
}  # fmt: skip
TRANSPOSED = tuple(f"relax.nn.conv{axes}d_transpose" for axes in (1, 2, 3))
RESIZE_ROUNDING = {"round": "round_prefer_floor", "floor": "floor", "ceil": "ceil"}


def export_onnx(module: tvm.IRModule, interface: ModelInterface) -> bytes:
    """Return the network as ONNX, with the names of the interface.

    Raises UserError if the module is quantized, or if an operator cannot be exported.
    """
    refuse_quantized(short_name(b.value) for b in main_bindings(module))
    return FloatExporter(module, interface).run()


class FloatExporter(Exporter):
    def __init__(self, module: tvm.IRModule, interface: ModelInterface) -> None:
        super().__init__(module, interface)
        self.reads = count_readers(module)

    def find_converter(self, name: str) -> Callable[[tvm.ir.Call], OnnxValue]:
        more: dict[str, Callable[[tvm.ir.Call], OnnxValue]] = {
            "relax.add": self.add,
            "relax.astype": self.cast,
            "relax.broadcast_to": self.broadcast,
            "relax.full": self.fill,
            "relax.full_like": self.fill,
            "relax.nn.prelu": self.prelu,
            "relax.nn.group_norm": self.group_norm,
            "relax.nn.instance_norm": self.instance_norm,
            "relax.nn.layer_norm": self.layer_norm,
            "relax.nn.log_softmax": self.log_softmax,
            "relax.nn.gelu": self.gelu,
            "relax.nn.gelu_tanh": self.gelu_tanh,
            "relax.nn.silu": self.silu,
            "relax.image.resize2d": self.resize,
            "relax.strided_slice": self.slice,
            "relax.take": self.gather,
            "relax.tile": self.tile,
            "relax.topk": self.topk,
            "relax.scatter_elements": self.scatter,
            **dict.fromkeys(COMPARISONS, self.compare),
            **dict.fromkeys(TRANSPOSED, self.conv_transpose),
            **dict.fromkeys(MORE_ELEMENTWISE, self.unary),
            **dict.fromkeys(ARG_REDUCTIONS, self.arg_reduction),
            **dict.fromkeys(REDUCTIONS, self.reduction),
            "relax.mean": self.mean,
        }
        return more[name] if name in more else super().find_converter(name)

    def add(self, call: tvm.ir.Call) -> OnnxValue:
        """Write an addition.

        A constant after a transposed convolution becomes the convolution's bias. ONNX Runtime's
        quantizer merges constants only into other convolutions.
        """
        made, bias = call.args
        node = self.nodes[-1] if self.nodes else onnx.NodeProto()
        if node.op_type != "ConvTranspose" or not isinstance(bias, Constant):
            return self.elementwise(call)
        value, shape = self.get_value(made), static_shape(made)
        axis = len(shape) - 1 if value.channels_first else 1
        one_a_channel = [shape[a] if a == axis else 1 for a in range(len(shape))]
        if (
            value.name != node.output[0]
            or self.reads[made] != 1
            or list(static_shape(bias))[-len(shape) :] not in (one_a_channel, one_a_channel[axis:])
        ):
            return self.elementwise(call)
        node.input.append(self.add_constant(constant_array(bias).reshape(-1)))
        return value

    def broadcast(self, call: tvm.ir.Call) -> OnnxValue:
        """Repeat a tensor along axes of length 1.

        A tensor of the requested shape remains unchanged.
        """
        shape = static_shape(call)
        source = self.to_relax_layout(self.get_value(call.args[0]))
        if shape == static_shape(call.args[0]):
            return OnnxValue(source)
        wanted = self.add_constant(np.array(shape, "int64"))
        return OnnxValue(self.emit("Expand", [source, wanted]))

    def fill(self, call: tvm.ir.Call) -> OnnxValue:
        """Write a constant whose elements are equal. The constant has the layer's name."""
        if not isinstance(call.args[1], Constant):
            raise NotExportableError
        number = constant_array(call.args[1])
        array = np.full(static_shape(call), number, dtype_of(call))
        self.constants.append(numpy_helper.from_array(array, self.layer))
        return OnnxValue(self.layer)

    def silu(self, call: tvm.ir.Call) -> OnnxValue:
        """Write x · sigmoid(x), because ONNX does not define SiLU."""
        x = self.get_value(call.args[0])
        gate = self.emit("Sigmoid", [x.name])
        return OnnxValue(self.emit("Mul", [x.name, gate]), x.channels_first)

    def cast(self, call: tvm.ir.Call) -> OnnxValue:
        source = self.get_value(call.args[0])
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype_of(call)))
        return OnnxValue(self.emit("Cast", [source.name], to=kind), source.channels_first)

    def unary(self, call: tvm.ir.Call) -> OnnxValue:
        source = self.get_value(call.args[0])
        kind = MORE_ELEMENTWISE[operator_name(call)]
        return OnnxValue(self.emit(kind, [source.name]), source.channels_first)

    def arg_reduction(self, call: tvm.ir.Call) -> OnnxValue:
        source = self.to_relax_layout(self.get_value(call.args[0]))
        kept, kind = int(call.attrs.keepdims), ARG_REDUCTIONS[operator_name(call)]
        return OnnxValue(self.emit(kind, [source], axis=int(call.attrs.axis), keepdims=kept))

    def reduction(self, call: tvm.ir.Call) -> OnnxValue:
        """Write a reduction.

        Since opset 13 (ReduceSum) or 18 (other reductions), the axes are an input.
        """
        kind, attrs = REDUCTIONS[operator_name(call)], call.attrs
        rank = len(static_shape(call.args[0]))
        axes = range(rank) if attrs.axis is None else to_ints(attrs.axis)
        axes = [axis % rank for axis in axes]
        source, kept = self.to_relax_layout(self.get_value(call.args[0])), int(attrs.keepdims)
        if kind == "ReduceSum" or self.opset >= 18:
            stated = self.add_constant(np.array(axes, "int64"))
            return OnnxValue(self.emit(kind, [source, stated], keepdims=kept))
        return OnnxValue(self.emit(kind, [source], axes=axes, keepdims=kept))

    def conv_transpose(self, call: tvm.ir.Call) -> OnnxValue:
        a = call.attrs
        layout = str(a.data_layout)
        order = order_kernel(str(a.kernel_layout), "IO")
        result = self.emit(
            "ConvTranspose",
            [self.put_channels_first(call.args[0], layout), self.add_kernel(call.args[1], order)],
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
        """Write a normalization per channel.

        A batch axis of length 1 may be among the axes, as in torch.
        """
        shape, attrs = static_shape(call), call.attrs
        along = {axis % len(shape) for axis in to_ints(attrs.axes)}
        along -= {axis for axis, length in enumerate(shape) if length == 1 and axis < 1}
        if int(attrs.channel_axis) % len(shape) != 1 or along != {*range(2, len(shape))}:
            raise NotExportableError
        names = self.read_arguments(call)
        return OnnxValue(self.emit("InstanceNormalization", names, epsilon=float(attrs.epsilon)))

    def group_norm(self, call: tvm.ir.Call) -> OnnxValue:
        """Write a normalization per group as a normalization per channel and a factor per channel.

        Since opset 21, ONNX's GroupNormalization also has factors per channel.
        """
        (count, channels, *others), attrs = static_shape(call), call.attrs
        groups = int(attrs.num_groups)
        along = sorted(axis % (2 + len(others)) for axis in to_ints(attrs.axes))
        if int(attrs.channel_axis) != 1 or along != list(range(2, 2 + len(others))):
            raise NotExportableError
        source, factor, offset = self.read_arguments(call)
        joined, whole, one_a_channel = (
            self.add_constant(np.array(s, "int64"))
            for s in ([count, groups, -1], [count, channels, *others], [-1, *(1 for _ in others)])
        )
        ones, zeros = (
            self.add_constant(np.full(groups, n, dtype_of(call.args[0]))) for n in (1, 0)
        )
        flat = self.emit("Reshape", [source, joined])
        epsilon = float(attrs.epsilon)
        normal = self.emit("InstanceNormalization", [flat, ones, zeros], epsilon=epsilon)
        result = self.emit("Reshape", [normal, whole])
        factor, offset = (self.emit("Reshape", [n, one_a_channel]) for n in (factor, offset))
        return OnnxValue(self.emit("Add", [self.emit("Mul", [result, factor]), offset]))

    def tile(self, call: tvm.ir.Call) -> OnnxValue:
        repeats = to_ints(call.attrs.repeats)
        if len(repeats) != len(static_shape(call.args[0])):
            raise NotExportableError
        stated = self.add_constant(np.array(repeats, "int64"))
        return OnnxValue(self.emit("Tile", [*self.read_arguments(call), stated]))

    def prelu(self, call: tvm.ir.Call) -> OnnxValue:
        """Write a ReLU with a slope per channel. ONNX broadcasts the slopes from the last axis."""
        slopes, rank = call.args[1], len(static_shape(call))
        if not isinstance(slopes, Constant):
            raise NotExportableError
        shape = [-1] + [1] * (rank - 1 - int(call.attrs.axis) % rank)
        slope = self.add_constant(constant_array(slopes).reshape(shape))
        return OnnxValue(
            self.emit("PRelu", [self.to_relax_layout(self.get_value(call.args[0])), slope])
        )

    def gelu(self, call: tvm.ir.Call) -> OnnxValue:
        """Write x / 2 * (1 + erf(x / sqrt(2))), because ONNX has Gelu only since opset 20."""
        x = self.get_value(call.args[0])
        half, one, root = (
            self.add_constant(np.array(c, "float32")) for c in (0.5, 1.0, np.sqrt(2))
        )
        erf = self.emit("Erf", [self.emit("Div", [x.name, root])])
        product = self.emit("Mul", [x.name, self.emit("Add", [erf, one])])
        return OnnxValue(self.emit("Mul", [product, half]), x.channels_first)

    def gelu_tanh(self, call: tvm.ir.Call) -> OnnxValue:
        """Write x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))."""
        x = self.get_value(call.args[0])
        factor, root, one, half = (
            self.add_constant(np.array(c, "float32"))
            for c in (0.044715, np.sqrt(2 / np.pi), 1, 0.5)
        )
        cube = self.emit("Mul", [self.emit("Mul", [x.name, x.name]), x.name])
        total = self.emit("Add", [x.name, self.emit("Mul", [cube, factor])])
        tanh = self.emit("Tanh", [self.emit("Mul", [total, root])])
        product = self.emit("Mul", [x.name, self.emit("Add", [tanh, one])])
        return OnnxValue(self.emit("Mul", [product, half]), x.channels_first)

    def log_softmax(self, call: tvm.ir.Call) -> OnnxValue:
        axis = int(call.attrs.axis)
        return OnnxValue(self.emit("LogSoftmax", self.read_arguments(call), axis=axis))

    def compare(self, call: tvm.ir.Call) -> OnnxValue:
        return OnnxValue(self.emit(COMPARISONS[operator_name(call)], self.read_arguments(call)))

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
            [self.put_channels_first(call.args[0], layout), "", "", size],
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
        values = self.emit(
            "TopK", [*self.read_arguments(call), count], axis=int(call.attrs.axis), largest=largest
        )
        indices = self.make_unique_name(f"{values}_indices")
        self.nodes[-1].output.append(indices)
        kind = str(call.attrs.dtype)
        if kind != "int64":
            to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
            indices = self.emit("Cast", [indices], to=to)
        return SeveralValues(values, results=(values, indices))

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
