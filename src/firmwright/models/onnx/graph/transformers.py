"""Rewrites attention, word embeddings and rotary positions of com.microsoft.

Attention becomes products, a mask and a softmax.

Source: ContribOperators.md and the CPU kernels of ONNX Runtime. The mask adds ``mask_filter_value``
to the scores of padding keys. In causal attention, the lowest float32 is added to the scores of
keys after the query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from firmwright.models.onnx.graph.microsoft import dequantize
from firmwright.models.onnx.graph.normalizations import normalize
from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Rewrite

NO_CACHE = "export the model without a cache of keys and values"


class Scores(NamedTuple):
    """The lengths of the scores' axes.

    ``depth`` is the size of a head and the length of dot products.
    """

    batch: int
    queries: int
    keys: int
    depth: int


def read_heads(body: NodeBuilder, *hidden: int) -> int:
    """Return the number of heads.

    Raises UserError if this number does not divide all lengths ``hidden``.
    """
    heads = int(body.attribute("num_heads", 0))
    if heads < 1 or any(size % heads for size in hidden):
        body.refuse_inconsistent(
            f"its num_heads is {heads}; expected a divisor of the hidden sizes {list(hidden)}"
        )
    return heads


def split_heads(body: NodeBuilder, name: str, heads: int) -> str:
    """Reshape and transpose (batch, length, hidden) to (batch, heads, length, size)."""
    split = body.reshape(name, [0, 0, heads, -1])
    return body.add("Transpose", split, perm=[0, 2, 1, 3])


def attend(body: NodeBuilder, parts: Sequence[str], scores: Scores, mask: str, bias: str) -> str:
    """Append the attention of queries, keys and values that are split into heads.

    The result is (batch, queries, hidden). ``mask`` and ``bias`` may be empty.
    """
    add = body.add
    query, key, value = parts
    scale = body.attribute("scale", 0.0) or scores.depth**-0.5
    result = add("MatMul", query, add("Transpose", key, perm=[0, 1, 3, 2]))
    result = add("Mul", result, body.constant(scale))
    if bias:
        result = add("Add", result, bias)
    if mask:
        result = add("Add", result, add_padding(body, mask, scores))
    if body.attribute("unidirectional", 0) and scores.queries > 1:
        rows, columns = (
            body.constant(np.arange(n), "int32") for n in (scores.queries, scores.keys)
        )
        later = add("Less", body.unsqueeze(rows, 1), columns)
        lowest = body.constant(np.finfo("float32").min)
        result = add("Add", result, add("Where", later, lowest, body.constant(0)))
    result = add("MatMul", add("Softmax", result, axis=-1), value)
    result = add("Transpose", result, perm=[0, 2, 1, 3])
    return add("Reshape", result, body.constant([0, 0, -1], "int64"))


def add_padding(body: NodeBuilder, mask: str, scores: Scores) -> str:
    """Append the summand that a mask adds to the scores.

    A mask (batch) contains the ends of the sequences. A mask (2 · batch) contains the ends and the
    beginnings. Otherwise the mask contains a number per key, (batch, keys) or (batch, queries,
    keys). Numbers above 0 mark valid keys.
    """
    add = body.add
    batch, keys = scores.batch, scores.keys
    shape = body.walk.shape(mask) or ()
    if shape in ((batch,), (2 * batch,)):
        positions = body.constant(np.arange(keys), "int32")
        whole = body.constant([batch, 1, 1, 1], "int64")
        counts = add("Less", positions, add("Reshape", body.cut(mask, 0, 0, batch), whole))
        if shape[0] > batch:
            begin = add("Reshape", body.cut(mask, 0, batch, 2 * batch), whole)
            counts = add("And", counts, add("Not", add("Less", positions, begin)))
    elif shape in ((batch, keys), (batch, scores.queries, keys)):
        whole = body.constant([batch, 1, -1, keys], "int64")
        counts = add("Greater", add("Reshape", mask, whole), body.constant(0, "int32"))
    else:
        body.refuse_inconsistent(
            f"its mask has shape {list(shape)}; expected {[batch, keys]} or "
            f"{[batch, scores.queries, keys]}, for {batch} sequences of {keys} keys"
        )
    filtered = body.attribute("mask_filter_value", -10000.0)
    return add("Where", counts, body.constant(0), body.constant(filtered))


Project = Callable[[int, int], str]
"""Appends the product of the input and columns of the merged weights.

The arguments are the first column and the number of columns.
"""


def attend_to_itself(body: NodeBuilder, project: Project, mask: str, bias: str) -> Nodes | None:
    """Return an attention whose queries, keys and values come from one input and merged weights."""
    shape, weights = (body.walk.shape(name) or () for name in body.inputs(2))
    if len(shape) != 3 or len(weights) != 2:
        return None
    sizes = body.attribute("qkv_hidden_sizes", [weights[1] // 3] * 3)
    heads = read_heads(body, *sizes)
    if len(sizes) != 3 or sum(sizes) != weights[1] or sizes[0] != sizes[1]:
        body.refuse_inconsistent(
            f"its weights have {weights[1]} columns, and queries, keys and values have widths "
            f"{list(sizes)}; expected {sum(sizes)} columns, and queries as wide as keys"
        )
    begins = (0, sizes[0], 2 * sizes[0])
    parts = [split_heads(body, project(*span), heads) for span in zip(begins, sizes, strict=True)]
    scores = Scores(shape[0], shape[1], shape[1], sizes[0] // heads)
    if mask and body.walk.shape(mask) in ((shape[0], 1), (1, 1)):
        mask = ""  # a summand that is equal for all keys has no effect
    result = attend(body, parts, scores, mask, bias)
    asked = any(body.node.output[1:2])
    return body.finish(result, *([body.stack(parts[1:], 0)] if asked else []))


def rewrite_attention(body: NodeBuilder) -> Nodes | None:
    data, weights, bias, mask, _, added = body.inputs(6)
    body.refuse_tensors({4: "past"}, NO_CACHE)
    if body.attribute("do_rotary", 0):
        body.refuse(
            "its attribute do_rotary is set; write the operator as RotaryEmbedding and "
            "MultiHeadAttention"
        )
    if not bias:  # ONNX Runtime crashes if the bias is missing
        body.refuse("it has no bias; add a bias of zeros")

    def project(begin: int, size: int) -> str:
        product = body.add("MatMul", data, body.cut(weights, 1, begin, begin + size))
        return body.add("Add", product, body.cut(bias, 0, begin, begin + size))

    return attend_to_itself(body, project, mask, added)


def rewrite_quantized_attention(body: NodeBuilder) -> Nodes | None:
    """Rewrite a QAttention, whose input and weights are quantized."""
    data, weights, bias, scale, steps, mask, zero, zeros = body.inputs(8)
    body.refuse_tensors({8: "past"}, NO_CACHE)
    if body.attribute("do_rotary", 0):
        body.refuse(
            "its attribute do_rotary is set, which ONNX Runtime's CPU kernel does not support; "
            "write it as RotaryEmbedding before the quantization"
        )
    values = dequantize(body, data, scale, zero)

    def cut_params(name: str, begin: int, size: int) -> str:
        is_one = not name or body.walk.shape(name) in ((), (1,))
        return name if is_one else body.cut(name, 0, begin, begin + size)

    def project(begin: int, size: int) -> str:
        columns = body.cut(weights, 1, begin, begin + size)
        step, point = (cut_params(name, begin, size) for name in (steps, zeros))
        product = body.add("MatMul", values, dequantize(body, columns, step, point, 1))
        return body.add("Add", product, body.cut(bias, 0, begin, begin + size))

    return attend_to_itself(body, project, mask, "")


def rewrite_multi_head(body: NodeBuilder) -> Nodes | None:
    """Rewrite a MultiHeadAttention, whose inputs are already projected, but may need a bias.

    Keys and values with four axes are already split into heads, and include the bias.
    """
    query, key, value, bias, mask, added = body.inputs(6)
    cache = ("past_key", "past_value", "past_sequence_length", "cache_indirection")
    body.refuse_tensors(dict(enumerate(cache, 6)), NO_CACHE)
    body.refuse_tensors({-4: "qk"}, "remove it")
    shapes = [body.walk.shape(name) for name in (query, key, value) if name]
    if None in shapes:
        return None
    axes = [len(s or ()) for s in shapes]
    if axes not in ([3, 3, 3], [3, 4, 4]):
        body.refuse(
            f"its query, key and value have {axes} axes; expected [3, 3, 3] or [3, 4, 4]: pass "
            "query, key and value as separate tensors"
        )
    shape, keys, values = (s or () for s in shapes)
    is_split = len(keys) == 4
    heads = read_heads(body, shape[2], *(() if is_split else (values[2],)))

    def split(name: str, begin: int, size: int) -> str:
        moved = body.add("Add", name, body.cut(bias, 0, begin, begin + size)) if bias else name
        return split_heads(body, moved, heads)

    parts = [split(query, 0, shape[2])]
    if is_split:
        parts += [key, value]
    else:
        parts += [split(key, shape[2], shape[2]), split(value, 2 * shape[2], values[2])]
    scores = Scores(shape[0], shape[1], keys[-2], shape[2] // heads)
    return body.finish(attend(body, parts, scores, mask, added), *parts[1:])


ATTENTION: dict[str, Rewrite] = {
    "com.microsoft.Attention": rewrite_attention,
    "com.microsoft.MultiHeadAttention": rewrite_multi_head,
    "com.microsoft.QAttention": rewrite_quantized_attention,
}


LookUp = Callable[[int, str], str]
"""Appends a selection of rows. The arguments are the table's input index and the row numbers."""


def rewrite_embedding(body: NodeBuilder) -> Nodes | None:
    inputs = body.inputs(9)

    def look_up(table: int, rows: str) -> str:
        return body.add("Gather", inputs[table], rows, axis=0)

    return embed(body, look_up, inputs[5:7], *inputs[7:])


def rewrite_quantized_embedding(body: NodeBuilder) -> Nodes | None:
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
    "com.microsoft.QEmbedLayerNormalization": rewrite_quantized_embedding,
    "com.microsoft.RotaryEmbedding": rewrite_rotation,
}
