"""Finds convolutions and matrix products of 8-bit integers with constant weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.ir.chains import (
    BYTES,
    CONVOLUTION,
    INT32_LIMIT,
    PRODUCT,
    is_dequantized,
    is_dequantized_constant,
    is_per_tensor,
)
from firmwright.ir.quant_params import QuantParams, read_quant_params
from firmwright.ir.relax import (
    Constant,
    constant_array,
    count_readers,
    main_bindings,
    operator_name,
    static_shape,
)
from firmwright.transforms.convolutions import is_per_channel

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Values = Mapping[relax.Var, relax.Expr]


@dataclass(frozen=True)
class Layouts:
    """The axes of a layer's operands and result as letters. The weights have O and I."""

    data: str
    weights: str
    result: str


@dataclass(frozen=True)
class QuantizedLayer:
    """A layer scale · (weights · (data - zero point) + bias) whose sums fit int32.

    ``call`` is the convolution or product. ``result`` is the variable of the sums with the bias.
    ``params`` are the quantization parameters of the data. ``weights``, minus the zero points, are
    (O, I, elements of the window). In a depthwise convolution, I is 1. ``bias`` has one number per
    channel. ``scale`` has one number or O numbers.
    """

    call: tvm.ir.Call
    result: relax.Var
    layouts: Layouts
    params: QuantParams
    dequantized_weights: tvm.ir.Call
    weights: Integers
    bias: Integers
    scale: Reals

    @property
    def source(self) -> relax.Var:
        """The variable of the dequantized data."""
        return self.call.args[0]

    @property
    def source_axis(self) -> int:
        return self.layouts.data.index("C")

    @property
    def result_axis(self) -> int:
        return self.layouts.result.index("C")

    @property
    def is_depthwise(self) -> bool:
        return operator_name(self.call) == CONVOLUTION and int(self.call.attrs.groups) > 1

    @property
    def is_padded(self) -> bool:
        return operator_name(self.call) == CONVOLUTION and any(
            int(p) for p in self.call.attrs.padding
        )


def find_layers(module: tvm.IRModule) -> dict[relax.Var, QuantizedLayer]:
    """Map the variables of sums without a bias to the layers of ``main``."""
    bindings = main_bindings(module)
    values = {b.var: b.value for b in bindings}
    biases = find_added(bindings)
    uses = count_readers(module)
    layers = {}
    for binding in bindings:
        layer = match_layer(binding, values)
        added = biases.get(binding.var)
        if layer is not None and added is not None and uses[binding.var] == 1:
            layer = match_bias(layer, added, values)
        if layer is not None and fits_int32(layer):
            layers[binding.var] = layer
    return layers


def find_added(bindings: Iterable[relax.VarBinding]) -> dict[relax.Var, relax.VarBinding]:
    adds = [b for b in bindings if operator_name(b.value) == "relax.add"]
    return {a: b for b in adds for a in b.value.args if isinstance(a, relax.Var)}


def match_layer(binding: relax.VarBinding, values: Values) -> QuantizedLayer | None:
    """Return the layer of a convolution or product without its bias, or None."""
    call = binding.value
    layouts = read_layouts(call)
    if layouts is None:
        return None
    data, weights = (values.get(a, a) for a in call.args)
    if not (is_dequantized(data) and is_per_tensor(data) and is_dequantized_constant(weights)):
        return None
    if isinstance(data.args[0], Constant):
        return None
    params, numbers = read_quant_params(data), read_weights(weights, layouts.weights)
    if params.dtype not in BYTES or numbers is None:
        return None
    scale = params.scale * constant_array(weights.args[1]).reshape(-1).astype("float64")
    bias = np.zeros(len(numbers), "int64")
    return QuantizedLayer(call, binding.var, layouts, params, weights, numbers, bias, scale)


def read_weights(dequantized: tvm.ir.Call, layout: str) -> Integers | None:
    """Return 8-bit weights minus the zero points as (O, I, elements of the window).

    None for other weights, and if the scales do not belong to the output channels.
    """
    stored, scale, points = (constant_array(a) for a in dequantized.args)
    channels = layout.index("O")
    per_channel = int(dequantized.attrs.axis) % stored.ndim == channels
    if str(stored.dtype) not in BYTES or (max(scale.size, points.size) > 1 and not per_channel):
        return None
    along = [-1 if letter == "O" else 1 for letter in layout]
    shifts = points.astype("int64").reshape(along if points.size > 1 else ())
    window = [axis for axis, letter in enumerate(layout) if letter not in "OI"]
    ordered = (stored.astype("int64") - shifts).transpose(channels, layout.index("I"), *window)
    numbers: Integers = ordered.reshape(*ordered.shape[:2], -1)
    return numbers


def read_layouts(call: relax.Expr) -> Layouts | None:
    """Return the layouts of a matrix product, or of an ungrouped or depthwise convolution.

    None for other operators.
    """
    if operator_name(call) == PRODUCT:
        plain = all(len(static_shape(a)) == 2 for a in call.args)
        return Layouts("NC", "IO", "NC") if plain else None
    if operator_name(call) != CONVOLUTION:
        return None
    names = (call.attrs.data_layout, call.attrs.kernel_layout, call.attrs.out_layout)
    data, weights, result = (str(name) for name in names)
    layouts = Layouts(data, weights, result or data)
    groups, shape = int(call.attrs.groups), static_shape(call.args[0])
    channels = shape[data.index("C")], static_shape(call)[layouts.result.index("C")]
    return layouts if groups == 1 or channels == (groups, groups) else None


def match_bias(
    layer: QuantizedLayer, added: relax.VarBinding, values: Values
) -> QuantizedLayer | None:
    """Return the layer with the added bias, or None if the constant is not a suitable bias."""
    operands = [values.get(a, a) for a in added.value.args]
    constants = [o for o in operands if is_dequantized_constant(o)]
    if not constants:
        return layer
    bias, scale, points = (constant_array(a) for a in constants[0].args)
    is_bias = (
        bias.dtype == "int32"
        and not points.any()
        and is_per_channel(bias, layer.layouts.result)
        and static_shape(added.var) == static_shape(layer.call)
        and np.allclose(layer.scale, scale.reshape(-1), rtol=1e-5, atol=0.0)
    )
    if not is_bias:
        return None
    numbers = np.broadcast_to(bias.reshape(-1).astype("int64"), layer.bias.shape)
    return replace(layer, result=added.var, bias=numbers)


def fits_int32(layer: QuantizedLayer) -> bool:
    """Return whether all sums over some of the terms fit 32 bits, for any data.

    Terms may move to the bias if the sums fit, because the layer is computed in integers before and
    after the change. The layer's bias must also have the float32 scale of the sums.
    """
    reach = max(abs(limit - layer.params.zero_point) for limit in layer.params.limits)
    terms = layer.weights[0].size
    largest = terms * reach * int(abs(layer.weights).max()) + int(abs(layer.bias).max())
    stored: Any = layer.scale.astype("float32")
    return largest < INT32_LIMIT and np.allclose(stored, layer.scale, rtol=1e-6, atol=0.0)
