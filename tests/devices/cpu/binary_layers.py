"""Random layers of signs, and their results in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.ir.layer import BinaryLayer, LayerKind
from tests.devices.cpu.shapes import draw_shape

Array = npt.NDArray[Any]


def draw_binary_layer(generator: np.random.Generator) -> BinaryLayer:
    """Return a random convolution or product of signs, whose results are signs or floats."""
    kind = LayerKind.CONV2D if generator.random() < 0.7 else LayerKind.DENSE
    shape = draw_shape(kind, generator)
    size = (shape.out_channels, *shape.kernel, shape.channels)
    taps = int(np.prod(size[1:]))
    return BinaryLayer(
        kind=LayerKind.BINARY,
        **shape.list_fields(),
        weights=generator.choice([-1, 1], size),
        bias=generator.integers(-taps // 4, taps // 4 + 1, shape.out_channels),
        scales=generator.random(shape.out_channels, "float32"),
        input_dtype="int8",
        output_dtype=str(generator.choice(["int8", "float32"])),
    )


def place_binary(layer: BinaryLayer, sums: Array) -> Array:
    """Return the results of sums (…, O)."""
    if layer.output_dtype == "int8":
        return np.where(sums >= layer.bias, 1, -1).astype("int8")
    scaled: Array = sums.astype("float32") * layer.scales
    return scaled
