"""Random ONNX models: chains of float operators, and the same chains with quantized tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from tests.networks.onnx_models import graph, node, value
from tests.networks.qdq_operators import Draw

Array = npt.NDArray[Any]

RESIZE_MODES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "LeakyRelu", "Elu", "Selu",
               "Celu", "Softplus", "Softsign", "Erf", "Abs", "Neg", "Sin", "Mish", "Gelu",
               "ThresholdedRelu", "Identity", "Atan", "Asinh", "Exp")  # fmt: skip


class Chain:
    """A graph that grows by operators; ``x`` is the last tensor and ``shape`` its shape."""

    def __init__(self, draw: Draw, opset: int) -> None:
        self.draw, self.opset = draw, opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        rank = draw.among([2, 3, 4, 4, 4])
        self.shape = (draw.among([1, 1, 2]) if rank == 2 else 1, draw.among([2, 3, 4, 8]),
                      *draw.several(3, 9, rank - 2))  # fmt: skip
        self.inputs = [value("x", self.shape)]
        self.x = "x"

    def constant(self, array: Any, dtype: str = "float32") -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array, dtype)
        return name

    def weights(self, *shape: int) -> str:
        """Return a constant whose sums of products keep the spread of their factors."""
        scale = prod(shape[1:]) ** -0.5
        return self.constant(self.draw.random.normal(0, scale, shape))

    def add(self, operator: str, *others: str, results: int = 1, **attributes: Any) -> None:
        """Append a node that reads ``x`` first; its first result becomes ``x``."""
        names = [f"{operator.lower()}_{len(self.nodes)}_{number}" for number in range(results)]
        self.nodes.append(node(operator, [self.x, *others], names, **attributes))
        self.x = names[0]

    def finish(self) -> onnx.ModelProto:
        """Return the model, with ``x`` as its output."""
        made = graph(self.nodes, self.inputs, [onnx.ValueInfoProto(name=self.x)], self.constants,
                     self.opset)  # fmt: skip
        return onnx.shape_inference.infer_shapes(made, check_type=True, strict_mode=True)

    def update_shape(self) -> None:
        (output,) = self.finish().graph.output
        self.shape = tuple(d.dim_value for d in output.type.tensor_type.shape.dim)

    def spatial(self) -> tuple[int, ...]:
        return self.shape[2:]


def add_window(chain: Chain) -> dict[str, Any]:
    """Return the attributes of a random window that fits the tensor."""
    draw, lengths = chain.draw, chain.spatial()
    kernel = [draw.whole(1, min(3, n)) for n in lengths]
    pads = [draw.whole(0, (k - 1) // 2) for k in kernel] * 2
    strides = [draw.whole(1, min(2, k)) for k in kernel]
    made = {"kernel_shape": kernel, "strides": strides}
    return {**made, **draw.among([{"pads": pads}, {"auto_pad": "SAME_UPPER"}, {}])}


def add_convolution(chain: Chain) -> None:
    draw, channels = chain.draw, chain.shape[1]
    group = draw.among([1, 1, channels])
    attributes = add_window(chain)
    outer = group * draw.whole(1, 4 if group == 1 else 2)
    weights = chain.weights(outer, channels // group, *attributes["kernel_shape"])
    bias = [chain.constant(draw.random.normal(0, 1, outer))] if draw.truth() else []
    chain.add("Conv", weights, *bias, group=group, **attributes)


def add_transposed(chain: Chain) -> None:
    draw, channels = chain.draw, chain.shape[1]
    kernel = draw.several(1, 3, len(chain.spatial()))
    weights = chain.weights(channels, draw.whole(1, 3), *kernel)
    chain.add("ConvTranspose", weights, strides=draw.several(1, 2, len(kernel)))


def add_pooling(chain: Chain) -> None:
    draw = chain.draw
    kind = draw.among(["MaxPool", "AveragePool", "MaxPool", "AveragePool", "LpPool"])
    attributes = add_window(chain)
    if kind != "LpPool" and "auto_pad" not in attributes and chain.opset >= 19:
        attributes["ceil_mode"] = draw.whole(0, 1)
    if kind == "AveragePool":
        attributes["count_include_pad"] = draw.whole(0, 1)
    chain.add(kind, **attributes)


def add_global(chain: Chain) -> None:
    chain.add(chain.draw.among(["GlobalAveragePool", "GlobalMaxPool"]))


def add_resize(chain: Chain) -> None:
    draw, rank = chain.draw, len(chain.shape)
    mode = draw.among(["nearest", "linear", "cubic"] if rank == 4 else ["nearest", "linear"])
    attributes: dict[str, Any] = {"mode": mode}
    attributes["coordinate_transformation_mode"] = draw.among(RESIZE_MODES)
    if mode == "nearest":
        attributes["nearest_mode"] = draw.among(["floor", "ceil", "round_prefer_floor"])
    sizes = [*chain.shape[:2], *(draw.whole(2, 2 * n) for n in chain.spatial())]
    scales = [1, 1, *(draw.among([0.5, 1, 1.5, 2, 2.5]) for _ in chain.spatial())]
    empty = chain.constant([])
    if draw.truth():
        chain.add("Resize", empty, empty, chain.constant(sizes, "int64"), **attributes)
    else:
        chain.add("Resize", empty, chain.constant(scales), **attributes)


def add_activation(chain: Chain) -> None:
    known = [name for name in ACTIVATIONS if onnx.defs.has(name, chain.opset)]
    known = [n for n in known if onnx.defs.get_schema(n, chain.opset).since_version <= chain.opset]
    chain.add(chain.draw.among(known))


def add_clip(chain: Chain) -> None:
    chain.add("Clip", chain.constant(-chain.draw.random.uniform(0, 1)), chain.constant(0.875))


def add_binary(chain: Chain) -> None:
    """Append an operator of the tensor and a constant, or of the tensor and an earlier one."""
    draw = chain.draw
    kind = draw.among(["Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Add", "Mul"])
    shape = [n if draw.truth() else 1 for n in chain.shape[draw.whole(0, len(chain.shape) - 1) :]]
    sign = 1 if kind == "PRelu" else draw.among([-1, 1])
    chain.add(kind, chain.constant(sign * draw.random.uniform(0.5, 2, shape)))


def add_residual(chain: Chain) -> None:
    """Append a sum or product of the tensor and a function of it."""
    before = chain.x
    add_activation(chain)
    chain.add(chain.draw.among(["Add", "Mul", "Sub"]), before)


def add_product(chain: Chain) -> None:
    draw, inner = chain.draw, chain.shape[-1]
    outer = draw.whole(1, 8)
    if len(chain.shape) != 2 or draw.truth():
        chain.add("MatMul", chain.constant(draw.random.normal(0, inner**-0.5, (inner, outer))))
    else:
        bias = chain.constant(draw.random.normal(0, 1, outer))
        chain.add("Gemm", chain.weights(outer, inner), bias, transB=1)


def add_square(chain: Chain) -> None:
    """Append a product of the tensor and its transposed form, as attention has."""
    before, rank = chain.x, len(chain.shape)
    chain.add("Transpose", perm=[*range(rank - 2), rank - 1, rank - 2])
    chain.add("MatMul", before)


def add_softmax(chain: Chain) -> None:
    axis = chain.draw.whole(-len(chain.shape), len(chain.shape) - 1)
    chain.add(chain.draw.among(["Softmax", "Softmax", "LogSoftmax"]), axis=axis)


def add_normalization(chain: Chain) -> None:
    draw, channels = chain.draw, chain.shape[1]
    kind = draw.among(["InstanceNormalization", "BatchNormalization", "LRN", "LpNormalization"])
    factors = [chain.constant(draw.random.uniform(0.5, 2, channels)) for _ in range(2)]
    if kind == "BatchNormalization":
        moments = (chain.constant(draw.random.normal(0, 1, channels)), factors[0])
        chain.add(kind, *factors, *moments)
    elif kind == "InstanceNormalization":
        chain.add(kind, *factors)
    elif kind == "LRN" and len(chain.shape) == 4:
        chain.add(kind, size=draw.among([1, 3]), alpha=0.01)
    else:
        chain.add("LpNormalization", axis=draw.whole(1, len(chain.shape) - 1), p=draw.whole(1, 2))


def add_layer_norm(chain: Chain) -> None:
    factors = chain.constant(chain.draw.random.uniform(0.5, 2, chain.shape[-1]))
    chain.add("LayerNormalization", factors, axis=-1)


def add_reduction(chain: Chain) -> None:
    draw = chain.draw
    kind = draw.among(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2",
                       "ReduceSumSquare", "ReduceLogSumExp", "ReduceL1"])  # fmt: skip
    axes = sorted({draw.whole(1, len(chain.shape) - 1) for _ in range(2)})
    keeps = 1 if len(chain.shape) - len(axes) < 2 else draw.whole(0, 1)
    if chain.opset >= (13 if kind == "ReduceSum" else 18):
        chain.add(kind, chain.constant(axes, "int64"), keepdims=keeps)
    else:
        chain.add(kind, axes=axes, keepdims=keeps)


def add_cumulative(chain: Chain) -> None:
    axis = chain.constant(chain.draw.whole(0, len(chain.shape) - 1), "int64")
    chain.add("CumSum", axis, reverse=chain.draw.whole(0, 1), exclusive=chain.draw.whole(0, 1))


def add_transpose(chain: Chain) -> None:
    chain.add("Transpose", perm=[0, *(chain.draw.random.permutation(len(chain.shape) - 1) + 1)])


def add_reshape(chain: Chain) -> None:
    _, channels, *rest = chain.shape
    shapes = [[0, -1, 1], [0, channels, -1], [1, -1, channels, 1], [0, 0, prod(rest)]]
    chain.add("Reshape", chain.constant(chain.draw.among(shapes), "int64"))


def add_flatten(chain: Chain) -> None:
    chain.add("Flatten", axis=1)


def add_slice(chain: Chain) -> None:
    draw = chain.draw
    axis = draw.whole(1, len(chain.shape) - 1)
    length = chain.shape[axis]
    step = draw.among([1, 1, 2, -1, -2])
    first, last = (draw.whole(0, length // 2), length) if step > 0 else (length - 1, -length - 1)
    chain.add("Slice", *(chain.constant([n], "int64") for n in (first, last, axis, step)))


def add_padding(chain: Chain) -> None:
    draw, rank = chain.draw, len(chain.shape)
    mode = draw.among(["constant", "reflect", "edge"])
    limits = [0, 0, *(min(2, n - 1) for n in chain.spatial())] * 2
    pads = chain.constant([draw.whole(0, n) for n in limits[: 2 * rank]], "int64")
    fill = [chain.constant(draw.random.normal())] if mode == "constant" else []
    chain.add("Pad", pads, *fill, mode=mode)


def add_join(chain: Chain) -> None:
    """Append the tensor next to a function of it, or next to a constant."""
    before = chain.x
    if chain.draw.truth():
        add_activation(chain)
    else:
        chain.x = chain.constant(chain.draw.random.normal(0, 1, chain.shape))
    chain.add("Concat", before, axis=chain.draw.whole(1, len(chain.shape) - 1))


def add_split(chain: Chain) -> None:
    draw = chain.draw
    axes = [axis for axis, n in enumerate(chain.shape) if n > 1 and axis]
    axis = draw.among(axes or [0])
    if not axes:
        return
    first = draw.whole(1, chain.shape[axis] - 1)
    sizes = chain.constant([first, chain.shape[axis] - first], "int64")
    chain.add("Split", sizes, axis=axis, results=2)


def add_gather(chain: Chain) -> None:
    draw = chain.draw
    axis = draw.whole(1, len(chain.shape) - 1)
    indices = draw.several(-chain.shape[axis], chain.shape[axis] - 1, draw.whole(1, 4))
    chain.add("Gather", chain.constant(indices, "int64"), axis=axis)


def add_scatter(chain: Chain) -> None:
    draw, shape = chain.draw, (*chain.shape[:-1], 1)
    indices = chain.constant(draw.random.integers(0, chain.shape[-1], shape), "int64")
    updates = chain.constant(draw.random.normal(0, 1, shape))
    chain.add("ScatterElements", indices, updates, axis=-1)


def add_top(chain: Chain) -> None:
    draw = chain.draw
    axis = draw.whole(1, len(chain.shape) - 1)
    count = chain.constant([draw.whole(1, chain.shape[axis])], "int64")
    chain.add("TopK", count, axis=axis, largest=draw.whole(0, 1), results=2)


def add_where(chain: Chain) -> None:
    before, limit = chain.x, chain.constant(chain.draw.random.normal())
    chain.add(chain.draw.among(["Greater", "Less"]), limit)
    condition = chain.x
    chain.x = condition
    chain.add("Where", before, chain.constant(chain.draw.random.normal()))


def add_depth(chain: Chain) -> None:
    if chain.shape[1] % 4 == 0:
        chain.add("DepthToSpace", blocksize=2, mode=chain.draw.among(["DCR", "CRD"]))
    elif all(n % 2 == 0 for n in chain.spatial()):
        chain.add("SpaceToDepth", blocksize=2)
    else:
        add_activation(chain)


def add_grid_sample(chain: Chain) -> None:
    draw = chain.draw
    grid = chain.constant(draw.random.uniform(-1.2, 1.2, (1, 3, 4, 2)))
    padding = draw.among(["zeros", "border", "reflection"])
    align = draw.whole(0, 1)
    chain.add("GridSample", grid, mode="linear", padding_mode=padding, align_corners=align)


def add_recurrent(chain: Chain) -> None:
    """Append an LSTM, GRU or RNN of one or two directions."""
    draw, size = chain.draw, chain.draw.whole(1, 4)
    kind, gates = draw.among([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    direction, count = draw.among([("forward", 1), ("reverse", 1), ("bidirectional", 2)])
    weights = chain.weights(count, gates * size, chain.shape[-1])
    again = chain.weights(count, gates * size, size)
    bias = [chain.constant(draw.random.normal(0, 0.5, (count, 2 * gates * size)))]
    attributes = {"linear_before_reset": draw.whole(0, 1)} if kind == "GRU" else {}
    chain.add(kind, weights, again, *(bias if draw.truth() else []), hidden_size=size,
              direction=direction, **attributes)  # fmt: skip
    chain.update_shape()
    chain.add("Reshape", chain.constant([1, chain.shape[0], -1], "int64"))


ANY = (2, 3, 4)
STEPS: Sequence[tuple[Callable[[Chain], None], Sequence[int], int]] = (
    (add_convolution, (3, 4), 5), (add_transposed, (3, 4), 1), (add_pooling, (3, 4), 3),
    (add_global, (4,), 1), (add_resize, (4,), 2), (add_activation, ANY, 4), (add_clip, ANY, 1),
    (add_binary, ANY, 3), (add_residual, ANY, 2), (add_product, ANY, 2), (add_square, (3, 4), 1),
    (add_softmax, ANY, 1), (add_normalization, (3, 4), 1), (add_layer_norm, ANY, 1),
    (add_reduction, ANY, 1), (add_cumulative, ANY, 1), (add_transpose, ANY, 1),
    (add_reshape, (3, 4), 1), (add_flatten, ANY, 1), (add_slice, ANY, 1), (add_padding, ANY, 1),
    (add_join, ANY, 1), (add_split, ANY, 1), (add_gather, ANY, 1), (add_scatter, ANY, 1),
    (add_top, ANY, 1), (add_where, ANY, 1), (add_depth, (4,), 1), (add_grid_sample, (4,), 1),
    (add_recurrent, (3,), 3),
)  # fmt: skip
"""Functions that append an operator, the ranks of their inputs, and their relative frequency."""

FIRST_OPSETS: Mapping[Callable[[Chain], None], int] = {add_layer_norm: 17, add_grid_sample: 20}

LARGEST = 4_000
"""A step that makes more elements is drawn again, so that a model stays small."""


def make_float_model(seed: int) -> onnx.ModelProto:
    """Return a chain of 2 to 7 random float operators, of opset 13 to 23."""
    draw = Draw(seed)
    chain = Chain(draw, draw.whole(13, 23))
    wanted = draw.whole(2, 7)
    while len(chain.nodes) < wanted:
        steps = [step for step, ranks, times in STEPS if len(chain.shape) in ranks
                 and FIRST_OPSETS.get(step, 0) <= chain.opset for _ in range(times)]  # fmt: skip
        before = (list(chain.nodes), dict(chain.constants), chain.x, chain.shape)
        draw.among(steps)(chain)
        chain.update_shape()
        if prod(chain.shape) > LARGEST or 0 in chain.shape or len(chain.shape) < 2:
            chain.nodes, chain.constants, chain.x, chain.shape = before
    return chain.finish()


def draw_input(model: onnx.ModelProto, seed: int) -> dict[str, Array]:
    """Return a random input of a model."""
    generator = np.random.default_rng(seed)
    return {
        tensor.name: generator.normal(
            0, 1, [d.dim_value for d in tensor.type.tensor_type.shape.dim]
        ).astype("float32")
        for tensor in model.graph.input
    }
