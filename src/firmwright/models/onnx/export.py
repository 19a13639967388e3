"""Exports a float Relax module as an ONNX graph, so that one engine quantizes all formats.

Networks from TFLite have channels last, but ONNX's convolutions need channels first. The exporter
transposes a tensor once, before the first convolution. The tensor remains transposed in all
operators whose result does not depend on the order of axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import tvm
from onnx import helper, numpy_helper
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.operators import RESHAPES
from firmwright.ir.relax import (
    Constant,
    constant_array,
    dtype_of,
    find_outputs,
    main_bindings,
    operator_name,
    static_shape,
)
from firmwright.ir.tensors import ModelInterface, Tensor, is_source_name

OPSET = 17
TO_CHANNELS_FIRST = (0, 3, 1, 2)
TO_CHANNELS_LAST = (0, 2, 3, 1)
RESHAPE_OPERATORS = RESHAPES | {"relax.nn.batch_flatten"}
ELEMENTWISE = {
    "relax.nn.relu": "Relu", "relax.sigmoid": "Sigmoid", "relax.tanh": "Tanh", "relax.exp": "Exp",
    "relax.sqrt": "Sqrt", "relax.abs": "Abs", "relax.negative": "Neg", "relax.erf": "Erf",
    "relax.floor": "Floor", "relax.ceil": "Ceil", "relax.round": "Round", "relax.log": "Log",
    "relax.add": "Add", "relax.subtract": "Sub", "relax.multiply": "Mul", "relax.divide": "Div",
    "relax.maximum": "Max", "relax.minimum": "Min", "relax.power": "Pow", "relax.clip": "Clip",
    "relax.nn.leakyrelu": "LeakyRelu",
}  # fmt: skip
CONVOLUTIONS = tuple(f"relax.nn.conv{axes}d" for axes in (1, 2, 3))
POOLS = {
    f"relax.nn.{name}_pool{axes}d": kind
    for name, kind in (("max", "MaxPool"), ("avg", "AveragePool"))
    for axes in (1, 2, 3)
}


class NotExportableError(Exception):
    """Raised for an operator that ONNX does not have, or that the exporter does not write."""


@dataclass(frozen=True)
class OnnxValue:
    """A tensor of the graph.

    ``channels_first`` is true if the exporter transposed channels-last data.
    """

    name: str
    channels_first: bool = False


@dataclass(frozen=True)
class SeveralValues(OnnxValue):
    """The names of the results of an operator with several results."""

    results: tuple[str, ...] = ()


class Exporter:
    refusal = "quantize: operators that cannot be quantized:"
    advice = "  export the model as ONNX, or end it before these operators"
    opset = OPSET

    def __init__(self, module: tvm.IRModule, interface: ModelInterface) -> None:
        self.main = module["main"]
        self.bindings = main_bindings(module)
        self.interface = interface
        self.values: dict[relax.Expr, OnnxValue] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.names = {t.name for t in (*interface.inputs, *interface.outputs)}
        self.layer = ""

    def run(self) -> bytes:
        for parameter, tensor in zip(self.main.params, self.interface.inputs, strict=True):
            self.values[parameter] = self.read_input(tensor)
        refused = []
        for binding in self.bindings:
            if isinstance(binding.value, relax.Var | Constant):
                self.values[binding.var] = self.get_value(binding.value)
                continue
            if isinstance(binding.value, relax.Tuple):
                continue
            if isinstance(binding.value, relax.TupleGetItem):
                self.values[binding.var] = self.pick_result(binding.value)
                continue
            name = operator_name(binding.value)
            variable_name = str(binding.var.name)
            self.layer = self.make_unique_name(
                variable_name if is_source_name(variable_name) else name.rpartition(".")[2]
            )
            try:
                self.values[binding.var] = self.find_converter(name)(binding.value)
            except NotExportableError:
                refused.append(f"  {name.removeprefix('relax.') or 'tuple'} ('{variable_name}')")
                self.values[binding.var] = OnnxValue(self.layer)
        if refused:
            raise UserError("\n".join([self.refusal, *sorted(set(refused)), self.advice]))
        outputs, constants = find_outputs(self.main, self.bindings)
        for binding in constants:
            self.values[binding.var] = self.get_value(binding.value)
        for variable, tensor in zip(outputs, self.interface.outputs, strict=True):
            self.write_output(self.values[variable], tensor)
        inputs, outputs = (
            [make_value_info(tensor) for tensor in tensors]
            for tensors in (self.interface.inputs, self.interface.outputs)
        )
        graph = helper.make_graph(self.nodes, "network", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", self.opset)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return bytes(made.SerializeToString(deterministic=True))

    def pick_result(self, item: relax.TupleGetItem) -> OnnxValue:
        """Return one of several results, or the placeholder of a rejected operator."""
        several = self.values[item.tuple_value]
        if isinstance(several, SeveralValues):
            return OnnxValue(several.results[int(item.index)])
        return several

    def read_input(self, tensor: Tensor) -> OnnxValue:
        return OnnxValue(tensor.name)

    def write_output(self, value: OnnxValue, tensor: Tensor) -> None:
        name = self.to_relax_layout(value)
        self.nodes.append(helper.make_node("Identity", [name], [tensor.name]))

    def find_converter(self, name: str) -> Callable[[tvm.ir.Call], OnnxValue]:
        special: dict[str, Callable[[tvm.ir.Call], OnnxValue]] = {
            **dict.fromkeys(CONVOLUTIONS, self.convolution),
            "relax.matmul": self.matmul,
            "relax.nn.softmax": self.softmax,
            "relax.mean": self.mean,
            "relax.permute_dims": self.permute,
            "relax.concat": self.concat,
            "relax.nn.pad": self.pad,
            "relax.nn.adaptive_avg_pool2d": self.adaptive_average,
            **dict.fromkeys(POOLS, self.pool),
            **dict.fromkeys(RESHAPE_OPERATORS, self.reshape),
            **dict.fromkeys(ELEMENTWISE, self.elementwise),
        }
        if name not in special:
            raise NotExportableError
        return special[name]

    def make_unique_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.names:
            name, number = f"{wanted}_{number}", number + 1
        self.names.add(name)
        return name

    def emit(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = self.layer
        if any(n.name == name for n in self.nodes):
            name = self.make_unique_name(f"{name}_{kind}")
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def add_constant(self, array: npt.NDArray[Any]) -> str:
        name = self.make_unique_name("constant")
        self.constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def get_value(self, argument: relax.Expr) -> OnnxValue:
        if isinstance(argument, Constant) and argument not in self.values:
            self.values[argument] = OnnxValue(self.add_constant(constant_array(argument)))
        return self.values[argument]

    def to_relax_layout(self, value: OnnxValue) -> str:
        """Return the name of the tensor with its axes in Relax's order."""
        if not value.channels_first:
            return value.name
        return self.transpose(value.name, TO_CHANNELS_LAST)

    def transpose(self, name: str, order: tuple[int, ...]) -> str:
        result = self.make_unique_name(f"{name}_transposed")
        self.nodes.append(helper.make_node("Transpose", [name], [result], result, perm=order))
        return result

    def put_channels_first(self, argument: relax.Expr, layout: str) -> str:
        """Return the name of a tensor with channels first.

        ``layout`` is the tensor's layout in Relax. Raises NotExportableError if the layout is not
        supported.
        """
        value = self.get_value(argument)
        if layout in ("NCW", "NCHW", "NCDHW"):
            return self.to_relax_layout(value)
        if layout != "NHWC":
            raise NotExportableError
        return value.name if value.channels_first else self.transpose(value.name, TO_CHANNELS_FIRST)

    def convolution(self, call: tvm.ir.Call) -> OnnxValue:
        a = call.attrs
        layout = str(a.data_layout)
        order = order_kernel(str(a.kernel_layout), "OI")
        result = self.emit(
            "Conv",
            [self.put_channels_first(call.args[0], layout), self.add_kernel(call.args[1], order)],
            strides=to_ints(a.strides),
            pads=to_ints(a.padding),
            dilations=to_ints(a.dilation),
            group=int(a.groups),
        )
        return OnnxValue(result, layout == "NHWC")

    def add_kernel(self, weights: relax.Expr, order: list[int]) -> str:
        if not isinstance(weights, Constant):
            raise NotExportableError
        return self.add_constant(constant_array(weights).transpose(order))

    def pool(self, call: tvm.ir.Call) -> OnnxValue:
        a, kind = call.attrs, POOLS[operator_name(call)]
        layout = str(a.layout)
        counted = (
            {"count_include_pad": int(a.count_include_pad)}
            if kind == "AveragePool"
            else {"dilations": to_ints(a.dilation)}
        )
        result = self.emit(
            kind,
            [self.put_channels_first(call.args[0], layout)],
            kernel_shape=to_ints(a.pool_size),
            strides=to_ints(a.strides),
            pads=to_ints(a.padding),
            ceil_mode=int(a.ceil_mode),
            **counted,
        )
        return OnnxValue(result, layout == "NHWC")

    def adaptive_average(self, call: tvm.ir.Call) -> OnnxValue:
        """Write an average over the image, or over equal parts of the image."""
        layout = str(call.attrs.layout)
        before, after = static_shape(call.args[0]), static_shape(call)
        sizes = [(before[layout.index(axis)], after[layout.index(axis)]) for axis in "HW"]
        if any(whole % parts for whole, parts in sizes):
            raise NotExportableError
        image = self.put_channels_first(call.args[0], layout)
        if all(parts == 1 for _, parts in sizes):
            return OnnxValue(self.emit("GlobalAveragePool", [image]), layout == "NHWC")
        window = [whole // parts for whole, parts in sizes]
        result = self.emit("AveragePool", [image], kernel_shape=window, strides=window)
        return OnnxValue(result, layout == "NHWC")

    def elementwise(self, call: tvm.ir.Call) -> OnnxValue:
        kind = ELEMENTWISE[operator_name(call)]
        if kind == "Clip":
            limits = [np.array(float(a.value)).astype(dtype_of(call)) for a in call.args[1:]]
            source = self.get_value(call.args[0])
            names = [source.name, *(self.add_constant(limit) for limit in limits)]
            return OnnxValue(self.emit(kind, names), source.channels_first)
        if dtype_of(call) != "float32":
            raise NotExportableError
        attributes = {"alpha": float(call.attrs.alpha)} if kind == "LeakyRelu" else {}
        variables = [a for a in call.args if not self.is_constant(a)]
        if not variables or not all(
            self.get_value(v).channels_first and len(static_shape(v)) == 4 for v in variables
        ):
            return OnnxValue(self.emit(kind, self.read_arguments(call), **attributes))
        names = [
            self.add_constant_channels_first(a) if self.is_constant(a) else self.get_value(a).name
            for a in call.args
        ]
        return OnnxValue(self.emit(kind, names, **attributes), True)

    def is_constant(self, argument: relax.Expr) -> bool:
        return isinstance(argument, Constant)

    def add_constant_channels_first(self, argument: relax.Expr) -> str:
        """Convert a constant that broadcasts against channels last to channels first."""
        array = constant_array(argument)
        whole = array.reshape((1,) * (4 - array.ndim) + array.shape)
        return self.add_constant(whole.transpose(TO_CHANNELS_FIRST))

    def read_arguments(self, call: tvm.ir.Call) -> list[str]:
        return [self.to_relax_layout(self.get_value(a)) for a in call.args]

    def matmul(self, call: tvm.ir.Call) -> OnnxValue:
        return OnnxValue(self.emit("MatMul", self.read_arguments(call)))

    def softmax(self, call: tvm.ir.Call) -> OnnxValue:
        axis = int(call.attrs.axis)
        return OnnxValue(self.emit("Softmax", self.read_arguments(call), axis=axis))

    def mean(self, call: tvm.ir.Call) -> OnnxValue:
        rank = len(static_shape(call.args[0]))
        axes = range(rank) if call.attrs.axis is None else to_ints(call.attrs.axis)
        axes = [axis % rank for axis in axes]
        source, kept = self.get_value(call.args[0]), int(call.attrs.keepdims)
        image = [1, 2] if source.channels_first else [2, 3]
        if rank == 4 and kept and sorted(axes) == image:  # ONNX Runtime quantizes GlobalAveragePool
            return OnnxValue(self.emit("GlobalAveragePool", [source.name]), source.channels_first)
        if source.channels_first and (kept or sorted(axes) == [1, 2]):
            axes = [TO_CHANNELS_FIRST.index(axis) for axis in axes]
            result = self.emit("ReduceMean", [source.name], axes=sorted(axes), keepdims=kept)
            return OnnxValue(result, bool(kept))
        name = self.to_relax_layout(source)
        return OnnxValue(self.emit("ReduceMean", [name], axes=axes, keepdims=kept))

    def reshape(self, call: tvm.ir.Call) -> OnnxValue:
        shape = self.add_constant(np.array(static_shape(call), "int64"))
        source = self.to_relax_layout(self.get_value(call.args[0]))
        return OnnxValue(self.emit("Reshape", [source, shape]))

    def permute(self, call: tvm.ir.Call) -> OnnxValue:
        axes = call.attrs.axes
        order = list(range(len(static_shape(call))))[::-1] if axes is None else to_ints(axes)
        return OnnxValue(self.emit("Transpose", self.read_arguments(call), perm=order))

    def concat(self, call: tvm.ir.Call) -> OnnxValue:
        fields = [self.get_value(f) for f in call.args[0].fields]
        axis = int(call.attrs.axis) % len(static_shape(call))
        if all(f.channels_first for f in fields):
            names = [f.name for f in fields]
            return OnnxValue(self.emit("Concat", names, axis=TO_CHANNELS_FIRST.index(axis)), True)
        return OnnxValue(self.emit("Concat", [self.to_relax_layout(f) for f in fields], axis=axis))

    def pad(self, call: tvm.ir.Call) -> OnnxValue:
        widths = np.array(to_ints(call.attrs.pad_width), "int64").reshape(-1, 2)
        source = self.get_value(call.args[0])
        if str(call.attrs.pad_mode) != "constant":
            raise NotExportableError
        if source.channels_first:
            widths = widths[list(TO_CHANNELS_FIRST)]
        amount = self.add_constant(widths.T.reshape(-1))
        filler = self.add_constant(np.array(float(call.attrs.pad_value)).astype(dtype_of(call)))
        return OnnxValue(self.emit("Pad", [source.name, amount, filler]), source.channels_first)


def make_value_info(tensor: Tensor) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
    return helper.make_tensor_value_info(tensor.name, kind, tensor.shape)


def order_kernel(layout: str, first: str) -> list[int]:
    """Return the positions of the axes in ``layout``: the axes ``first``, then the window's
    axes."""
    window = [axis for axis in "DHW" if axis in layout]
    return [layout.index(axis) for axis in (*first, *window)]


def to_ints(values: Any) -> list[int]:
    return [int(v) for v in values]


PER_CHANNEL_OPSET = 13
"""The first operator set in which DequantizeLinear has an axis."""


NEWER_TYPES_OPSET = 21
"""The first operator set in which QuantizeLinear supports integers of 16 and 4 bits."""


QUANTIZE_OPERATORS = frozenset(("QuantizeLinear", "DequantizeLinear", "quantize", "dequantize"))


def refuse_quantized(operators: Iterable[str]) -> None:
    """Raise UserError if an operator quantizes or dequantizes."""
    names = sorted(QUANTIZE_OPERATORS.intersection(operators))
    if names:
        raise UserError(
            f"quantize: the model is already quantized: it has {' and '.join(names)}; leave the "
            "key out, start from the float model, add `search`, or write `scheme: pow2` and "
            "`arithmetic: shift`"
        )
