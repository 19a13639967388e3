"""Builds small quantized networks with one operator, and computes LiteRT's reference outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from firmwright_ethos_u.compiler import compile_network
from firmwright_ethos_u.flatbuffer import NetworkWriter
from numpy.typing import NDArray

Array = NDArray[Any]

SAME, VALID = 0, 1
RELU = 1
PER_CHANNEL = {8: 0.07, 16: 0.0004}


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Return values in the whole range of an integer type."""
    if dtype.startswith("float"):
        return rng.normal(size=shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def evaluate(network: bytes, inputs: list[Array]) -> list[Array]:
    interpreter = Interpreter(
        model_content=network, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    for port, values in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(port["index"], values.reshape(port["shape"]))
    interpreter.invoke()
    return [interpreter.get_tensor(port["index"]) for port in interpreter.get_output_details()]


def compare(
    network: bytes,
    inputs: list[Array],
    accelerator: str = "ethos-u55-128",
    memory_mode: str = "shared_sram",
) -> None:
    """Assert that the simulated network computes the reference's outputs."""
    compiled = compile_network(network, accelerator, memory_mode)
    for expected, found in zip(evaluate(network, inputs), compiled.run(inputs), strict=True):
        np.testing.assert_array_equal(found.view(expected.dtype), expected.ravel())


def convolution(
    rng: np.random.Generator,
    shape: tuple[int, int, int],
    outputs: int,
    kernel: tuple[int, int],
    depthwise: bool = False,
    dtype: str = "int8",
    first_scale: float = 0.002,
    **steps: int,
) -> tuple[bytes, list[Array]]:
    """Return a convolution with a scale per output channel, and a random input.

    `steps` may contain stride, dilation and padding.
    """
    stride, dilation = steps.get("stride", 1), steps.get("dilation", 1)
    padding = steps.get("padding", SAME)
    bits = np.iinfo(dtype).bits
    height, width, depth = shape
    scales = [first_scale, *rng.uniform(0.002, 0.02, outputs - 1).tolist()]
    writer = NetworkWriter()
    source = writer.tensor((1, *shape), dtype, [PER_CHANNEL[bits]], 3 if bits == 8 else 0)
    axes = (1, *kernel, outputs) if depthwise else (outputs, *kernel, depth)
    axis = 3 if depthwise else 0
    weights = writer.constant(rng.integers(-127, 128, axes).astype("int8"), scales, axis)
    bias = rng.integers(-3000, 3000, outputs).astype("int32" if bits == 8 else "int64")
    biases = writer.constant(bias, [PER_CHANNEL[bits] * scale for scale in scales])
    if padding == SAME:
        size = (-(-height // stride), -(-width // stride))
    else:
        size = (
            (height - (kernel[0] - 1) * dilation - 1) // stride + 1,
            (width - (kernel[1] - 1) * dilation - 1) // stride + 1,
        )
    out_scale = 0.2 * (kernel[0] * kernel[1] * (1 if depthwise else depth)) ** 0.5
    target = writer.tensor((1, *size, outputs), dtype, [out_scale / (1 if bits == 8 else 200)])
    options: dict[str, Any] = {
        "padding": padding,
        "strideH": stride,
        "strideW": stride,
        "dilationHFactor": dilation,
        "dilationWFactor": dilation,
    }
    name, table = "CONV_2D", "Conv2DOptions"
    if depthwise:
        name, table = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"
        options["depthMultiplier"] = outputs // depth
    writer.operator(name, [source, weights, biases], [target], table, **options)
    return writer.build([source], [target]), [random(rng, (1, *shape), dtype)]


def pooling(
    rng: np.random.Generator, kind: str, shape: tuple[int, int, int], dtype: str, **options: int
) -> tuple[bytes, list[Array]]:
    """Return a pooling and a random input. `options` contains filter, stride and padding."""
    size, stride, padding = options["filter"], options["stride"], options["padding"]
    lengths = [-(-n // stride) if padding == SAME else (n - size) // stride + 1 for n in shape[:2]]
    writer = NetworkWriter()
    source, target = (
        writer.tensor(axes, dtype, [0.05], 0 if dtype == "int16" else 7)
        for axes in ((1, *shape), (1, *lengths, shape[2]))
    )
    table = {"strideH": stride, "strideW": stride, "filterHeight": size, "filterWidth": size}
    writer.operator(kind, [source], [target], "Pool2DOptions", padding=padding, **table)
    return writer.build([source], [target]), [random(rng, (1, *shape), dtype)]


def binary(
    rng: np.random.Generator,
    kind: str,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    dtype: str,
    scales: tuple[float, float, float],
) -> tuple[bytes, list[Array]]:
    """Return an elementwise operator with two inputs, and random inputs."""
    zeros = (0, 0, 0) if dtype == "int16" else (5, -9, 2)
    writer = NetworkWriter()
    inputs = [
        writer.tensor(shape, dtype, [scale], zero)
        for shape, scale, zero in zip(shapes, scales[:2], zeros[:2], strict=True)
    ]
    target = writer.tensor(np.broadcast_shapes(*shapes), dtype, [scales[2]], zeros[2])
    table = {"MINIMUM": "MaximumMinimumOptions", "MAXIMUM": "MaximumMinimumOptions"}
    writer.operator(kind, inputs, [target], table.get(kind, f"{kind.title()}Options"))
    return writer.build(inputs, [target]), [random(rng, shape, dtype) for shape in shapes]


def unary(
    rng: np.random.Generator,
    kind: str,
    dtype: str,
    ports: tuple[tuple[float, int], tuple[float, int]],
    **options: float,
) -> tuple[bytes, list[Array]]:
    """Return an elementwise operator with one input, and a random input.

    `ports` contains scale and zero point of input and output.
    """
    shape = (1, 6, 5, 20)
    writer = NetworkWriter()
    source, target = (writer.tensor(shape, dtype, [scale], zero) for scale, zero in ports)
    tables = {"LEAKY_RELU": "LeakyReluOptions", "SOFTMAX": "SoftmaxOptions"}
    writer.operator(kind, [source], [target], tables.get(kind, ""), **options)
    return writer.build([source], [target]), [random(rng, shape, dtype)]
