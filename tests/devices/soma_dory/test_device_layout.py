"""Device layout: the byte of each element, and the element of each byte."""

from __future__ import annotations

import numpy as np
import pytest

from firmwright.devices.soma_dory.device_layout import device_shape

from .device_arrays import from_device, to_device

SHAPES = [(1, 3, 5, 7), (2, 1, 1, 16), (1, 2, 3, 33), (1, 10), (3, 128)]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_element_is_where_the_accelerator_reads_it(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(-128, 128, shape).astype("int8")
    memory = to_device(array).tobytes()
    pitch = -(-shape[-1] // 16) * 16
    assert device_shape(shape) == (*shape[:-1], pitch)
    for row, place in enumerate(np.ndindex(*shape[:-1])):
        for column in range(shape[-1]):
            byte = memory[(row * pitch + column) ^ 3]
            assert np.uint8(byte).view("int8") == array[(*place, column)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_way_back_drops_the_padding(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).integers(-128, 128, shape).astype("int8")
    assert np.array_equal(from_device(to_device(array), shape), array)
