"""Rewrites word embeddings and rotary positions of com.microsoft, ONNX Runtime's domain."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from firmwright.models.onnx.graph.body import NodeBuilder, Nodes, Rewrite
from firmwright.models.onnx.graph.microsoft import dequantize
from firmwright.models.onnx.graph.normalizations import normalize

LookUp = Callable[[int, str], str]
"""Appends a selection of rows. The arguments are the table's input index and the row numbers."""


def rewrite_embedding(body: NodeBuilder) -> Nodes | None:
    inputs = body.inputs(9)

    def look_up(table: int, rows: str) -> str:
        return body.add("Gather", inputs[table], rows, axis=0)

    return embed(body, look_up, inputs[5:7], *inputs[7:])


def rewrite_quantized(body: NodeBuilder) -> Nodes | None:
    """Rewrite a QEmbedLayerNormalization, whose inputs 2 to 6 are quantized."""
    inputs = body.inputs(18)

    def restore(position: int, values: str) -> str:
        return dequantize(body, values, inputs[position + 6], inputs[position + 11])

    def look_up(table: int, rows: str) -> str:
        return restore(table, body.add("Gather", inputs[table], rows, axis=0))

    norm = [restore(position, inputs[position]) for position in (5, 6)]
    return embed(body, look_up, norm, inputs[7], "")


def embed(
    body: NodeBuilder,
    look_up: LookUp,
    norm: list[str],
    mask: str,
    positions: str,
) -> Nodes | None:
    """Return the normalized sum of the rows of words, positions and optional segments.

    The other two results are the number of ones in each sequence's mask, and the sum.
    """
    tokens, segments = body.inputs(2)
    shape = body.walk.shape(tokens) or ()
    if len(shape) != 2:
        return None
    batch, length = shape
    total = look_up(2, tokens)
    total = body.add(
        "Add", total, look_up(3, positions or body.constant(np.arange(length), "int64"))
    )
    if segments:
        total = body.add("Add", total, look_up(4, segments))
    count = body.constant([0] * batch, "int32")
    if mask:
        ones = body.add("Equal", mask, body.constant(1, "int32"))
        ones = body.cast(ones, "int32")
        count = body.add(
            "Reshape", body.reduce("ReduceSum", ones, 1), body.constant([batch], "int64")
        )
    return body.finish(normalize(body, total, *norm), count, total)


def rewrite_rotation(body: NodeBuilder) -> Nodes | None:
    """Rewrite a RotaryEmbedding, which rotates pairs of elements.

    The angles depend on the position. The input is (batch, length, hidden) or (batch, heads,
    length, size).
    """
    data, positions, cosines, sines = body.inputs(4)
    shape, numbers, table = (body.walk.shape(name) or () for name in (data, positions, cosines))
    if len(shape) not in (3, 4) or not numbers or len(table) != 2:
        return None
    if body.attribute("scale", 1.0) != 1 or body.attribute("is_packed_batching", 0):
        body.refuse("it has a scale or packed batches, which ONNX Runtime's CPU kernel ignores; "
                     "remove them")  # fmt: skip
    add = body.add
    turned = 2 * table[1]
    heads = body.attribute("num_heads", 0) or shape[-1] // turned
    whole = data
    if len(shape) == 3:
        whole = add("Reshape", data, body.constant([0, 0, heads, shape[2] // heads], "int64"))
    if numbers == (1,):
        steps = np.arange(shape[-2])[None]
        positions = add("Add", positions, body.constant(steps, "int64"))
    axis = 2 if len(shape) == 3 else 1
    cosine, sine = (
        body.unsqueeze(add("Gather", name, positions, axis=0), axis) for name in (cosines, sines)
    )
    if body.attribute("interleaved", 0):
        first, second = (body.cut(whole, 3, n, turned, 2) for n in (0, 1))
    else:
        first, second = (body.cut(whole, 3, n, n + table[1]) for n in (0, table[1]))
    pair = [
        add("Sub", add("Mul", first, cosine), add("Mul", second, sine)),
        add("Add", add("Mul", second, cosine), add("Mul", first, sine)),
    ]
    if body.attribute("interleaved", 0):
        result = body.stack(pair, 4)
        result = add("Reshape", result, body.constant([0, 0, 0, turned], "int64"))
    else:
        result = add("Concat", *pair, axis=3)
    size = shape[3] if len(shape) == 4 else shape[2] // heads
    if size > turned:
        result = add("Concat", result, body.cut(whole, 3, turned, size), axis=3)
    if len(shape) == 3:
        result = add("Reshape", result, body.constant([0, 0, -1], "int64"))
    return body.finish(result)


EMBEDDINGS: dict[str, Rewrite] = {
    "com.microsoft.EmbedLayerNormalization": rewrite_embedding,
    "com.microsoft.QEmbedLayerNormalization": rewrite_quantized,
    "com.microsoft.RotaryEmbedding": rewrite_rotation,
}
