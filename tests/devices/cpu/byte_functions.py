"""Random lines and logistic functions of bytes."""

from __future__ import annotations

import numpy as np

from firmwright.ir.byte_layers import ByteFunction
from firmwright.ir.layer import LayerKind

BYTE_FUNCTIONS = (LayerKind.LINE, LayerKind.SIGMOID)


def draw_byte_function(kind: LayerKind, generator: np.random.Generator) -> ByteFunction:
    """Return a random function; some have slopes that no form supports."""
    dtype = str(generator.choice(["int8", "uint8"]))
    limits = np.iinfo(dtype)
    point = int(generator.integers(limits.min, limits.max + 1))
    centered = np.arange(limits.min, limits.max + 1) - point
    low, high, repeats = -128, 127, 1
    if kind is LayerKind.SIGMOID:
        slope = float(np.float32(generator.uniform(0.001, 0.2)))
        slope *= 100 if generator.random() < 0.1 else 1
        steps = np.round(256 / (1 + np.exp(-slope * centered))) - 128
        repeats = int(generator.choice([15, 16, 40]))
    else:
        slope = float(generator.uniform(-2, 2) * generator.choice([1, 1e-3, 1e-8]))
        steps = np.round(slope * centered + generator.uniform(-100, 100))
        low, high = int(generator.integers(-128, 0)), int(generator.integers(1, 128))
    return ByteFunction(
        kind=kind,
        elements=int(generator.integers(1, 80)),
        input_dtype=dtype,
        input_zero_point=point,
        output_dtype="int8",
        results=np.clip(steps, low, high).astype("int64"),
        low=low,
        high=high,
        slope=slope,
        repeats=repeats,
    )
