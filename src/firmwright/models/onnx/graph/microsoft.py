"""Rewrites operators of com.microsoft, ONNX Runtime's domain, as operators of ONNX.

ONNX Runtime's quantizer writes quantized operators (format QOperator). ONNX Runtime's optimizer
writes fused operators. A quantized operator becomes a float operator between dequantize and
quantize operators. Source: ContribOperators.md of ONNX Runtime. ONNX Runtime's kernels round a
product of scales once, but the rewritten form rounds twice. Therefore a result may differ by one
step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper

from firmwright.models.onnx.graph.specialize import NodeBuilder, Nodes, Rewrite

Compute = Callable[[NodeBuilder, Sequence[str]], str]
"""Appends an operator on floats, and returns the name of the result."""

FLATTENING_OPSET = 13
"""The first opset in which Softmax works along one axis.

In earlier opsets, Softmax spans all later axes.
"""


def dequantize(
    body: NodeBuilder, data: str, scale: str, zero: str = "", axis: int | None = None
) -> str:
    """Append a dequantize operator. ``axis`` is the axis of several scales (since opset 13)."""
    along = {} if axis is None or body.opset < 13 else {"axis": axis}
    return body.add("DequantizeLinear", data, scale, *([zero] if zero else []), **along)


def finish_quantized(body: NodeBuilder, result: str, scale: str, zero: str, like: str) -> Nodes:
    """Quantize a result. If ``zero`` is empty, the zero point is 0 in the type of ``like``."""
    point = zero or body.constant(0, body.walk.dtype(like))
    return body.finish(body.add("QuantizeLinear", result, scale, point))


def make_quantized(compute: Compute, operands: int = 1) -> Rewrite:
    """Return a rewrite of an operator whose ``operands`` are triples (data, scale, zero point).

    The inputs after the operands are the scale and the zero point of the result.
    """

    def rewrite(body: NodeBuilder) -> Nodes:
        inputs = [*body.node.input, ""]
        values = [dequantize(body, *inputs[3 * i : 3 * i + 3]) for i in range(operands)]
        scale, zero = inputs[3 * operands : 3 * operands + 2]
        return finish_quantized(body, compute(body, values), scale, zero, body.input(0))

    return rewrite


def make_same(operator: str) -> Compute:
    return lambda body, values: body.add(operator, *values)


def compute_leaky_relu(body: NodeBuilder, values: Sequence[str]) -> str:
    return body.add("LeakyRelu", *values, alpha=body.attribute("alpha", 0.01))


def compute_softmax(body: NodeBuilder, values: Sequence[str]) -> str:
    if body.attribute("opset", 1) < FLATTENING_OPSET <= body.opset:
        body.refuse(
            f"it flattens its input as before opset {FLATTENING_OPSET}; quantize a model of a "
            "later opset"
        )
    return body.add("Softmax", *values, axis=body.attribute("axis", -1))


def pool(operator: str, *names: str) -> Compute:
    """Return a function that appends a pooling of images, which may have channels last."""

    def compute(body: NodeBuilder, values: Sequence[str]) -> str:
        stated = {n: body.attribute(n, None) for n in names}
        attributes = {n: value for n, value in stated.items() if value is not None}
        if not body.attribute("channels_last", 0):
            return body.add(operator, *values, **attributes)
        image = body.add("Transpose", *values, perm=[0, 3, 1, 2])
        return body.add("Transpose", body.add(operator, image, **attributes), perm=[0, 2, 3, 1])

    return compute


def rewrite_concat(body: NodeBuilder) -> Nodes:
    scale, zero, *inputs = body.node.input
    values = [dequantize(body, *inputs[i : i + 3]) for i in range(0, len(inputs), 3)]
    joined = body.add("Concat", *values, axis=body.attribute("axis", 1))
    return finish_quantized(body, joined, scale, zero, inputs[0])


def rewrite_gemm(body: NodeBuilder) -> Nodes:
    """Rewrite a QGemm, whose int32 bias has the quantization parameters of the products."""
    a, a_scale, a_zero, b, b_scale, b_zero, bias, scale, zero = body.inputs(9)
    transposed = {n: body.attribute(n, 0) for n in ("transA", "transB")}
    alpha = body.attribute("alpha", 1.0)
    axis = 0 if transposed["transB"] else 1
    operands = [
        dequantize(body, a, a_scale, a_zero),
        dequantize(body, b, b_scale, b_zero, axis),
    ]
    if bias:
        step = body.add("Mul", a_scale, b_scale)
        if alpha != 1:
            step = body.add("Mul", step, body.constant(alpha))
        operands.append(dequantize(body, bias, step, axis=0))
    product = body.add("Gemm", *operands, alpha=alpha, **transposed)
    if not scale:
        return body.finish(product)
    return finish_quantized(body, product, scale, zero, a)


ACTIVATIONS = {
    "Celu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}
"""Maps the activations of fused operators to the names of their attributes."""


def add_activation(body: NodeBuilder, result: str, kind: str, numbers: Sequence[float]) -> str:
    if kind == "Clip":
        low, high = (body.constant(number) for number in numbers)
        return body.add("Clip", result, low, high)
    if kind not in ACTIVATIONS:
        known = ", ".join(sorted([*ACTIVATIONS, "Clip"]))
        body.refuse(
            f"its activation is {kind}; expected one of {known}: export it without fused operators"
        )
    return body.add(kind, result, **dict(zip(ACTIVATIONS[kind], numbers, strict=False)))


def rewrite_convolution(body: NodeBuilder) -> Nodes:
    """Rewrite a FusedConv as a convolution, the addition of a tensor, and an activation."""
    data, weights, bias, added = body.inputs(4)
    stated = body.attributes()
    kind = stated.pop("activation", b"").decode()
    numbers = stated.pop("activation_params", [])
    result = body.add("Conv", data, weights, *([bias] if bias else []), **stated)
    if added:
        result = body.add("Add", result, added)
    return body.finish(add_activation(body, result, kind, numbers) if kind else result)


def rewrite_product(body: NodeBuilder) -> Nodes:
    """Rewrite a FusedGemm as a Gemm and an activation."""
    stated = body.attributes()
    kind = stated.pop("activation", b"").decode()
    numbers = [stated.pop(f"activation_{n}", 0.0) for n in ("alpha", "beta", "gamma")]
    result = body.add("Gemm", *body.node.input, **stated)
    return body.finish(add_activation(body, result, kind, numbers) if kind else result)


def rewrite_matmul(body: NodeBuilder) -> Nodes | None:
    """Rewrite a FusedMatMul, which can transpose its operands and multiply the product by a factor.

    ``transBatch`` moves the first axis of an operand before its last axis. ``trans`` swaps the last
    two axes.
    """
    operands = []
    for name, letter in zip(body.inputs(2), "AB", strict=True):
        shape = body.walk.shape(name)
        if shape is None:
            return None
        order = [*range(len(shape))]
        if body.attribute(f"transBatch{letter}", 0):
            order.insert(len(shape) - 2, order.pop(0))
        if body.attribute(f"trans{letter}", 0) and len(shape) > 1:
            order[-2:] = order[:-3:-1]
        operands.append(name if order == sorted(order) else body.add("Transpose", name, perm=order))
    product = body.add("MatMul", *operands)
    alpha = body.attribute("alpha", 1.0)
    factor = body.constant(alpha, body.dtype(0))
    return body.finish(product if alpha == 1 else body.add("Mul", product, factor))


def rewrite_where(body: NodeBuilder) -> Nodes:
    condition, *inputs, scale, zero = body.node.input
    values = [dequantize(body, *inputs[i : i + 3]) for i in (0, 3)]
    chosen = body.add("Where", condition, *values)
    return finish_quantized(body, chosen, scale, zero, inputs[0])


def add_bias(body: NodeBuilder, result: str, bias: str) -> str:
    return body.add("Add", result, bias) if bias else result


def make_gelu(approximate: str) -> Rewrite:
    def rewrite(body: NodeBuilder) -> Nodes:
        data, bias = body.inputs(2)
        return body.finish(body.add("Gelu", add_bias(body, data, bias), approximate=approximate))

    return rewrite


def rewrite_quick_gelu(body: NodeBuilder) -> Nodes:
    """Rewrite a QuickGelu as x · sigmoid(alpha · x)."""
    alpha = body.constant(body.attribute("alpha", 1.702), body.dtype(0))
    gate = body.add("Sigmoid", body.add("Mul", body.input(0), alpha))
    return body.finish(body.add("Mul", body.input(0), gate))


def rewrite_integer_product(body: NodeBuilder) -> Nodes:
    """Rewrite a MatMulIntegerToFloat, which has two quantized operands and a float result."""
    a, b, a_scale, b_scale, a_zero, b_zero, bias = body.inputs(7)
    operands = [dequantize(body, a, a_scale, a_zero), dequantize(body, b, b_scale, b_zero, 1)]
    return body.finish(add_bias(body, body.add("MatMul", *operands), bias))


def rewrite_dynamic_product(body: NodeBuilder) -> Nodes:
    """Rewrite a DynamicQuantizeMatMul, whose first operand is quantized at run time."""
    a, b, b_scale, b_zero, bias = body.inputs(5)
    data, scale, zero = params = [body.name_tensor(label) for label in ("data", "scale", "zero")]
    body.nodes.append(helper.make_node("DynamicQuantizeLinear", [a], params, body.node.name))
    operands = [dequantize(body, data, scale, zero), dequantize(body, b, b_scale, b_zero, 1)]
    return body.finish(add_bias(body, body.add("MatMul", *operands), bias))


BLOCK_SIZES = (16, 32, 64, 128, 256)
"""The blocks that ONNX Runtime supports."""


@dataclass(frozen=True)
class BlockWeights:
    """The constants of a MatMulNBits.

    ``depth`` is K and ``columns`` is N. ``bits`` is the width of a weight, and ``block`` is the
    number of weights per block. ``stored`` contains bytes (N, blocks, bytes per block). ``scales``
    and ``points`` are (N, blocks). The points are bytes, unless the model stores floats.
    """

    depth: int
    columns: int
    bits: int
    block: int
    stored: npt.NDArray[np.uint8]
    scales: npt.NDArray[np.float32]
    points: npt.NDArray[Any]

    def dequantize(self) -> npt.NDArray[np.float32]:
        """Return the weights as floats (K, N)."""
        digits = unpack_bits(self.stored, self.bits)[..., : self.block].astype("float32")
        weights = (digits - self.points[..., None]) * self.scales[..., None]
        real: npt.NDArray[np.float32] = weights.reshape(self.columns, -1)[:, : self.depth].T
        return real


def read_block_weights(body: NodeBuilder) -> BlockWeights | None:
    """Return the weights of a MatMulNBits.

    Return None if the weights are not constants in plain order. Raises UserError if the last axis
    of the data does not have K elements, or if ONNX Runtime does not support the block.
    """
    data, b, scales, zeros, groups, _ = body.inputs(6)
    if groups or not {n for n in (b, scales, zeros) if n} <= body.walk.constants.keys():
        return None
    depth, columns, bits, block = (body.attribute(n, 4) for n in ("K", "N", "bits", "block_size"))
    if block not in BLOCK_SIZES:
        sizes = ", ".join(map(str, BLOCK_SIZES))
        body.refuse_inconsistent(f"its block_size is {block}; expected one of {sizes}")
    given = body.walk.shape(data)
    if given and given[-1] != depth:
        body.refuse_inconsistent(
            f"its K is {depth}; expected {given[-1]}, the length of the data's last axis"
        )
    shape = columns, -(-depth // block)
    points = body.walk.constants[zeros] if zeros else None
    if points is None:
        points = np.full(shape, 2 ** (bits - 1), "uint8")
    elif points.dtype == np.uint8:
        points = unpack_bits(points.reshape(columns, -1), bits)[:, : shape[1]]
    return BlockWeights(
        depth, columns, bits, block,
        stored=body.walk.constants[b].reshape(*shape, -1),
        scales=body.walk.constants[scales].reshape(shape).astype("float32"),
        points=points.reshape(shape).astype("uint8" if points.dtype == np.uint8 else "float32"),
    )  # fmt: skip


def rewrite_product_of_bits(body: NodeBuilder) -> Nodes | None:
    """Rewrite a MatMulNBits as a MatMul whose weights are a constant of floats."""
    weights = read_block_weights(body)
    if weights is None:
        return None
    data, bias = body.input(0), body.inputs(6)[5]
    product = body.add("MatMul", data, body.constant(weights.dequantize(), body.walk.dtype(data)))
    return body.finish(add_bias(body, product, bias))


def pack_product_of_bits(body: NodeBuilder) -> Nodes | None:
    """Rewrite a MatMulNBits of float32 as a PackedProduct, so that the weights remain packed."""
    weights = read_block_weights(body)
    if weights is None or body.dtype(0) != np.float32:
        return rewrite_product_of_bits(body)
    bias = body.inputs(6)[5]
    constants = [
        body.constant(array, str(array.dtype))
        for array in (weights.stored, weights.scales, weights.points)
    ]
    product = body.add(
        "PackedProduct", body.input(0), *constants, bits=weights.bits, block_size=weights.block
    )
    return body.finish(add_bias(body, product, bias))


def unpack_bits(array: npt.NDArray[Any], bits: int) -> npt.NDArray[Any]:
    """Return the numbers of ``bits`` bits in the bytes of the last axis. The low bits are first."""
    parts = [(array >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*array.shape[:-1], -1)


WINDOW = ("kernel_shape", "strides", "pads", "auto_pad", "ceil_mode", "count_include_pad")

MICROSOFT: dict[str, Rewrite] = {
    f"com.microsoft.{name}": rewrite
    for name, rewrite in {
        "BiasGelu": make_gelu("none"),
        "DynamicQuantizeMatMul": rewrite_dynamic_product,
        "FastGelu": make_gelu("tanh"),
        "FusedConv": rewrite_convolution,
        "FusedGemm": rewrite_product,
        "FusedMatMul": rewrite_matmul,
        "Gelu": make_gelu("none"),
        "MatMulIntegerToFloat": rewrite_integer_product,
        "MatMulNBits": rewrite_product_of_bits,
        "QGemm": rewrite_gemm,
        "QLinearAdd": make_quantized(make_same("Add"), operands=2),
        "QLinearAveragePool": make_quantized(pool("AveragePool", *WINDOW)),
        "QLinearConcat": rewrite_concat,
        "QLinearGlobalAveragePool": make_quantized(pool("GlobalAveragePool")),
        "QLinearLeakyRelu": make_quantized(compute_leaky_relu),
        "QLinearMul": make_quantized(make_same("Mul"), operands=2),
        "QLinearSigmoid": make_quantized(make_same("Sigmoid")),
        "QLinearSoftmax": make_quantized(compute_softmax),
        "QLinearWhere": rewrite_where,
        "QuickGelu": rewrite_quick_gelu,
        "TransposeMatMul": rewrite_matmul,
    }.items()
}
