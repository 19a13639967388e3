"""Random softmaxes of bytes, and their results in float32, operator by operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.ir.byte_layers import FixedSoftmax, Softmax
from firmwright.ir.layer import LayerKind
from firmwright.ir.tensors import Tensor
from firmwright.lowering.kernels.fixed_point import rounding_multiply_high, rounding_shift_right
from firmwright.lowering.kernels.softmax import make_exp_table
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


def draw_fixed_softmax(generator: np.random.Generator) -> FixedSoftmax:
    """Return a random softmax in TFLite's fixed point."""
    drawn = draw_softmax(generator)
    low = int(np.iinfo(drawn.output_dtype).min)
    return FixedSoftmax(**{**vars(drawn), "scale": 1 / 256, "zero_point": low, "low": low})


SOFTMAXES = {LayerKind.SOFTMAX: draw_softmax, LayerKind.FIXED_SOFTMAX: draw_fixed_softmax}


def evaluate_fixed_softmax(layer: FixedSoftmax, data: Array) -> Array:
    """Return the stored integers like TFLite's kernel. The reciprocal has gemmlowp's steps."""
    rows = data.reshape(layer.rows, -1).astype("int64")
    powers = make_exp_table(layer.input_scale).astype("int64")[rows.max(1, keepdims=True) - rows]
    totals = ((powers + 2**11) >> 12).sum(1, keepdims=True)
    bits = np.floor(np.log2(totals)).astype("int64")
    half = totals << (30 - bits)
    inverse = 1515870810 + rounding_multiply_high(half, -1010580540)
    for _ in range(3):
        rest = 2**29 - rounding_multiply_high(half, inverse)
        inverse = inverse + 4 * rounding_multiply_high(inverse, rest)
    product = rounding_multiply_high(powers, np.minimum(2 * inverse, 2**31 - 1))
    steps = rounding_shift_right(product, bits + 4)
    stored: Array = np.minimum(steps + layer.low, layer.high).astype(layer.output_dtype)
    return stored.reshape(-1)


def evaluate_softmax(layer: Softmax, data: Array) -> Array:
    """Return the stored integers of a softmax of all rows as one array."""
    if isinstance(layer, FixedSoftmax):
        return evaluate_fixed_softmax(layer, data)
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
