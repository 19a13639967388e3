"""Small TFLite models with complex numbers."""

from __future__ import annotations

import numpy as np

from tests.networks.tflite_models import ModelBuilder


def add_transform(builder: ModelBuilder, shape: tuple[int, ...], sizes: tuple[int, int]) -> int:
    """Add RFFT2D of a new input; return its result."""
    result = builder.tensor((*shape[:-2], sizes[0], sizes[1] // 2 + 1), "complex64", None)
    inputs = [builder.input(shape, "float32", None), builder.constant(np.array(sizes, "int32"))]
    builder.operator("RFFT2D", inputs, [result], "Rfft2dOptions", 1)
    return result


def write_spectrum(kind: str, length: int = 16) -> bytes:
    """Return RFFT2D of two rows, and an operator that reads its complex numbers."""
    builder = ModelBuilder()
    spectrum = add_transform(builder, (2, 1, length - 3), (1, length))
    result = builder.output((2, 1, length // 2 + 1), "float32", None)
    builder.operator(kind, [spectrum], [result], version=1)
    return builder.build()
