"""A special case of an operator: a pooling of single elements only picks some of them."""

from __future__ import annotations

import tvm
from tvm import relax, te

from firmwright.device import Extension, static_shape


def is_single(call: tvm.ir.Call) -> bool:
    """Return whether windows are 1x1, in NCHW, neither padded nor dilated."""
    attributes = call.attrs
    ones = all(int(n) == 1 for n in (*attributes.pool_size, *attributes.dilation))
    return ones and attributes.layout == "NCHW" and not any(int(n) for n in attributes.padding)


def pick(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Read one element per result; all other poolings keep TVM's loops over windows."""
    down, right = (int(n) for n in call.attrs.strides)

    def picked(data: te.Tensor) -> te.Tensor:
        shape = static_shape(call)
        return te.compute(shape, lambda n, c, y, x: data[n, c, y * down, x * right], "picked")

    return builder.call_te(picked, call.args[0])


def add(extension: Extension) -> None:
    extension.add("relax.nn.max_pool2d", compute=pick, condition=is_single)
