"""An operator that a C function of a library computes."""

from __future__ import annotations

import tvm
from tvm import relax, te

from firmwright.device import Extension, dtype_of, library_call, static_shape


def doubles_columns(call: tvm.ir.Call) -> bool:
    """Return whether the call is the only case for which the function was written."""
    attributes, shape, source = call.attrs, static_shape(call), static_shape(call.args[0])
    return (
        (attributes.layout, attributes.method) == ("NCHW", "linear")
        and attributes.coordinate_transformation_mode == "half_pixel"
        and dtype_of(call) == "float32"
        and shape[2:] == (source[2], 2 * source[3])
    )


def resize(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    def resized(data: te.Tensor) -> te.Tensor:
        return library_call("resize_nchw_1x2", static_shape(call), "float32", data)

    return builder.call_te(resized, call.args[0])


def add(extension: Extension) -> None:
    extension.add("relax.image.resize2d", compute=resize, condition=doubles_columns)
