"""What the grouping has to know of Relax operators, as tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from math import prod

import tvm
from tvm import relax

from firmwright.ir.relax import operator_name, static_shape


class FusionKind(Enum):
    """How an operator's result depends on its inputs."""

    ELEMENTWISE = "one result element from the elements at the same place (after broadcasting)"
    LAYOUT = "elements move but are not computed"
    ANCHOR = "a result element needs many input elements"
    ALONE = "its loops write a result in several places, so that nothing can be fused with them"


ELEMENTWISE = frozenset(
    f"relax.{name}"
    for name in (
        "abs acos acosh add asin asinh astype atan atanh bitwise_and bitwise_not bitwise_or "
        "bitwise_xor ceil clip cos cosh dequantize divide equal erf exp floor floor_divide "
        "floor_mod greater greater_equal isfinite isinf isnan left_shift less less_equal log "
        "logical_and logical_not logical_or logical_xor maximum minimum mod multiply negative "
        "nn.gelu nn.gelu_tanh nn.leakyrelu nn.prelu nn.relu nn.relu6 nn.silu nn.softplus "
        "not_equal power quantize right_shift round rsqrt sigmoid sign sin sinh sqrt square "
        "subtract tan tanh where"
    ).split()
)

LAYOUT = frozenset(
    f"relax.{name}"
    for name in (
        "broadcast_to concat expand_dims flatten flip layout_transform nn.pad permute_dims "
        "repeat reshape squeeze strided_slice take tile"
    ).split()
)

RESHAPES = frozenset(f"relax.{n}" for n in ("reshape", "expand_dims", "squeeze", "flatten"))
"""Layout operators that leave the bytes in their order."""

TIR_PATTERNS = {
    0: FusionKind.ELEMENTWISE,
    1: FusionKind.ELEMENTWISE,
    2: FusionKind.LAYOUT,
    8: FusionKind.ALONE,
}
"""TVM's operator patterns elementwise, broadcast, injective, opaque."""

ALONE = frozenset({"relax.scatter_elements", "relax.scatter_nd"})
"""Operators that TVM lowers to opaque loops."""

CHEAP = LAYOUT | {"relax.astype", "relax.dequantize"}
"""Operators that may be evaluated again for each use inside a reduction."""


def count_macs(call: tvm.ir.Call) -> int:
    """Return the multiply-accumulates of a convolution or matrix product, 0 for the rest."""
    name = operator_name(call)
    if name in ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d"):
        kernel = static_shape(call.args[1])
        layout = str(call.attrs.kernel_layout)
        return prod(static_shape(call)) * prod(kernel) // kernel[layout.index("O")]
    if name.startswith("relax.nn.conv") and name.endswith("_transpose"):
        kernel = static_shape(call.args[1])
        layout = str(call.attrs.kernel_layout)
        return prod(static_shape(call.args[0])) * prod(kernel) // kernel[layout.index("I")]
    if name == "relax.matmul":
        return prod(static_shape(call)) * static_shape(call.args[0])[-1]
    return 0


def make_kind_lookup(module: tvm.IRModule) -> Callable[[relax.Expr], FusionKind]:
    """Return a function that tells an operator's kind; importers bring some as TIR functions."""
    annotated = relax.transform.AnnotateTIROpPattern()(module)

    def kind(value: relax.Expr) -> FusionKind:
        name = operator_name(value)
        if name == "relax.call_tir":
            pattern = int(annotated[value.args[0].name_hint].attrs["op_pattern"])
            return TIR_PATTERNS.get(pattern, FusionKind.ANCHOR)
        if name in ALONE:
            return FusionKind.ALONE
        if name in ELEMENTWISE:
            return FusionKind.ELEMENTWISE
        return FusionKind.LAYOUT if name in LAYOUT else FusionKind.ANCHOR

    return kind


def short_name(value: relax.Expr) -> str:
    """Return what an operator is called in reports: ``conv2d``, or a TIR function's name.

    A value that no operator computes is a ``constant``.
    """
    name = operator_name(value)
    if not name:
        return "constant"
    if name == "relax.call_tir":
        return str(value.args[0].name_hint).rstrip("0123456789")
    return name.removeprefix("relax.").removeprefix("nn.")


def is_same_kind(source: str, relax_name: str) -> bool:
    """Tell whether a source operator's kind, e.g. ``TopK`` or ``TOPK_V2``, is this Relax one."""
    plain = re.sub(r"_|[123]d$", "", relax_name).lower()
    return source.replace("_", "").lower().removesuffix("v2").removesuffix("2d") == plain
