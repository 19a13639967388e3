"""Layers of DIANA's accelerator and similar platforms, written by hand and random."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.cost import Accelerator
from firmwright.ir.layer import Array, LayerKind
from firmwright.toolchain import load_platform

NUMBERS = load_platform("diana").accelerators["soma_dory"]
DIANA = Accelerator.from_numbers(NUMBERS)
KERNELS = st.sampled_from([1, 3, 5, 7])
KINDS = (
    LayerKind.CONV2D,
    LayerKind.DEPTHWISE_CONV2D,
    LayerKind.DENSE,
    LayerKind.ADD,
    LayerKind.ANALOG_CONV2D,
)
"""The operations of the accelerators."""


def like_diana(**numbers: Any) -> Accelerator:
    return Accelerator.from_numbers({**NUMBERS, **numbers})


def conv2d(
    image: tuple[int, int, int],
    channels: int,
    kernel: tuple[int, int] = (3, 3),
    stride: int = 1,
    padding: tuple[int, int, int, int] = (1, 1, 1, 1),
    kind: LayerKind = LayerKind.CONV2D,
    batch: int = 1,
    seed: int = 0,
) -> AcceleratorLayer:
    """A convolution of an image (channels, height, width), with weights that fit ``kind``."""
    depth, height, width = image
    out_height = (height + padding[0] + padding[2] - kernel[0]) // stride + 1
    out_width = (width + padding[1] + padding[3] - kernel[1]) // stride + 1
    inputs = 1 if kind is LayerKind.DEPTHWISE_CONV2D else depth
    weights, bias = parameters((channels, inputs, *kernel), seed)
    layer = AcceleratorLayer(
        kind, batch, *image, channels, out_height, out_width, kernel, (stride, stride), padding,
        5 + seed % 4, bool(seed % 2), weights, bias,
    )  # fmt: skip
    if kind is not LayerKind.ANALOG_CONV2D:
        return layer
    factors = np.random.default_rng(seed).integers(-500, 501, channels).astype("int16")
    return replace(
        layer, weights=(weights % 3 - 1).astype("int8"), bias=bias // 4, factors=factors,
        step=1 + seed % 50,
    )  # fmt: skip


def depthwise(image: tuple[int, int, int], **options: Any) -> AcceleratorLayer:
    return conv2d(image, image[0], kind=LayerKind.DEPTHWISE_CONV2D, **options)


def dense(inputs: int, outputs: int, batch: int = 1, seed: int = 0) -> AcceleratorLayer:
    weights, bias = parameters((outputs, inputs), seed)
    return AcceleratorLayer(
        LayerKind.DENSE, batch, inputs, 1, 1, outputs, 1, 1, (1, 1), (1, 1), (0, 0, 0, 0),
        5 + seed % 4, bool(seed % 2), weights, bias,
    )  # fmt: skip


def add(image: tuple[int, int, int], batch: int = 1, seed: int = 0) -> AcceleratorLayer:
    return AcceleratorLayer(
        LayerKind.ADD, batch, *image, *image, (1, 1), (1, 1), (0, 0, 0, 0), seed % 3,
        bool(seed % 2), None, None,
    )  # fmt: skip


def parameters(shape: tuple[int, ...], seed: int) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    weights = random.integers(-128, 128, shape).astype("int8")
    return weights, random.integers(-(2**15), 2**15, shape[0]).astype("int32")


def activations(layer: AcceleratorLayer, seed: int = 0) -> list[Array]:
    """Random inputs of a layer, (N, C, H, W) or (N, C)."""
    random = np.random.default_rng(seed)
    shape: tuple[int, ...] = (layer.batch, layer.channels)
    if layer.kind is not LayerKind.DENSE:
        shape += (layer.height, layer.width)
    count = 2 if layer.kind is LayerKind.ADD else 1
    return [random.integers(-128, 128, shape).astype("int8") for _ in range(count)]


def computed(layer: AcceleratorLayer, *inputs: Array) -> Array:
    """Return the result of a layer, computed in numpy."""
    wide = [i.astype("int64") for i in inputs]
    if layer.weights is None or layer.bias is None:
        sums = wide[0] + wide[1]
    elif layer.kind is LayerKind.DENSE:
        sums = wide[0] @ layer.weights.T.astype("int64") + layer.bias
    else:
        sums = convolved(layer, wide[0], layer.weights)
        if layer.factors is not None:
            sums = np.clip(sums // layer.step, -32, 31) * layer.factors.reshape(-1, 1, 1)
        sums = sums + layer.bias.reshape(-1, 1, 1)
    return np.asarray(np.clip(sums >> layer.shift, 0 if layer.relu else -128, 127), "int8")


def convolved(layer: AcceleratorLayer, x: Array, weights: Array) -> Array:
    top, left, bottom, right = layer.padding
    padded = np.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, layer.kernel, axis=(2, 3))
    windows = windows[:, :, :: layer.strides[0], :: layer.strides[1]]
    how = "nchwij,cij->nchw" if layer.kind is LayerKind.DEPTHWISE_CONV2D else "nchwij,ocij->nohw"
    kernels = weights[:, 0] if layer.kind is LayerKind.DEPTHWISE_CONV2D else weights
    return np.asarray(np.einsum(how, windows, kernels.astype("int64")))


@st.composite
def any_layer(draw: st.DrawFn, side: int = 40) -> AcceleratorLayer:
    """A small layer of any kind: odd sizes, uneven padding, kernels larger than the image."""
    kind = draw(st.sampled_from(KINDS))
    batch, seed = draw(st.sampled_from([1, 1, 3])), draw(st.integers(0, 1000))
    depth, channels = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    if kind is LayerKind.DENSE:
        return dense(depth, channels, batch, seed)
    image = (depth, draw(st.integers(1, 9)), draw(st.integers(1, side)))
    if kind is LayerKind.ADD:
        return add(image, batch, seed)
    kernel = draw(st.tuples(KERNELS, KERNELS))
    need = [max(0, kernel[axis] - image[1 + axis]) for axis in (0, 1)]
    top, left = (draw(st.integers(need[axis] // 2, kernel[axis] - 1)) for axis in (0, 1))
    bottom, right = (
        draw(st.integers(max(0, need[axis] - before), kernel[axis] - 1))
        for axis, before in enumerate((top, left))
    )
    if kind is LayerKind.ANALOG_CONV2D:  # the analog array has 1,152 rows
        image = (min(depth, 1152 // (kernel[0] * kernel[1])), *image[1:])
    outputs = depth if kind is LayerKind.DEPTHWISE_CONV2D else channels
    return conv2d(image, outputs, kernel, draw(st.sampled_from([1, 2])),
                  (top, left, bottom, right), kind, batch, seed)  # fmt: skip
