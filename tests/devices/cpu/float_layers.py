"""Random float32 layers, and their results in numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.ir.layer import FloatLayer, LayerKind
from firmwright.ir.tensors import Tensor
from tests.devices.cpu.shapes import DEPTHWISE, draw_shape

Array = npt.NDArray[Any]

GUARD = 32
"""Elements after each output, at least as many as one vector store writes."""

FLOAT_KINDS = (LayerKind.FLOAT_CONV2D, LayerKind.FLOAT_DEPTHWISE_CONV2D)


def draw_float_layer(kind: LayerKind, generator: np.random.Generator) -> FloatLayer:
    """Return a random layer; some are a product of several rows."""
    rows = kind is LayerKind.FLOAT_CONV2D and generator.random() < 0.2
    shape = draw_shape(LayerKind.DENSE if rows else kind, generator)
    inner = 1 if kind in DEPTHWISE else shape.channels
    limits = ((-np.inf, np.inf), (0.0, np.inf), (0.0, 6.0), (-0.3, 0.7))[generator.integers(4)]
    roles = [("input",), ("input", "added"), ("added", "input")][generator.integers(3)]
    fields = shape.list_fields()
    if rows:
        fields |= {"batch": 1, "width": shape.batch, "out_width": shape.batch}
    return FloatLayer(
        kind=kind,
        **fields,
        weights=generator.standard_normal((shape.out_channels, *shape.kernel, inner), "float32"),
        bias=generator.standard_normal(shape.out_channels, "float32"),
        roles=roles,
        is_planar=not rows and bool(generator.random() < 0.25),
        low=float(np.float32(limits[0])),
        high=float(np.float32(limits[1])),
    )


def evaluate_floats(layer: FloatLayer, inputs: Mapping[str, Array]) -> Array:
    """Return the layer's result for its inputs, with float32 sums in the order that it states."""
    data = inputs["input"]
    data = np.moveaxis(data, 1, 3) if layer.is_planar else data
    top, left, bottom, right = layer.padding
    padded = np.pad(data, ((0, 0), (top, bottom), (left, right), (0, 0)))
    shape = (layer.batch, layer.out_height, layer.out_width, layer.out_channels)
    sums = np.broadcast_to(layer.bias, shape)
    for y, x in np.ndindex(layer.kernel):
        rows = slice(y * layer.dilation[0], None, layer.strides[0])
        columns = slice(x * layer.dilation[1], None, layer.strides[1])
        seen = padded[:, rows, columns][:, : layer.out_height, : layer.out_width]
        if layer.kind in DEPTHWISE:
            sums = sums + seen * layer.weights[:, y, x, 0]
            continue
        for channel in range(layer.channels):
            sums = sums + seen[..., channel, None] * layer.weights[:, y, x, channel]
    if "added" in inputs:
        sums = sums + inputs["added"]
    result: Array = np.clip(sums, layer.low, layer.high)
    return result


def make_float_tensors(layer: FloatLayer, number: int) -> tuple[list[Tensor], Tensor]:
    """Return the inputs and the output of a layer."""
    before = (layer.batch, layer.height, layer.width, layer.channels)
    if layer.is_planar:
        before = (layer.batch, layer.channels, layer.height, layer.width)
    after = (layer.batch, layer.out_height, layer.out_width, layer.out_channels)
    shapes = {"input": before, "added": after}
    read = [Tensor(f"input_{number}_{role}", shapes[role], "float32") for role in layer.roles]
    return read, make_output(number, after, "float32")


def make_output(number: int, shape: tuple[int, ...], dtype: str) -> Tensor:
    """Return an output array of a shape; a layer must not write the elements after it."""
    return Tensor(f"output_{number}", (math.prod(shape) + GUARD,), dtype)
