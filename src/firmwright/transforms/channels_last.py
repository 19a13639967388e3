"""Moves the channels of convolutions to the last axis, as the forms of device ``c`` require.

In ONNX's layout, channels precede the image. A tensor changes its layout only before an operator
that supports only one layout. Elementwise operators, pools, resizes and concatenations use the
layout of their operands. The computation of each element does not change.

A one-dimensional convolution becomes a convolution of images of height 1.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import tvm
from tvm import relax, tirx

from firmwright.ir.operators import ELEMENTWISE
from firmwright.ir.relax import (
    TO_FIRST,
    TO_LAST,
    Constant,
    dtype_of,
    emit_with_name,
    main_bindings,
    operator_name,
    read_variables,
    replace_main,
    replace_variables,
    state_type,
    static_shape,
)
from firmwright.transforms.layout_of_constants import fold_layout_of_constants

CHANNELS_FIRST = {"relax.nn.conv1d": "NCW", "relax.nn.conv2d": "NCHW"}
CONVERSIONS = ("relax.dequantize", "relax.quantize")
POOLS = ("relax.nn.max_pool2d", "relax.nn.avg_pool2d")
REDUCTIONS = ("relax.mean", "relax.max", "relax.min", "relax.sum")


def use_channels_last(module: tvm.IRModule) -> tvm.IRModule:
    """Return the module, in which convolutions that forms compute have the layout NHWC.

    The forms compute quantized convolutions. The forms also compute float32 convolutions with two
    dimensions, constant weights, and either one group or as many groups as channels. The module is
    returned unchanged if no convolution has another layout.
    """
    values = {b.var: b.value for b in main_bindings(module)}
    if not any(is_movable(value, values) for value in values.values()):
        return module
    return fold_layout_of_constants(ChannelsLast(module, values).run())


def is_movable(value: relax.Expr, values: dict[relax.Var, relax.Expr]) -> bool:
    """Return whether a value is a convolution with channels first that a form may compute."""
    layout = CHANNELS_FIRST.get(operator_name(value))
    if layout is None or str(value.attrs.data_layout) != layout:
        return False
    read = values.get(value.args[0])
    if read is not None and operator_name(read) == "relax.dequantize":
        return dtype_of(read.args[0]) in ("int8", "uint8")
    weights = values.get(value.args[1], value.args[1])
    groups, channels = int(value.attrs.groups), static_shape(value.args[0])[1]
    fits = layout == "NCHW" and (groups == 1 or groups == channels == static_shape(value)[1])
    return fits and isinstance(weights, Constant) and dtype_of(value) == "float32"


def permute(tensor: relax.Expr, axes: tuple[int, ...]) -> relax.Expr:
    """Change a layout. A tensor of one channel or one pixel is only reshaped."""
    shape = static_shape(tensor)
    pixels, channels = (shape[2:], shape[1]) if axes == TO_LAST else (shape[1:3], shape[3])
    if channels == 1 or prod(pixels) == 1:
        return relax.op.reshape(tensor, [shape[axis] for axis in axes])
    return relax.op.permute_dims(tensor, axes)


def state_last_type(moved: tvm.ir.Call, call: tvm.ir.Call) -> tvm.ir.Call:
    """Set the type of a call with channels last. ``call`` is the model's call with 3 or 4 axes."""
    batch, channels, *pixels = static_shape(call)
    shape = (batch, *([1] if len(pixels) == 1 else []), *pixels, channels)
    return state_type(moved, shape, dtype_of(call))


def read_axes(call: tvm.ir.Call) -> tuple[int, ...]:
    """Return the axes of a permutation, or () if the permutation reverses all axes."""
    axes = call.attrs.axes
    return () if axes is None else tuple(int(a) for a in axes)


class ChannelsLast:
    """Rebuilds ``main``; use :func:`use_channels_last`.

    ``first`` and ``last`` map each old variable to the new variable in the layout with channels
    first or last.
    """

    def __init__(self, module: tvm.IRModule, values: dict[relax.Var, relax.Expr]) -> None:
        self.module, self.values = module, values
        called = {v: f for v, f in module.functions.items() if isinstance(f, tirx.PrimFunc)}
        self.builder = relax.BlockBuilder(tvm.IRModule(called))
        self.first: dict[relax.Var, relax.Expr] = {p: p for p in module["main"].params}
        self.last: dict[relax.Var, relax.Expr] = {}

    def run(self) -> tvm.IRModule:
        main = self.module["main"]
        with self.builder.function("main", list(main.params)):
            with self.builder.dataflow():
                for variable, value in self.values.items():
                    self.translate(variable, value)
                result = self.builder.emit_output(self.read_first(main.body.body))
            self.builder.emit_func_output(result)
        rebuilt = self.builder.get()["main"].with_attrs(main.attrs)
        return replace_main(self.module, rebuilt)

    def translate(self, variable: relax.Var, value: relax.Expr) -> None:
        name = str(variable.name)
        make = self.choose_operator(value)
        moved = make(value) if make else None
        if moved is not None:
            self.last[variable] = emit_with_name(self.builder, moved, name)
            return
        kept = self.undo_permutation(value)
        kept = self.drop_pixels(value) if kept is None else kept
        kept = self.read_first(value) if kept is None else kept
        self.first[variable] = emit_with_name(self.builder, kept, name)

    def choose_operator(
        self, value: relax.Expr
    ) -> Callable[[tvm.ir.Call], relax.Expr | None] | None:
        """Return the method that builds an operator with channels last, or None."""
        name = operator_name(value)
        if is_movable(value, self.values):
            return self.convolve
        if not any(v in self.last for v in read_variables(value)):
            return None
        if name in POOLS:
            return self.pool
        if name in REDUCTIONS:
            return self.reduce_pixels
        return {
            "relax.concat": self.concatenate,
            "relax.image.resize2d": self.resize,
            **dict.fromkeys((*CONVERSIONS, "relax.nn.prelu"), self.compute_along_axis),
        }.get(name, self.compute_elements if name in ELEMENTWISE else None)

    def read_first(self, value: relax.Expr) -> relax.Expr:
        """Return a value whose variables have the layout of the model."""

        def read(variable: relax.Var) -> relax.Expr:
            if variable not in self.first and variable in self.last:
                self.first[variable] = self.builder.emit(self.move_first(variable))
            return self.first.get(variable, variable)

        return replace_variables(value, read)

    def move_last(self, value: relax.Expr) -> relax.Expr:
        """Move the channels of a tensor (N, C, H, W) or (N, C, W) to the last axis."""
        shape = static_shape(value)
        if len(shape) == 3:
            value = self.builder.emit(relax.op.reshape(value, (*shape[:2], 1, shape[2])))
        return permute(value, TO_LAST)

    def move_first(self, variable: relax.Var) -> relax.Expr:
        """Move the channels of a variable from the last axis to their position in the model."""
        moved = permute(self.last[variable], TO_FIRST)
        shape = static_shape(variable)
        return relax.op.reshape(self.builder.emit(moved), shape) if len(shape) == 3 else moved

    def read_last(self, value: relax.Expr) -> relax.Expr:
        """Return a tensor of three or four axes as a tensor of four axes with channels last.

        The layout of the operand changes if the tensor is the result of a quantize or dequantize.
        This order moves fewer bytes, and may undo a change of layout at the start of the model.
        """
        if not isinstance(value, relax.Var):
            return self.move_last(value)
        if value not in self.last:
            source = self.values.get(value)
            name = operator_name(source)
            if source is None:
                moved = self.move_last(self.read_first(value))
            elif name in CONVERSIONS and all(prod(static_shape(a)) == 1 for a in source.args[1:]):
                arguments = [self.read_last(source.args[0]), *source.args[1:]]
                moved = tvm.ir.Call(source.op, arguments, source.attrs)
            elif name == "relax.permute_dims" and read_axes(source) == TO_FIRST:
                moved = self.read_first(source.args[0])
            else:
                moved = self.move_last(self.read_first(value))
            self.last[value] = self.builder.emit(moved)
        return self.last[value]

    def convolve(self, call: tvm.ir.Call) -> relax.Expr | None:
        attrs = call.attrs
        layout = str(attrs.kernel_layout)
        kernel = self.read_first(call.args[1])
        strides, padding, dilation = (
            [int(n) for n in numbers] for numbers in (attrs.strides, attrs.padding, attrs.dilation)
        )
        if len(layout) == 3:
            kernel = self.builder.emit(relax.op.expand_dims(kernel, 0))
            layout = f"H{layout}"
            strides, dilation = [1, *strides], [1, *dilation]
            padding = [0, padding[0], 0, padding[1]]
        kernel = relax.op.permute_dims(kernel, [layout.index(axis) for axis in "OHWI"])
        moved = relax.op.nn.conv2d(
            self.read_last(call.args[0]),
            self.builder.emit(kernel),
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=attrs.groups,
            data_layout="NHWC",
            kernel_layout="OHWI",
            out_layout="NHWC",
            out_dtype=attrs.out_dtype,
        )
        return state_last_type(moved, call)

    def compute_elements(self, call: tvm.ir.Call) -> relax.Expr | None:
        """Compute elements with channels last.

        Return None if a broadcast tensor has another rank.
        """
        arguments, rank = [], len(static_shape(call))
        if rank not in (3, 4):
            return None
        for index, argument in enumerate(call.args):
            if not isinstance(argument, relax.Var | Constant):
                arguments.append(argument)
                continue
            shape = static_shape(argument)
            if len(shape) == rank:
                arguments.append(self.read_last(argument))
            elif all(length == 1 for length in shape) and index > 0:
                arguments.append(self.read_first(argument))
            elif isinstance(argument, Constant) and len(shape) < rank:
                whole = relax.op.reshape(argument, [1] * (rank - len(shape)) + list(shape))
                arguments.append(self.read_last(self.builder.emit(whole)))
            else:
                return None
        return tvm.ir.Call(call.op, arguments, call.attrs, call.ty_args)

    def compute_along_axis(self, call: tvm.ir.Call) -> relax.Expr | None:
        """Move the axis of slopes, scales and zero points, which have only this axis."""
        data, *others = call.args
        rank = len(static_shape(data))
        if all(prod(static_shape(other)) == 1 for other in others):
            return self.compute_elements(call)
        if rank not in (3, 4):
            return None
        order = TO_LAST if rank == 4 else (0, -1, 2, 1)
        axis = order.index(int(call.attrs.axis) % rank)
        arguments = [self.read_last(data), *(self.read_first(other) for other in others)]
        if operator_name(call) == "relax.nn.prelu":
            return relax.op.nn.prelu(*arguments, axis)
        convert = getattr(relax.op, operator_name(call).rpartition(".")[2])
        return convert(*arguments, axis, call.attrs.out_dtype)

    def pool(self, call: tvm.ir.Call) -> relax.Expr | None:
        attrs = call.attrs
        if str(attrs.layout) != "NCHW":
            return None
        options = {
            name: getattr(attrs, name)
            for name in ("pool_size", "strides", "padding", "dilation", "ceil_mode",
                         "count_include_pad")
        }  # fmt: skip
        operator = getattr(relax.op.nn, operator_name(call).rpartition(".")[2])
        moved = operator(self.read_last(call.args[0]), **options, layout="NHWC", out_layout="NHWC")
        return state_last_type(moved, call)

    def resize(self, call: tvm.ir.Call) -> relax.Expr | None:
        attrs = call.attrs
        if str(attrs.layout) != "NCHW":
            return None
        options = {
            name: getattr(attrs, name)
            for name in ("method", "coordinate_transformation_mode", "rounding_method",
                         "cubic_alpha", "cubic_exclude", "extrapolation_value", "out_dtype")
        }  # fmt: skip
        roi = tuple(float(getattr(edge, "value", edge)) for edge in attrs.roi)
        return relax.op.image.resize2d(
            self.read_last(call.args[0]), call.args[1], roi=roi, layout="NHWC", **options
        )

    def concatenate(self, call: tvm.ir.Call) -> relax.Expr | None:
        axis = call.attrs.axis
        fields = getattr(call.args[0], "fields", ())
        if axis is None or not fields or len(static_shape(fields[0])) != 4:
            return None
        moved = TO_LAST.index(int(axis) % 4)
        return relax.op.concat(relax.Tuple([self.read_last(f) for f in fields]), moved)

    def undo_permutation(self, value: relax.Expr) -> relax.Expr | None:
        """Return the existing tensor that a permutation to channels last produces, or None.

        An earlier rewrite emits these permutations.
        """
        if operator_name(value) != "relax.permute_dims" or read_axes(value) != TO_LAST:
            return None
        return self.last.get(value.args[0])

    def reduce_pixels(self, call: tvm.ir.Call) -> relax.Expr | None:
        """Reduce height and width to one pixel. Return None for other or removed axes.

        Therefore a squeeze-and-excitation block quantizes averages without a change of their
        layout.
        """
        return self.reduce(call, True) if call.attrs.keepdims else None

    def drop_pixels(self, value: relax.Expr) -> relax.Expr | None:
        """Return a result without height and width, which has no layout, or None.

        The result is a reshape of single pixels, or a reduction of height and width.
        """
        name = operator_name(value)
        if name not in ("relax.reshape", *REDUCTIONS) or value.args[0] not in self.last:
            return None
        if name in REDUCTIONS:
            return None if value.attrs.keepdims else self.reduce(value, False)
        moved = self.last[value.args[0]]
        single = static_shape(moved)[1:3] == (1, 1)
        arguments = [moved, *value.args[1:]]
        return tvm.ir.Call(value.op, arguments, value.attrs, value.ty_args) if single else None

    def reduce(self, call: tvm.ir.Call, keepdims: bool) -> relax.Expr | None:
        """Reduce height and width of a tensor with channels last. Return None for other axes."""
        axes, rank = call.attrs.axis, len(static_shape(call.args[0]))
        if axes is None or sorted(int(a) % rank for a in axes) != [*range(2, rank)]:
            return None
        operator = getattr(relax.op, operator_name(call).rpartition(".")[2])
        return operator(self.last[call.args[0]], [1, 2], keepdims)
