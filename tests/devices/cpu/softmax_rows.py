"""Random softmaxes of bytes, and their results in float32, operator by operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.ir.layer import Softmax
from firmwright.ir.tensors import Tensor
from tests.devices.cpu.float_layers import make_output

Array = npt.NDArray[Any]


def draw_softmax(generator: np.random.Generator) -> Softmax:
    """Return a random softmax; the steps of some results are too small for the integer form."""
    dtypes = [str(generator.choice(["int8", "uint8"])) for _ in range(2)]
    limits = [np.iinfo(dtype) for dtype in dtypes]
    points = [int(generator.integers(limit.min, limit.max + 1)) for limit in limits]
    scale = generator.choice([1 / 256, 1 / 255, 0.0071, 0.07, 1e-6])
    return Softmax(
        rows=int(generator.integers(1, 5)),
        length=int(generator.choice([1, 2, 3, 5, 10, 64, 200])),
        input_dtype=dtypes[0],
        input_scale=float(np.float32(generator.choice([0.011, 0.05, 0.3, 1.7]))),
        input_zero_point=points[0],
        output_dtype=dtypes[1],
        scale=float(np.float32(scale)),
        zero_point=int(limits[1].min) if generator.random() < 0.7 else points[1],
        low=int(limits[1].min),
        high=int(limits[1].max) - int(generator.choice([0, 9])),
    )


def evaluate_softmax(layer: Softmax, data: Array) -> Array:
    """Return the stored integers of a softmax of all rows as one array."""
    centered = data.reshape(layer.rows, -1).astype("int64") - layer.input_zero_point
    real = centered.astype("float32") * np.float32(layer.input_scale)
    distances = real - real.max(1, keepdims=True)
    exponentials = np.exp(distances.astype("float64")).astype("float32")
    sums = np.zeros((layer.rows, 1), "float32")
    for column in exponentials.T:
        sums = sums + column[:, None]
    steps = np.rint(exponentials / sums / np.float32(layer.scale))
    placed = np.clip(steps + layer.zero_point, layer.low, layer.high)
    stored: Array = placed.astype(layer.output_dtype).reshape(-1)
    return stored


def make_softmax_tensors(layer: Softmax, number: int) -> tuple[list[Tensor], Tensor]:
    """Return the input and the output of a softmax."""
    read = [Tensor(f"input_{number}", (layer.elements,), layer.input_dtype)]
    return read, make_output(number, (layer.elements,), layer.output_dtype)
