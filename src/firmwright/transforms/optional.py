"""Lists the rewrites that a device or a recipe requests, in order.

All rewrites except :data:`AFTER_CANONICAL` run before the canonical rewrites. The names are the
names of TI's compiler, except ConvertTakeToSlice and the names after FoldBatchNorm. A recipe turns
the rewrites on and off with ``transforms``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import tvm
from tvm import relax

from firmwright.ir.relax import remove_dead_bindings
from firmwright.transforms import convolutions, identities
from firmwright.transforms.channels_last import use_channels_last
from firmwright.transforms.constant_channels import remove_constant_channels
from firmwright.transforms.integers.whole_number_layers import use_integers
from firmwright.transforms.layout_of_constants import fold_layout_of_constants
from firmwright.transforms.registry import Transform, apply_in_order
from firmwright.transforms.static_shapes import fold_static_shapes
from firmwright.transforms.transposed_convolutions import split_transposed_convolutions


def eliminate_common_subexpressions(module: tvm.IRModule) -> tvm.IRModule:
    return remove_dead_bindings(relax.transform.EliminateCommonSubexpr()(module))


PREREQUISITES = (
    Transform("static-shapes", "no operator computes with shapes", fold_static_shapes),
    Transform(
        "layout-of-constants",
        "no operator only reshapes, transposes or casts a constant",
        fold_layout_of_constants,
    ),
)
"""The rewrites before the optional rewrites, which need lengths and constants as numbers."""

OPTIONAL = (
    Transform("RemoveMultiplyByOne", "no multiplication by one", identities.remove_multiply_by_one),
    Transform("RemovePadByZero", "no empty pad", identities.remove_pad_by_zero),
    Transform("RemoveCopy", "no cast keeps the type", identities.remove_copy),
    Transform(
        "RemoveIdentityReshape", "no reshape keeps the shape", identities.remove_identity_reshape
    ),
    Transform(
        "RemoveTrainingOperators", "there is no dropout", identities.remove_training_operators
    ),
    Transform(
        "ConvertMaxMinToClip",
        "a maximum and a minimum with scalars are one clip",
        identities.convert_max_min_to_clip,
    ),
    Transform(
        "RemoveIdentityResize", "no resize keeps the size", identities.remove_identity_resize
    ),
    Transform(
        "ConvertConvStride",
        "a convolution has equal strides in both directions; a 1x1 max-pool selects elements",
        convolutions.convert_conv_stride,
    ),
    Transform(
        "MergePadLayer",
        "a convolution does the zero padding before it",
        convolutions.merge_pad_layer,
    ),
    Transform(
        "RemoveIdentityClip",
        "integers are not clipped to limits that they cannot exceed",
        identities.remove_identity_clip,
    ),
    Transform(
        "ConvertTakeToSlice",
        "a selection of one element of an axis is a slice",
        identities.convert_take_to_slice,
    ),
    Transform("EliminateCommonSubexpr", "no repeated computation", eliminate_common_subexpressions),
    Transform(
        "FoldBatchNorm",
        "a float convolution's weights include the batch normalization after it",
        convolutions.fold_batch_norm,
    ),
    Transform(
        "SplitTransposedConvolutions",
        "a quantized transposed convolution is several convolutions, of some pixels each",
        split_transposed_convolutions,
    ),
    Transform(
        "UseChannelsLast",
        "convolutions have their channels last, as the forms of the device c read them",
        use_channels_last,
    ),
    Transform(
        "RemoveConstantChannels",
        "a quantized layer computes no channel that is one number for all inputs",
        remove_constant_channels,
    ),
    Transform(
        "UseIntegers",
        "whole numbers in float tensors are integers, if ranges prove equal results",
        use_integers,
    ),
)

AFTER_CANONICAL = frozenset({"UseIntegers"})
"""The names of the rewrites that read the results of the canonical rewrites."""


def apply_transforms(module: tvm.IRModule, names: Collection[str]) -> tvm.IRModule:
    """Apply the rewrites with these names. All names must be in :data:`OPTIONAL`."""
    transforms = [*select_transforms(names)]
    return apply_in_order(transforms, module) if transforms else module


def select_transforms(names: Collection[str]) -> Iterator[Transform]:
    """Yield the rewrites of these names in order, after the rewrites that they require.

    Rewrites that run after the canonical rewrites do not require other rewrites. A second run of
    the prerequisites would fold the operators that keep sums defined. An accelerator's rules would
    then not match these operators.
    """
    if set(names) - AFTER_CANONICAL:
        yield from PREREQUISITES
    yield from (transform for transform in OPTIONAL if transform.name in names)
