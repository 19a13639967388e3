"""A small detector: convolutions, two heads, and the operators that make boxes of each head.

It has integers only: int8 tensors, sums of 32 bits, a batch normalization of integers, a shift, a
clip. The weights are random, with a seed. Its results have no meaning; it shows which device runs
each operator.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

KEPT = 8
"""Boxes that a head keeps, in descending order of score."""


def detector() -> tvm.IRModule:
    """Return the network: its input is an image of 32 x 32, its output 16 boxes, eight per head."""
    return network(1)


def two_images() -> tvm.IRModule:
    """Return the network for two images at once, each with separate outputs."""
    return network(2)


def network(count: int) -> tvm.IRModule:
    build = relax.BlockBuilder()
    suffixes = [f"_{i}" if count > 1 else "" for i in range(count)]
    images = [relax.Var(f"image{s}", relax.TensorType((1, 3, 32, 32), "int8")) for s in suffixes]
    with build.function("main", images):
        with build.dataflow():
            found = [
                t for pair in zip(images, suffixes, strict=True) for t in boxes_of(build, *pair)
            ]
            results = [build.emit_output(tensor, name_hint=tensor.name) for tensor in found]
        build.emit_func_output(relax.Tuple(results))
    return build.get()


def boxes_of(build: relax.BlockBuilder, image: relax.Var, suffix: str) -> list[relax.Var]:
    """Append the detector for one image; the names of its operators end in ``suffix``."""
    random = np.random.default_rng(6)

    def layer(x: relax.Var, name: str, channels: int, stride: int = 1) -> relax.Var:
        return normalized_convolution(build, x, f"{name}{suffix}", channels, stride, random)

    stem = layer(image, "stem", 16, stride=2)
    trunk = layer(stem, "trunk", 16)
    fine = layer(trunk, "fine", 5)
    pool = build.emit(op.nn.max_pool2d(trunk, (2, 2), (2, 2)), name_hint=f"pool{suffix}")
    deeper = layer(layer(pool, "deep", 32), "deeper", 32)
    coarse = layer(deeper, "coarse", 5)
    heads = [
        best_boxes(build, fine, f"fine{suffix}", 2),
        best_boxes(build, coarse, f"coarse{suffix}", 4),
    ]
    named = zip(("scores", "centres", "sizes"), zip(*heads, strict=True), strict=True)
    return [build.emit(op.concat(parts, axis=-1), name_hint=f"{n}{suffix}") for n, parts in named]


def normalized_convolution(
    build: relax.BlockBuilder,
    x: relax.Var,
    name: str,
    channels: int,
    stride: int,
    random: np.random.Generator,
) -> relax.Var:
    """Append a 3 x 3 convolution, its batch normalization in integers, and a ReLU."""
    depth = int(x.ty.shape[1])
    weights = random.integers(-16, 17, (channels, depth, 3, 3)).astype("int8")
    factor = random.integers(20, 60, (1, channels, 1, 1)).astype("int32")
    offset = random.integers(-(2**14), 2**14, (1, channels, 1, 1)).astype("int32")
    sums = build.emit(
        op.nn.conv2d(x, const(weights), strides=stride, padding=1, out_dtype="int32"),
        name_hint=f"{name}_convolution",
    )
    normal = build.emit(
        op.add(op.multiply(sums, const(factor)), const(offset)), name_hint=f"{name}_normal"
    )
    narrow = op.astype(op.clip(op.right_shift(normal, number(12)), -128, 127), "int8")
    return build.emit(op.nn.relu(narrow), name_hint=name)


def best_boxes(
    build: relax.BlockBuilder, head: relax.Var, name: str, stride: int
) -> tuple[relax.Var, ...]:
    """Append operators that keep the best boxes of a head (1, 5, H, W): score, position, size.

    Returns scores (KEPT), centres and sizes (2, KEPT), in pixels, columns before rows.
    """
    _, _, height, width = (int(d) for d in head.ty.shape)
    cells = height * width
    flat = build.emit(op.reshape(head, (5, cells)), name_hint=f"{name}_flat")
    score = build.emit(op.strided_slice(flat, [0], [0], [1]), name_hint=f"{name}_score")
    best = build.emit(
        op.topk(score, KEPT, ret_type="both", dtype="int32"), name_hint=f"{name}_best"
    )
    index = op.squeeze(best[1], [0])
    taken = build.emit(op.take(flat, index, axis=1, mode="clip"), name_hint=f"{name}_taken")
    rows, columns = np.divmod(np.arange(cells, dtype="int32"), np.int32(width))
    places = op.take(
        const(np.stack([columns, rows]) * np.int32(stride)), index, axis=1, mode="clip"
    )
    offsets = op.astype(op.strided_slice(taken, [0], [1], [3]), "int32")
    centres = build.emit(op.add(places, offsets), name_hint=f"{name}_centres")
    sizes = build.emit(
        op.astype(op.strided_slice(taken, [0], [3], [5]), "int32"), name_hint=f"{name}_sizes"
    )
    lost = build.emit(covered_by_better(build, centres, sizes, name), name_hint=f"{name}_lost")
    scores = op.where(lost, relax.const(-128, "int8"), op.squeeze(best[0], [0]))
    return build.emit(scores, name_hint=f"{name}_scores"), centres, sizes


def covered_by_better(
    build: relax.BlockBuilder, centres: relax.Var, sizes: relax.Var, name: str
) -> relax.Expr:
    """Return for each box whether its overlap with a better box is more than a quarter.

    The overlap is the intersection over the union. This is the matrix form of non-maximum
    suppression: all pairs of boxes are compared at once.
    """
    least, most = op.subtract(centres, sizes), op.add(centres, sizes)
    sides = op.subtract(of_two(op.minimum, most), of_two(op.maximum, least))
    sides = build.emit(op.maximum(sides, number(0)), name_hint=f"{name}_sides")
    shared = build.emit(op.prod(sides, axis=0), name_hint=f"{name}_shared")
    areas = build.emit(op.prod(op.multiply(sizes, number(2)), axis=0), name_hint=f"{name}_areas")
    together = op.subtract(of_two(op.add, areas), shared)
    covers = op.astype(op.greater(op.multiply(shared, number(4)), together), "int8")
    better = const(np.triu(np.ones((KEPT, KEPT), "int8"), 1))
    return op.astype(op.max(op.multiply(covers, better), axis=0), "bool")


def of_two(operator: Callable[..., relax.Expr], values: relax.Expr) -> relax.Expr:
    """Return ``operator`` of all pairs of values along the last axis, which becomes two axes."""
    return operator(op.expand_dims(values, -1), op.expand_dims(values, -2))


def number(value: int) -> relax.Expr:
    return relax.const(value, "int32")


def const(array: np.ndarray) -> relax.Expr:
    return relax.const(np.ascontiguousarray(array), str(array.dtype))
