"""Provides the context of an operator's facts: the values of variables, and the images' layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from firmwright.ir.operators import short_name
from firmwright.ir.relax import Constant, operator_name, static_shape

Values = Mapping[relax.Var, relax.Expr]
Facts = dict[str, Any]

BINARY_KINDS = ("add", "subtract", "multiply", "maximum", "minimum", "divide", "power")

LAYOUTS = {
    "relax.nn.conv2d": "data_layout",
    "relax.nn.conv2d_transpose": "data_layout",
    "relax.nn.max_pool2d": "layout",
    "relax.nn.avg_pool2d": "layout",
    "relax.nn.adaptive_avg_pool2d": "layout",
    "relax.image.resize2d": "layout",
}
"""Operators that state the order of an image's axes, and the attribute that states it."""


@dataclass(frozen=True)
class FactContext:
    """The context of facts: the value of each variable of the network, and the layout of images."""

    values: Mapping[relax.Var, relax.Expr]
    layout: str

    def nchw_position(self, axis: int, count: int) -> int:
        """Return the position of an axis, which is the position in NCHW if there are four axes."""
        axis %= count
        return "NCHW".index(self.layout[axis]) if count == 4 else axis


def make_fact_context(bindings: Sequence[relax.VarBinding]) -> FactContext:
    """Return the context of a network.

    The layout is NHWC if the network has operators that state a layout and all of them state NHWC.
    In other cases, the layout is NCHW.
    """
    calls = [b.value for b in bindings if operator_name(b.value) in LAYOUTS]
    stated = {str(getattr(call.attrs, LAYOUTS[operator_name(call)])) for call in calls}
    layout = "NHWC" if stated == {"NHWC"} else "NCHW"
    return FactContext({b.var: b.value for b in bindings}, layout)


def kind_of(call: tvm.ir.Call) -> str:
    """Return the operator's name in rules: Relax's name, except for depthwise convolutions.

    The name is ``constant`` if no operator computes the value.
    """
    name = short_name(call).removeprefix("image.")
    if name == "conv2d" and 1 < int(call.attrs.groups) == count_channels(call):
        return "depthwise_conv2d"
    return name


def count_channels(call: tvm.ir.Call) -> int:
    return static_shape(call.args[0])[str(call.attrs.data_layout).index("C")]


def first_tensor(call: tvm.ir.Call) -> relax.Expr:
    """Return the main operand of an operator; if operands broadcast, the operand with more axes."""
    if kind_of(call) in BINARY_KINDS:
        return max(call.args, key=lambda operand: len(static_shape(operand)))
    first = call.args[1 if operator_name(call) == "relax.call_tir" else 0]
    return first.fields[0] if isinstance(first, relax.Tuple) else first


def is_constant(value: relax.Expr, values: Values) -> bool:
    """Return whether a value is a constant or a dequantized constant."""
    value = values.get(value, value) if isinstance(value, relax.Var) else value
    if isinstance(value, tvm.ir.Call) and short_name(value) == "dequantize":
        return is_constant(value.args[0], values)
    return isinstance(value, Constant)


def locate_axis(call: tvm.ir.Call, network: FactContext) -> Facts:
    """Return the axis along which an operator runs, and its position from the end of NCHW."""
    count = len(static_shape(first_tensor(call)))
    axis = int(call.attrs.axis or 0) % count
    return {"axis": axis, "position_from_end": count - network.nchw_position(axis, count)}


def to_ints(values: Any) -> list[int]:
    return [int(v) for v in values]


def constant_or_computed(arguments: Iterable[relax.Expr], network: FactContext) -> str:
    return "constant" if all(is_constant(a, network.values) for a in arguments) else "computed"
