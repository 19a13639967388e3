"""Packed weights, read byte by byte as the accelerator reads them."""

from __future__ import annotations

import numpy as np
import pytest

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.packed_weights import pack_weights
from firmwright.devices.soma_dory.tiles import weight_bytes
from firmwright.ir.layer import Array, LayerKind
from tests.devices.soma_dory.layers import conv2d, dense, depthwise

LAYERS = {
    "16 channels": conv2d((3, 8, 8), 16, kernel=(3, 1), padding=(1, 0, 1, 0)),
    "12 channels": conv2d((3, 8, 8), 12, kernel=(5, 7), padding=(2, 3, 2, 3)),
    "33 channels": conv2d((18, 8, 8), 33),
    "one channel": conv2d((1, 8, 8), 1),
    "depthwise, 16 channels": depthwise((16, 8, 8)),
    "depthwise, 5 channels": depthwise((5, 8, 8), kernel=(1, 3), padding=(0, 1, 0, 1)),
    "dense, 640 to 128": dense(640, 128),
    "dense, 10 to 12": dense(10, 12),
    "dense, 17 to 31": dense(17, 31),
}


def byte_reader(packed: Array) -> list[int]:
    return [int(packed[i ^ 3]) for i in range(len(packed))]


def signed(values: list[int]) -> int:
    return int.from_bytes(bytes(values), "little", signed=True)


def weight_and_bias(
    layer: AcceleratorLayer, data: list[int], out: int, place: tuple[int, ...]
) -> list[int]:
    """Read one weight and one bias; ``place`` is (input, row, column)."""
    height, width = layer.kernel
    block, lane = divmod(out, 16)
    depth = layer.channels
    if layer.kind is LayerKind.DENSE:
        inputs = -(-depth // 16)
        start = block * (inputs * 256 + 256)
        weight = start + (place[0] // 16 * 16 + lane) * 16 + place[0] % 16
        bias = [start + inputs * 256 + lane * 16 + byte for byte in range(16)]
    else:
        if layer.kind is LayerKind.DEPTHWISE_CONV2D:
            block, lane, depth = out // 4, out % 4 * 4, 1
        start = block * (depth * height * width * 16 + 64)
        weight = start + ((place[0] * height + place[1]) * width + place[2]) * 16 + lane
        bias = [start + depth * height * width * 16 + byte * 16 + lane for byte in range(4)]
    return [signed([data[weight]]), signed([data[i] for i in bias])]


@pytest.mark.parametrize("name", LAYERS)
def test_every_weight_and_bias_is_where_the_accelerator_reads_it(name: str) -> None:
    layer = LAYERS[name]
    assert layer.weights is not None and layer.bias is not None
    packed = pack_weights(layer)
    assert packed.dtype == "uint8"
    fetched = weight_bytes(layer, layer.out_channels)
    if layer.kind is LayerKind.DEPTHWISE_CONV2D:  # channel i begins at 4 * (i % 4)
        fetched = -(-layer.out_channels // 4) * fetched + 12
    assert packed.size == fetched
    data = byte_reader(packed)
    weights = layer.weights.reshape(*layer.weights.shape[:2], *layer.kernel)
    for out, *place in np.ndindex(*weights.shape):
        expected = [weights[(out, *place)], layer.bias[out]]
        assert weight_and_bias(layer, data, out, tuple(place)) == expected


@pytest.mark.parametrize("name", LAYERS)
def test_everything_else_is_zero(name: str) -> None:
    layer = LAYERS[name]
    assert layer.weights is not None and layer.bias is not None
    found = np.sort(pack_weights(layer)[pack_weights(layer) != 0])
    bias = layer.bias.view("uint8")
    if layer.kind is LayerKind.DENSE:  # of 128 bits
        bias = np.stack([layer.bias, *3 * [layer.bias >> 31]]).view("uint8").reshape(-1)
    own = np.concatenate([layer.weights.reshape(-1).view("uint8"), bias])
    assert np.array_equal(found, np.sort(own[own != 0]))
