"""Whether a layer has any tiling: its smallest tile against the accelerator's memories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firmwright.targets.soma_dory.layer import Kind, Layer


def what_does_not_fit(layer: Layer, accelerator: Mapping[str, Any]) -> str:
    """Say which memory cannot hold the layer's smallest tile, with the bytes; '' for none.

    The smallest tile is one row of 16 columns of 16 output channels (of a depthwise convolution
    one channel, of an addition 16 bytes), and all that it reads.
    """
    needed = {"l1": smallest_l1(layer), "weights": smallest_weights(layer)}
    names = {"l1": "L1", "weights": "the weight memory"}
    for memory, size in needed.items():
        if size > accelerator[memory]:
            return (
                f"its smallest tile needs {size:,} bytes of {names[memory]}, which has "
                f"{accelerator[memory]:,}"
            )
    return ""


def smallest_l1(layer: Layer) -> int:
    """Return bytes of L1: the input of the smallest tile, and the tile."""
    if layer.kind is Kind.ADD:
        return 3 * 16
    if layer.kind is Kind.DENSE:
        return aligned(layer.in_channels) + 16
    rows = min(layer.kernel[0], layer.in_height)
    # A row is loaded from a multiple of 16 on, so up to 15 columns come along unread.
    columns = min(layer.in_width, 15 + 15 * layer.strides[1] + layer.kernel[1])
    channels, lanes = (1, 1) if layer.kind is Kind.DEPTHWISE_CONV2D else (layer.in_channels, 16)
    return channels * rows * aligned(columns) + lanes * 16


def smallest_weights(layer: Layer) -> int:
    """Return bytes of weight memory: weights and biases of one block of output channels."""
    area = layer.kernel[0] * layer.kernel[1]
    return {
        Kind.CONV2D: 16 * (layer.in_channels * area + 4),
        Kind.DEPTHWISE_CONV2D: 16 * area + 64,
        Kind.DENSE: 16 * (aligned(layer.in_channels) + 16),
        Kind.ADD: 0,
    }[layer.kind]


def aligned(count: int) -> int:
    return -(-count // 16) * 16
