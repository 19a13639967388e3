"""Normalization over the elements of an image, by deviations from their mean."""

from __future__ import annotations

from math import prod

from tvm import relax, te, topi

from firmwright.ir.relax import static_shape


def instance_norm(builder: relax.BlockBuilder, call: relax.Expr) -> relax.Expr:
    """Subtract the mean before squaring.

    TVM subtracts the mean's square from that of the squares, which leaves few digits of the
    variance where the mean is large beside it.
    """
    shape, attrs = static_shape(call), call.attrs
    axes = [int(axis) % len(shape) for axis in attrs.axes]
    count = float(prod(shape[axis] for axis in axes))
    channel = int(attrs.channel_axis) % len(shape)
    by_channel = [length if i == channel else 1 for i, length in enumerate(shape)]

    def normalize(data: te.Tensor, scale: te.Tensor, bias: te.Tensor) -> te.Tensor:
        centered = data - topi.sum(data, axes, keepdims=True) / count
        variance = topi.sum(centered * centered, axes, keepdims=True) / count
        result = centered / topi.sqrt(variance + float(attrs.epsilon))
        if attrs.scale:
            result = result * topi.reshape(scale, by_channel)
        return result + topi.reshape(bias, by_channel) if attrs.center else result

    return builder.call_te(normalize, *call.args, primfunc_name_hint="instance_norm")
