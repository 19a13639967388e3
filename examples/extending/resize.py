"""Another formula for an operator: a resize by whole factors needs no floating-point indices."""

from __future__ import annotations

import tvm
from tvm import relax, te

from firmwright.device import Extension, static_shape


def repeat(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Read row // factor and column // factor; TVM multiplies, rounds and clips in float32."""
    shape, source = static_shape(call), static_shape(call.args[0])
    rows, columns = shape[2] // source[2], shape[3] // source[3]

    def repeated(data: te.Tensor) -> te.Tensor:
        return te.compute(shape, lambda n, c, y, x: data[n, c, y // rows, x // columns], "repeated")

    return builder.call_te(repeated, call.args[0])


def repeats(call: tvm.ir.Call) -> bool:
    attributes, shape, source = call.attrs, static_shape(call), static_shape(call.args[0])
    return (
        (attributes.layout, attributes.method) == ("NCHW", "nearest_neighbor")
        and attributes.coordinate_transformation_mode == "asymmetric"
        and attributes.rounding_method == "floor"
        and all(shape[axis] % source[axis] == 0 for axis in (2, 3))
    )


def add(extension: Extension) -> None:
    extension.add("relax.image.resize2d", compute=repeat, condition=repeats)
