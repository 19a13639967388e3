"""Random bilinear resizes of bytes, and their results in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.ir.byte_layers import Resize
from firmwright.ir.tensors import Tensor
from firmwright.lowering.byte_layers import find_line
from firmwright.lowering.kernels.resize import MODES
from tests.devices.cpu.float_layers import make_output

Array = npt.NDArray[Any]


def draw_resize(generator: np.random.Generator) -> Resize:
    """Return a random resize. Half of the resizes have weights with few bits."""
    mode = str(generator.choice(MODES))
    sizes = generator.integers(1, 9, 2).tolist()
    if generator.random() < 0.5:
        extents = [n * int(generator.choice([1, 2, 4])) for n in sizes]
    else:
        extents = generator.integers(1, 20, 2).tolist()
    rows, columns = (find_line(n, m, mode) for n, m in zip(sizes, extents, strict=True))
    channels, batch = int(generator.choice([1, 3, 16, 40])), int(generator.integers(1, 3))
    return Resize(batch=batch, channels=channels, rows=rows, columns=columns)


def evaluate_resize(layer: Resize, data: Array) -> Array:
    """Return the weighted sums of four neighbors, rounded to the nearest integer."""
    sums = data.astype("int64")
    for axis, line in ((1, layer.rows), (2, layer.columns)):
        share = np.array(line.share).reshape(-1, *[1] * (3 - axis))
        before, after = sums.take(line.before, axis), sums.take(line.after, axis)
        sums = before * (line.unit - share) + after * share
    unit = layer.rows.unit * layer.columns.unit
    steps: Array = np.sign(sums) * ((2 * np.abs(sums) + unit) // (2 * unit))
    return steps.astype(layer.output_dtype)


def make_resize_tensors(layer: Resize, number: int) -> tuple[list[Tensor], Tensor]:
    """Return the input and the output of a resize."""
    before = (layer.batch, layer.rows.length, layer.columns.length, layer.channels)
    after = (layer.batch, len(layer.rows.share), len(layer.columns.share), layer.channels)
    read = [Tensor(f"input_{number}", before, layer.input_dtype)]
    return read, make_output(number, after, layer.output_dtype)
