"""Imports resizes and averages of windows with the factors and divisors that TVM omits.

torch resizes the unit vectors of each axis. The results are the weights of the pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tvm import relax

from firmwright.ir.relax import dtype_of, static_shape
from firmwright.models.pytorch.nodes import Convert, Importer, kind_of

ATEN = torch.ops.aten
Array = npt.NDArray[np.float32]

RESIZES = {
    ATEN.upsample_nearest2d.vec: ATEN.upsample_nearest2d.default,
    ATEN.upsample_bilinear2d.vec: ATEN.upsample_bilinear2d.default,
    ATEN._upsample_bilinear2d_aa.default: ATEN._upsample_bilinear2d_aa.default,
}
"""The operators that resize, and their forms with a size and one factor per axis."""


def resize(builder: relax.BlockBuilder, x: relax.Expr, node: torch.fx.Node) -> relax.Var:
    """Resize the last two axes of x (n, c, height, width) like the operator of ``node``.

    Raises ValueError for interpolated integers, because torch's rounding differs.
    """
    size = [int(n) for n in node.meta["val"].shape[2:]]
    nearest = node.target is ATEN.upsample_nearest2d.vec
    if not nearest and "float" not in dtype_of(x):
        raise ValueError(
            f"a resize of {dtype_of(x)} by interpolation is not supported; convert its input to "
            "float32"
        )
    weights = find_weights(node, static_shape(x)[2:], size)
    mode = find_nearest_mode(weights) if nearest else find_linear_mode(weights, bool(node.args[2]))
    if mode:
        return builder.emit(relax.op.image.resize2d(x, size, layout="NCHW", **mode))
    for axis, matrix in enumerate(weights, 2):
        x = combine_pixels(builder, x, axis, matrix)
    return x


def find_weights(node: torch.fx.Node, lengths: tuple[int, ...], size: list[int]) -> list[Array]:
    """Return the weights of the pixels, (results, pixels), for both axes."""
    _, _, *options = node.args
    flags = [option for option in options if isinstance(option, bool)]
    stated = [option for option in options if not isinstance(option, bool)]
    factors = stated if len(stated) == 2 else stated[0] if stated and stated[0] else [None, None]
    return [
        resize_units(RESIZES[node.target], length, extent, *flags, factor)
        for length, extent, factor in zip(lengths, size, factors, strict=True)
    ]


def resize_units(operator: Any, length: int, extent: int, *options: Any) -> Array:
    """Return torch's resize of an axis as a matrix (results, pixels)."""
    units = torch.eye(length).reshape(length, 1, length, 1).repeat(1, 2, 1, 2)
    matrix: Array = operator(units, [extent, 2], *options)[:, 0, :, 0].numpy().T
    return matrix


def find_nearest_mode(weights: list[Array]) -> dict[str, str]:
    """Return TVM's method for repeated pixels.

    The result is empty if the numbers of repetitions differ.
    """
    repeated = all(
        np.array_equal(matrix, np.repeat(np.eye(matrix.shape[1]), times, axis=0))
        for matrix in weights
        for times in [max(1, len(matrix) // matrix.shape[1])]
    )
    return {"method": "nearest_neighbor"} if repeated else {}


def find_linear_mode(weights: list[Array], corners: bool) -> dict[str, str]:
    """Return TVM's method for linear interpolation. The result is empty if TVM's weights differ.

    TVM uses the size of the result and no factor. With aligned corners, TVM divides by 0 if the
    result has one pixel.
    """
    by_size = [
        resize_units(ATEN.upsample_bilinear2d.default, matrix.shape[1], len(matrix), corners)
        for matrix in weights
    ]
    alike = all(np.allclose(*pair, atol=1e-5) for pair in zip(weights, by_size, strict=True))
    if not alike or (corners and any(len(matrix) == 1 for matrix in weights)):
        return {}
    transformation = "align_corners" if corners else "half_pixel"
    return {"method": "linear", "coordinate_transformation_mode": transformation}


def combine_pixels(
    builder: relax.BlockBuilder, x: relax.Expr, axis: int, weights: Array
) -> relax.Expr:
    """Append the sums of weighted pixels of an axis. ``weights`` is (results, pixels)."""
    results, pixels = weights.shape
    if results == pixels and np.array_equal(weights, np.eye(pixels)):
        return x
    first = (weights != 0).argmax(1)
    count = int((pixels - (weights != 0)[:, ::-1].argmax(1) - first).max())
    padded = np.pad(weights, ((0, 0), (0, count)))
    total = None
    for offset in range(count):
        positions = relax.const(np.minimum(first + offset, pixels - 1).astype("int64"), "int64")
        term = builder.emit(relax.op.take(x, positions, axis))
        if count > 1:
            shape = [results if i == axis else 1 for i in range(4)]
            factors = padded[np.arange(results), first + offset].reshape(shape)
            factor = relax.const(factors, dtype_of(x))
            term = builder.emit(relax.op.multiply(term, factor))
        total = term if total is None else builder.emit(relax.op.add(total, term))
    return total


def sample(importer: Importer, node: torch.fx.Node) -> relax.Var:
    """Import ``grid_sampler(x, grid, mode, padding, corners)`` of images and volumes.

    In TVM, the coordinates of a point are along axis 1. In torch, the coordinates are along the
    last axis. TVM divides by the distance of aligned corners, so axes of length 1 are repeated
    before a reflection.
    """
    x, grid = (importer.env[a] for a in node.args[:2])
    mode, padding, corners = node.args[2:]
    rank, emit = len(static_shape(grid)), importer.block_builder.emit
    for axis, length in enumerate(static_shape(x)):
        if axis > 1 and length == 1 and corners and padding == 2:
            x = emit(relax.op.concat([x, x], axis))
    points = emit(relax.op.permute_dims(grid, [0, rank - 1, *range(1, rank - 1)]))
    return emit(
        relax.op.image.grid_sample(
            x,
            points,
            method=("bilinear", "nearest", "bicubic")[mode],
            layout="NCHW" if rank == 4 else "NCDHW",
            padding_mode=("zeros", "border", "reflection")[padding],
            align_corners=bool(corners),
        )
    )


SAMPLING: dict[str, Convert] = dict.fromkeys(
    ("grid_sampler_2d.default", "grid_sampler_3d.default"), sample
)


def scale_to_divisor(
    builder: relax.BlockBuilder, means: relax.Expr, node: torch.fx.Node
) -> relax.Var:
    """Append the window sums divided by the operator's divisor. ``means`` exclude the padding."""
    rank = 3 if kind_of(node) == "avg_pool3d" else 2
    shape = list(node.args[0].meta["val"].shape)
    shape[:-rank] = [1] * (len(shape) - rank)
    counts = node.target(torch.ones(shape), *node.args[1:]).numpy()
    return builder.emit(relax.op.multiply(means, relax.const(counts, dtype_of(means))))
