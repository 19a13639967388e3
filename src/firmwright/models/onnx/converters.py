"""What TVM 0.27's ONNX converters do wrong and ONNX's own operators cannot say, in Relax.

Each entry of :data:`CONVERTERS` takes the place of TVM's converter, and can be dropped when
upstream has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from tvm import relax, topi

Converter = Callable[[relax.BlockBuilder, Sequence[relax.Expr], dict[str, Any]], relax.Expr]


def convert_bit_shift(
    _: relax.BlockBuilder, inputs: Sequence[relax.Expr], attributes: dict[str, Any]
) -> relax.Expr:
    """TVM's shifts are C's: undefined for counts outside the width and for signs shifted out.

    ONNX: bits shifted out are lost; a count outside the width leaves copies of the fill only.
    """
    data, count = inputs
    dtype = str(data.ty.dtype)
    bits = np.dtype(dtype).itemsize * 8
    word = "uint64" if bits == 64 else "uint32"
    count = relax.op.astype(relax.op.astype(count, f"uint{bits}"), word)
    last = relax.const(bits - 1, word)
    within = relax.op.minimum(count, last)
    if attributes["direction"] == b"RIGHT" and dtype.startswith("int"):
        return relax.op.right_shift(data, relax.op.astype(within, dtype))
    shift = relax.op.left_shift if attributes["direction"] == b"LEFT" else relax.op.right_shift
    unsigned = relax.op.astype(relax.op.astype(data, f"uint{bits}"), word)
    shifted = relax.op.astype(shift(unsigned, within), dtype)
    lost = relax.op.greater(count, last)
    return relax.op.where(lost, relax.const(0, dtype), shifted)


def make_cumulative(compute: Callable[..., Any]) -> Converter:
    """TVM leaves ``cumsum`` to a runtime library, and has no converter for CumProd."""

    def convert(
        builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attributes: dict[str, Any]
    ) -> relax.Expr:
        data, axis = inputs[0], int(inputs[1].value.numpy().item())
        dtype = str(data.ty.dtype)
        reverse = bool(attributes.get("reverse", 0))
        if reverse:
            data = builder.emit_te(topi.flip, data, axis=axis)
        exclusive = bool(attributes.get("exclusive", 0))
        result = builder.emit_te(compute, data, axis=axis, dtype=dtype, exclusive=exclusive)
        return builder.emit_te(topi.flip, result, axis=axis) if reverse else result

    return convert


def make_min_max(find: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Converter:
    """TVM stacks the inputs and reduces them, which hides that integers have the same order."""

    def convert(
        builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attributes: dict[str, Any]
    ) -> relax.Expr:
        del attributes
        return reduce(lambda a, b: builder.normalize(find(a, b)), inputs)

    return convert


CONVERTERS: dict[str, Converter] = {
    "BitShift": convert_bit_shift,
    "CumProd": make_cumulative(topi.cumprod),
    "CumSum": make_cumulative(topi.cumsum),
    "Max": make_min_max(relax.op.maximum),
    "Min": make_min_max(relax.op.minimum),
}
