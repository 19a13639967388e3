"""Lists the rewrites that run, in order, on every imported module before it is partitioned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firmwright.ir.relax import remove_dead_bindings
from firmwright.transforms.joined_tensors import read_parts, take_part
from firmwright.transforms.layout_of_constants import (
    fold_constant_arithmetic,
    fold_layout_of_constants,
)
from firmwright.transforms.layout_on_integers import (
    concat_integers,
    duplicate_dequantize,
    keep_layout_on_integers,
)
from firmwright.transforms.single_result import concat_in_trees, separate_results, split_to_slices
from firmwright.transforms.sixteen_bit_floats import compute_in_float32
from firmwright.transforms.static_shapes import fold_static_shapes
from firmwright.transforms.undefined_behavior import clamp_take_indices, remove_undefined_behavior

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class Transform:
    """A rewrite of a module's ``main``. The sentence states a property of the rewritten module."""

    name: str
    postcondition: str
    apply: Callable[[tvm.IRModule], tvm.IRModule]


def _decompose(module: tvm.IRModule) -> tvm.IRModule:
    from tvm import relax

    return remove_dead_bindings(relax.transform.DecomposeOpsForInference("main")(module))


CANONICAL = (
    Transform("sixteen-bit-floats", "no operator computes in 16-bit floats", compute_in_float32),
    Transform("decompose", "batch normalization is arithmetic on tensors", _decompose),
    Transform("static-shapes", "no operator computes with shapes", fold_static_shapes),
    Transform("bounded-take", "no index reads outside its tensor", clamp_take_indices),
    Transform("split-to-slices", "a part of a tensor is a slice", split_to_slices),
    Transform("separate-results", "each result of an operator is a variable", separate_results),
    Transform("parts-of-slices", "no slice reads a joined tensor", read_parts),
    Transform("concat-in-trees", "no operator joins more than 32 tensors", concat_in_trees),
    Transform(
        "layout-of-constants",
        "no operator only reshapes, transposes or casts a constant",
        fold_layout_of_constants,
    ),
    Transform(
        "constant-arithmetic",
        "no float32 sum, product or square root has only constants",
        fold_constant_arithmetic,
    ),
    Transform(
        "layout-on-integers",
        "no quantized element is dequantized only to be moved",
        keep_layout_on_integers,
    ),
    Transform(
        "concat-on-integers",
        "no integers with equal quantization parameters are dequantized only to be joined",
        concat_integers,
    ),
    Transform(
        "parts-of-concat",
        "no operator reads a single element of a joined tensor",
        take_part,
    ),
    Transform(
        "defined-integers",
        "no integer operator overflows, divides by zero or shifts by too many bits",
        remove_undefined_behavior,
    ),
    Transform(
        "own-dequantize",
        "every dequantize has one consumer, whose region it can join",
        duplicate_dequantize,
    ),
)


def canonicalize(module: tvm.IRModule) -> tvm.IRModule:
    return apply_in_order(CANONICAL, module)


def apply_in_order(transforms: Iterable[Transform], module: tvm.IRModule) -> tvm.IRModule:
    """Apply rewrites in order. Each rewrite receives and returns a module without dead bindings."""
    module = remove_dead_bindings(module)
    for transform in transforms:
        module = transform.apply(module)
    return module
