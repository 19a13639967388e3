"""Adapts convolutions to accelerators: equal strides, merged padding, folded scales."""

from __future__ import annotations

from collections import Counter
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.ir.chains import CONVOLUTION
from firmwright.ir.relax import (
    Constant,
    constant_array,
    count_readers,
    definition,
    dtype_of,
    operator_name,
    rewrite_bindings,
    rewrite_calls,
    rewrite_each,
    static_shape,
)
from firmwright.transforms.layout_on_integers import quantize_before_subsampling

CONVOLUTIONS = {
    f"relax.nn.{name}": getattr(relax.op.nn, name)
    for name in (f"conv{n}d{suffix}" for n in (1, 2, 3) for suffix in ("", "_transpose"))
}


def rebuild_conv(call: tvm.ir.Call, data: relax.Expr, weights: relax.Expr, **changed: Any) -> Any:
    """Return a convolution like ``call`` with new operands and ``changed`` attributes."""
    attrs, name = call.attrs, operator_name(call)
    stated = {
        "strides": [int(s) for s in attrs.strides],
        "padding": [int(p) for p in attrs.padding],
        "dilation": [int(d) for d in attrs.dilation],
        "groups": int(attrs.groups),
        "data_layout": str(attrs.data_layout),
        "kernel_layout": str(attrs.kernel_layout),
        "out_layout": str(attrs.out_layout),
        "out_dtype": dtype_of(call),
    }
    if name.endswith("_transpose"):
        stated["output_padding"] = [int(p) for p in attrs.output_padding]
    return CONVOLUTIONS[name](data, weights, **{**stated, **changed})


def convert_conv_stride(module: tvm.IRModule) -> tvm.IRModule:
    """Replace different strides of a convolution by equal strides and a selecting 1x1 max-pool.

    The rewrite is exact, because the computation of the selected elements does not change. The
    convolution computes more elements than necessary, twice as many for strides of 1x2. In a
    quantized network, the max-pool selects integers.
    """

    builder = relax.BlockBuilder()

    def rewrite(binding: relax.VarBinding) -> list[relax.VarBinding]:
        call = binding.value
        if operator_name(call) != CONVOLUTION:
            return [binding]
        strides = [int(s) for s in call.attrs.strides]
        common = gcd(*strides)
        if strides[0] == strides[1]:
            return [binding]
        whole = builder.normalize(rebuild_conv(call, *call.args, strides=[common, common]))
        computed = relax.Var(str(binding.var.name), whole.ty)
        picked = relax.op.nn.max_pool2d(
            computed,
            pool_size=[1, 1],
            strides=[s // common for s in strides],
            layout=str(call.attrs.out_layout),
        )
        return [
            relax.VarBinding(computed, whole),
            relax.VarBinding(binding.var, builder.normalize(picked)),
        ]

    return quantize_before_subsampling(rewrite_bindings(module, rewrite))


@rewrite_each("relax.nn.conv1d", CONVOLUTION, "relax.nn.conv3d")
def merge_pad_layer(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
    """Merge the zero padding before a convolution into the convolution's padding.

    Only zeros around the image can be merged. A negative width cannot be merged, because it cuts
    the image before the convolution adds padding. The data's layout determines the image's axes.
    """
    pad = definition(builder, call.args[0])
    around = image_padding(pad, str(call.attrs.data_layout))
    if around is None:
        return call
    stated = [int(p) for p in call.attrs.padding]
    padding = [ours + theirs for ours, theirs in zip(stated, around, strict=True)]
    return rebuild_conv(call, pad.args[0], call.args[1], padding=padding)


def image_padding(pad: relax.Expr, layout: str) -> list[int] | None:
    """Return the widths that a pad adds before, then after, each axis of the image.

    None if the pad adds other values or pads other axes.
    """
    if operator_name(pad) != "relax.nn.pad" or str(pad.attrs.pad_mode) != "constant":
        return None
    if float(pad.attrs.pad_value):
        return None
    widths = [int(w) for w in pad.attrs.pad_width]
    if min(widths) < 0:
        return None
    before = dict(zip(layout, widths[::2], strict=True))
    after = dict(zip(layout, widths[1::2], strict=True))
    if any(before[axis] or after[axis] for axis in layout if axis in "NC"):
        return None
    image = [axis for axis in "DHW" if axis in layout]
    return [ends[axis] for ends in (before, after) for axis in image]


def fold_batch_norm(module: tvm.IRModule) -> tvm.IRModule:
    """Fold a batch normalization into the weights and a bias of the float32 convolution.

    Results are equal except for rounding, because the weights are multiplied before the sums.
    """
    uses = count_readers(module)

    def rewrite(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        if operator_name(call) != "relax.nn.batch_norm" or bool(call.attrs.training):
            return call
        data, *statistics = call.args
        numbers = [definition(builder, s) for s in statistics]
        conv, bias = match_conv_with_bias(builder, data, uses)
        weights = definition(builder, conv.args[1]) if conv is not None else None
        constants = [*numbers, weights]
        if conv is None or not all(isinstance(c, Constant) for c in constants):
            return call
        axis = str(conv.attrs.out_layout).index("C")
        if int(call.attrs.axis) != axis or dtype_of(conv) != "float32":
            return call
        if operator_name(conv).endswith("_transpose") and int(conv.attrs.groups) > 1:
            return call  # the kernel's output axis has the channels of only one group
        gamma, beta, mean, variance = (constant_array(n).astype("float64") for n in numbers)
        if not bool(call.attrs.scale):
            gamma = np.ones_like(gamma)
        if not bool(call.attrs.center):
            beta = np.zeros_like(beta)
        scale = gamma / np.sqrt(variance + float(call.attrs.epsilon))
        folded = scale_output_channels(
            constant_array(weights), scale, str(conv.attrs.kernel_layout)
        )
        sums = builder.emit(rebuild_conv(conv, conv.args[0], relax.const(folded)))
        along = [1] * len(static_shape(conv))
        along[axis] = -1
        offset = ((bias - mean) * scale + beta).astype("float32").reshape(along)
        return relax.Tuple([builder.emit(relax.op.add(sums, relax.const(offset))), *statistics[2:]])

    return rewrite_calls(module, rewrite)


def match_conv_with_bias(
    builder: relax.BlockBuilder, value: relax.Expr, uses: Counter[relax.Var]
) -> tuple[tvm.ir.Call | None, npt.NDArray[Any]]:
    """Return the convolution and the added bias that compute a value.

    The convolution is None if ``value`` has several readers, because the other readers need the
    unchanged value.
    """
    nothing = np.zeros(1)
    call = definition(builder, value)
    if operator_name(call) in CONVOLUTIONS and uses[value] == 1:
        return call, nothing
    if operator_name(call) != "relax.add" or uses[value] != 1:
        return None, nothing
    for data, constant in (call.args, reversed(call.args)):
        conv, bias = definition(builder, data), definition(builder, constant)
        if operator_name(conv) in CONVOLUTIONS and isinstance(bias, Constant) and uses[data] == 1:
            array = constant_array(bias)
            if is_per_channel(array, str(conv.attrs.out_layout)):
                return conv, array.reshape(-1).astype("float64")
    return None, nothing


def is_per_channel(array: npt.NDArray[Any], layout: str) -> bool:
    lengths = dict(zip(reversed(layout), reversed(array.shape), strict=False))
    return all(length == 1 for axis, length in lengths.items() if axis != "C")


def scale_output_channels(
    weights: npt.NDArray[Any], scale: npt.NDArray[Any], layout: str
) -> npt.NDArray[Any]:
    along = [-1 if axis == "O" else 1 for axis in layout]
    products: npt.NDArray[Any] = weights.astype("float64") * scale.reshape(along)
    return products.astype("float32")
