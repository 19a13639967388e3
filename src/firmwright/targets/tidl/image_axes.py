"""Which axis of a tensor is which: TIDL counts an image's as NCHW, models also have NHWC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import relax

from firmwright.ir.relax import operator_name

LAYOUTS = {
    "relax.nn.conv2d": "data_layout",
    "relax.nn.conv2d_transpose": "data_layout",
    "relax.nn.max_pool2d": "layout",
    "relax.nn.avg_pool2d": "layout",
    "relax.nn.adaptive_avg_pool2d": "layout",
    "relax.image.resize2d": "layout",
}
"""Operators that state how an image's axes are ordered, and their attribute that does."""


@dataclass(frozen=True)
class FactContext:
    """What an operator's facts need of the others: values by variable, and the images' layout."""

    values: Mapping[relax.Var, relax.Expr]
    layout: str

    def tidl_axis(self, axis: int, count: int) -> int:
        """Return the place of an axis among ``count`` as TIDL has them: of four, that in NCHW."""
        axis %= count
        return "NCHW".index(self.layout[axis]) if count == 4 else axis


def make_fact_context(bindings: Sequence[relax.VarBinding]) -> FactContext:
    """Return the network; NHWC where all its convolutions and poolings say so, else NCHW."""
    calls = [b.value for b in bindings if operator_name(b.value) in LAYOUTS]
    stated = {str(getattr(call.attrs, LAYOUTS[operator_name(call)])) for call in calls}
    layout = "NHWC" if stated == {"NHWC"} else "NCHW"
    return FactContext({b.var: b.value for b in bindings}, layout)
