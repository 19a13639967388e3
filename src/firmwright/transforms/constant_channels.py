"""Removes channels of a quantized network that have one value for every input.

Interval arithmetic proves that a channel is constant, such as a ReLU after a bias far below zero.
The channel's part of the sums is added to the bias of each layer that reads the channel. The
channel is removed from the layer that computes it. The bits of the outputs do not change for any
rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.ir.chains import CONVOLUTION
from firmwright.ir.operators import RESHAPES
from firmwright.ir.relax import (
    bind,
    constant_array,
    main_bindings,
    operator_name,
    read_variables,
    rewrite_bindings,
    static_shape,
)
from firmwright.transforms.channel_ranges import Ranges, find_ranges, read_integers
from firmwright.transforms.convolutions import rebuild_conv
from firmwright.transforms.quantized_layers import Integers, QuantizedLayer, find_layers

Channels: TypeAlias = npt.NDArray[np.bool_]
"""One Boolean per channel of a tensor: whether the channel is selected."""

Bind = Callable[[relax.Expr], relax.Var]


def remove_constant_channels(module: tvm.IRModule) -> tvm.IRModule:
    """Move the effect of constant channels into the biases of the layers that read them."""
    bindings, layers = main_bindings(module), find_layers(module)
    ranges = find_ranges(bindings, layers)
    read = find_read_channels(module, layers, ranges)
    kept = choose_channels(bindings, layers, read)
    if all(channels.all() for channels in kept.values()):
        return module
    return rewrite_bindings(module, Remover(layers, ranges, kept).rewrite)


def find_read_channels(
    module: tvm.IRModule,
    layers: Mapping[relax.Var, QuantizedLayer],
    ranges: Mapping[relax.Var, Ranges],
) -> dict[relax.Var, Channels]:
    """Return the channels of each tensor on which the network's outputs depend."""
    read = {variable: np.zeros(r.low.size, bool) for variable, r in ranges.items()}
    results = {layer.result for layer in layers.values()}

    def mark(variable: relax.Var, channels: Channels | bool) -> None:
        if variable in read:
            read[variable] |= channels

    for variable in read_variables(module["main"].body.body):
        mark(variable, True)
    for binding in reversed(main_bindings(module)):
        layer = layers.get(binding.var)
        if layer is not None:
            mark(layer.source, find_layer_reads(layer, ranges.get(layer.source), read))
        elif binding.var in read and binding.var not in results:
            mark(binding.value.args[0], read[binding.var])
        else:
            for variable in read_variables(binding.value):
                mark(variable, True)
    return read


def find_layer_reads(
    layer: QuantizedLayer, source: Ranges | None, read: Mapping[relax.Var, Channels]
) -> Channels | bool:
    """Return the channels that a layer must read.

    Padding is zero. If the layer pads, a constant channel adds equal numbers to all sums only if
    the channel is zero.
    """
    if source is None or source.axis != layer.source_axis:
        return True
    if layer.is_depthwise:
        return read[layer.result]
    spared = source.is_constant & (source.low == 0) if layer.is_padded else source.is_constant
    return ~spared


def choose_channels(
    bindings: Sequence[relax.VarBinding],
    layers: Mapping[relax.Var, QuantizedLayer],
    read: Mapping[relax.Var, Channels],
) -> dict[relax.Var, Channels]:
    """Return the channels that each tensor keeps because a reader needs them."""
    by_result = {layer.result: layer for layer in layers.values()}
    kept: dict[relax.Var, Channels] = {}
    for binding in bindings:
        if binding.var not in read:
            continue
        layer = by_result.get(binding.var)
        if layer is None:
            kept[binding.var] = kept[binding.value.args[0]]
        elif layer.is_depthwise:
            everything = np.ones(len(layer.bias), bool)
            kept[binding.var] = kept.get(layer.source, everything)
        else:
            kept[binding.var] = keep_some(read[binding.var], 2 if layer.scale.size > 1 else 1)
    return kept


def keep_some(channels: Channels, least: int) -> Channels:
    """Return the channels, and other channels until there are at least ``least`` channels.

    The rule for ties differs between a layer with one factor and a layer with a factor per channel.
    Therefore a layer with a factor per channel keeps at least two channels.
    """
    missing = max(least - int(channels.sum()), 0)
    first = np.flatnonzero(~channels)[:missing]
    some = channels.copy()
    some[first] = True
    return some


class Remover:
    """Rebuilds the layers, and the operators between layers, with the remaining channels."""

    def __init__(
        self,
        layers: Mapping[relax.Var, QuantizedLayer],
        ranges: Mapping[relax.Var, Ranges],
        kept: Mapping[relax.Var, Channels],
    ) -> None:
        self.layers, self.ranges, self.kept = layers, ranges, kept
        self.narrowed: dict[relax.Var, relax.Var] = {}
        self.rebuilt: set[relax.Var] = set()

    def rewrite(self, binding: relax.VarBinding) -> list[relax.VarBinding]:
        """Return the new bindings of a binding. A bias is added together with the layer."""
        layer = self.layers.get(binding.var)
        if layer is not None:
            return self.rewrite_layer(binding, layer)
        if binding.var in self.rebuilt:
            return []
        if binding.var not in self.kept or binding.value.args[0] not in self.narrowed:
            return [binding]
        shape = list(static_shape(binding.var))
        shape[self.ranges[binding.var].axis] = int(self.kept[binding.var].sum())
        source = self.narrowed[binding.value.args[0]]
        return [self.bind_result(binding.var, rebuild_call(binding.value, source, shape))]

    def rewrite_layer(
        self, binding: relax.VarBinding, layer: QuantizedLayer
    ) -> list[relax.VarBinding]:
        inside = self.kept.get(layer.source, np.ones(layer.weights.shape[1], bool))
        outside = self.kept[layer.result]
        if inside.all() and outside.all():
            return [binding]
        bindings: list[relax.VarBinding] = []

        def add(expression: relax.Expr) -> relax.Var:
            return bind(bindings, expression, str(binding.var.name))

        source = self.narrowed.get(layer.source, layer.source)
        bias = layer.bias
        if not layer.is_depthwise:
            bias = bias + sum_constants(layer, self.ranges.get(layer.source), ~inside)
        result = rebuild_sums(layer, source, add(select_weights(layer, inside, outside)))
        if layer.result is not binding.var or bias.any():
            result = relax.op.add(add(result), add(make_bias(layer, bias[outside], outside)))
        self.rebuilt.add(layer.result)
        return [*bindings, self.bind_result(layer.result, result)]

    def bind_result(self, variable: relax.Var, expression: relax.Expr) -> relax.VarBinding:
        """Bind a value to a variable. The variable is new if the value has fewer channels."""
        value = relax.BlockBuilder().normalize(expression)
        if not self.kept[variable].all():
            self.narrowed[variable] = type(variable)(variable.name, value.ty)
        return relax.VarBinding(self.narrowed.get(variable, variable), value)


def sum_constants(layer: QuantizedLayer, source: Ranges | None, gone: Channels) -> Integers:
    """Return the part of each sum of a layer that the constant channels ``gone`` add."""
    if not gone.any():
        return np.zeros_like(layer.bias)
    constants, _ = read_integers(layer, source)
    added: Integers = layer.weights.sum(axis=2)[:, gone] @ constants[gone]
    return added


def select_weights(layer: QuantizedLayer, inside: Channels, outside: Channels) -> relax.Expr:
    stored, *params = (constant_array(a) for a in layer.dequantized_weights.args)
    stored = np.compress(outside, stored, layer.layouts.weights.index("O"))
    if not layer.is_depthwise:
        stored = np.compress(inside, stored, layer.layouts.weights.index("I"))
    scale, points = (a[outside] if a.size > 1 else a for a in params)
    attrs = layer.dequantized_weights.attrs
    constants = (relax.const(np.ascontiguousarray(a)) for a in (stored, scale, points))
    return relax.op.dequantize(*constants, int(attrs.axis), str(attrs.out_dtype))


def make_bias(layer: QuantizedLayer, bias: Integers, outside: Channels) -> relax.Expr:
    """Return the dequantized bias of the remaining channels, with the scales of the sums."""
    along = [1] * len(layer.layouts.result)
    along[layer.result_axis] = -1
    stored = relax.const(bias.astype("int32").reshape(along))
    scales: npt.NDArray[Any] = layer.scale.astype("float32")
    scale = relax.const(scales[outside] if scales.size > 1 else scales.reshape(()))
    return relax.op.dequantize(stored, scale, relax.const(0, "int32"), layer.result_axis)


def rebuild_sums(layer: QuantizedLayer, source: relax.Var, weights: relax.Var) -> relax.Expr:
    if operator_name(layer.call) != CONVOLUTION:
        return rebuild_call(layer.call, source, (), weights)
    groups = static_shape(source)[layer.source_axis] if layer.is_depthwise else 1
    return rebuild_conv(layer.call, source, weights, groups=groups)


def rebuild_call(
    call: tvm.ir.Call, source: relax.Var, shape: Sequence[int], *others: relax.Expr
) -> relax.Expr:
    """Return a call with a new first operand. ``shape`` is the new shape of a reshape."""
    if operator_name(call) in RESHAPES:
        return relax.op.reshape(source, shape)
    return tvm.ir.Call(call.op, [source, *(others or call.args[1:])], call.attrs, call.ty_args)
