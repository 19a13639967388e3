"""Lists the properties of Relax operators that the grouping into regions needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from math import inf, prod

import tvm
from tvm import relax

from firmwright.ir.relax import Constant, constant_array, operator_name, static_shape


class FusionKind(Enum):
    """The dependence of an operator's result on its inputs."""

    ELEMENTWISE = "a result element depends on the elements at its position (after broadcasting)"
    LAYOUT = "elements move but are not computed"
    ANCHOR = "a result element needs many input elements"
    ALONE = "its loops write a result at several positions, so no operator can be fused with it"


def relax_names(names: str) -> frozenset[str]:
    """Return Relax's names of operators, such as ``relax.nn.relu`` for ``nn.relu``."""
    return frozenset(f"relax.{name}" for name in names.split())


ELEMENTWISE = relax_names(
    "abs acos acosh add asin asinh astype atan atanh bitwise_and bitwise_not bitwise_or "
    "bitwise_xor ceil clip cos cosh dequantize divide equal erf exp floor floor_divide "
    "floor_mod greater greater_equal isfinite isinf isnan left_shift less less_equal log "
    "logical_and logical_not logical_or logical_xor maximum minimum mod multiply negative "
    "nn.gelu nn.gelu_tanh nn.leakyrelu nn.prelu nn.relu nn.silu nn.softplus "
    "not_equal power quantize right_shift round rsqrt sigmoid sign sin sinh sqrt square "
    "subtract tan tanh where"
)

RESHAPES = relax_names("reshape expand_dims squeeze flatten")
"""Layout operators that keep the bytes in their order."""

PERMUTATIONS = RESHAPES | {"relax.permute_dims"}
"""Layout operators whose result contains each element of the operand once."""

LAYOUT = PERMUTATIONS | relax_names(
    "broadcast_to concat flip layout_transform nn.pad repeat strided_slice take tile"
)

MOVEMENTS = LAYOUT - RESHAPES
"""Layout operators that write elements to other positions."""

VALUE_PRESERVING = LAYOUT | relax_names(
    "image.resize2d maximum minimum nn.max_pool1d nn.max_pool2d nn.max_pool3d where"
)
"""Operators whose result elements are all elements of an operand. A resize counts only if its
mode is nearest.
"""

SCALE_COMMUTING = (LAYOUT - relax_names("concat layout_transform nn.pad")) | relax_names(
    "max min nn.max_pool2d"
)
"""Operators of one tensor that may come before or after a multiplication by a positive number."""

TIR_PATTERNS = {
    0: FusionKind.ELEMENTWISE,
    1: FusionKind.ELEMENTWISE,
    2: FusionKind.LAYOUT,
    8: FusionKind.ALONE,
}
"""The fusion kinds of TVM's operator patterns elementwise, broadcast, injective and opaque."""

ALONE = relax_names("scatter_elements scatter_nd")
"""Operators that TVM lowers to opaque loops."""

CHEAP = LAYOUT | relax_names("astype dequantize")
"""Operators that may be evaluated again for each use inside a reduction."""


PACKED_PRODUCT = "packed_product"
"""The prefix of the names of TIR functions that multiply by the weights of a MatMulNBits."""


def count_macs(call: tvm.ir.Call) -> int:
    """Return the multiply-accumulates of a convolution or matrix product, or 0 for others."""
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
    weights = count_packed_weights(call)
    return weights and weights * static_shape(call)[0]


def count_packed_weights(value: relax.Expr) -> int:
    """Return the number of weights of a MatMulNBits, or 0 for other operators.

    The data is (rows, depth), and the result is (rows, columns).
    """
    if operator_name(value) != "relax.call_tir":
        return 0
    if not value.args[0].name_hint.startswith(PACKED_PRODUCT):
        return 0
    return static_shape(value)[1] * static_shape(value.args[1].fields[0])[1]


def read_clip_bounds(value: relax.Expr) -> tuple[float, float] | None:
    """Return the range to which an operator clips its first operand, or None."""
    name = operator_name(value)
    if name == "relax.clip" and all(hasattr(a, "value") for a in value.args[1:]):
        low, high = (float(a.value) for a in value.args[1:])
        return low, high
    if name == "relax.nn.relu":
        return 0.0, inf
    if name in ("relax.maximum", "relax.minimum") and isinstance(value.args[1], Constant):
        limit = constant_array(value.args[1])
        if limit.size == 1 and static_shape(value) == static_shape(value.args[0]):
            number = float(limit.item())
            return (number, inf) if name == "relax.maximum" else (-inf, number)
    return None


def make_kind_lookup(module: tvm.IRModule) -> Callable[[relax.Expr], FusionKind]:
    """Return a function that maps an operator to its fusion kind.

    The module is needed, because importers add some operators as TIR functions.
    """
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
    """Return the name of an operator in reports: ``conv2d``, or a TIR function's name.

    The name is ``constant`` if no operator computes the value.
    """
    name = operator_name(value)
    if not name:
        return "constant"
    if name == "relax.call_tir":
        return str(value.args[0].name_hint).rstrip("0123456789")
    return name.removeprefix("relax.").removeprefix("nn.")


def is_same_kind(source: str, relax_name: str) -> bool:
    """Return whether a source operator's kind, such as ``TOPK_V2``, is this Relax operator."""
    plain = re.sub(r"_|[123]d$", "", relax_name).lower()
    return source.replace("_", "").lower().removesuffix("v2").removesuffix("2d") == plain
