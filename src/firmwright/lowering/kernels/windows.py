"""Describes the windows of a pooling operator along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import te

from firmwright.ir.relax import static_shape
from firmwright.lowering.kernels.fixed_point import Integer


@dataclass(frozen=True)
class Windows:
    """Windows of ``size`` elements along ``axis``, which has ``extent`` elements.

    A position counts if it is an element, or if it is in ``counted_padding`` before or after the
    elements.
    """

    axis: int
    size: int
    stride: int
    dilation: int
    pad_before: int
    extent: int
    outputs: int
    counted_padding: tuple[int, int]

    def input_index(self, output: Integer, step: Integer) -> Integer:
        """Return the input position of a ``step`` in an output's window.

        Position 0 is the first element.
        """
        return output * self.stride - self.pad_before + step * self.dilation

    @property
    def input_range(self) -> tuple[int, int]:
        return int(self.input_index(0, 0)), int(self.input_index(self.outputs - 1, self.size - 1))

    @property
    def is_padded(self) -> bool:
        first, last = self.input_range
        return first < 0 or last >= self.extent

    @property
    def is_uniform(self) -> bool:
        first, last = self.input_range
        return first >= -self.counted_padding[0] and last < self.extent + self.counted_padding[1]

    @property
    def counts(self) -> frozenset[int]:
        """All numbers of positions that count in a window.

        There are several numbers if padding does not count.
        """
        if self.is_uniform:
            return frozenset({self.size})
        before, after = self.counted_padding
        begins = (int(self.input_index(output, 0)) for output in range(self.outputs))
        return frozenset(
            min(begin + self.size, self.extent + after) - max(begin, -before) for begin in begins
        )

    def count(self, output: Integer) -> Integer:
        """Return the number of positions that count in an output's window.

        The number is exact if the window has no dilation.
        """
        if self.is_uniform:
            return self.size
        first, end = self.input_index(output, 0), self.input_index(output, self.size)
        return te.min(end, self.extent + self.counted_padding[1]) - te.max(
            first, -self.counted_padding[0]
        )


def windows_of(call: tvm.ir.Call) -> list[Windows]:
    """Return a pooling's windows along each spatial axis, or [] if they are not supported.

    Packed layouts are not supported. Dilation is not supported if the windows have different
    numbers of positions.
    """
    attributes: Any = call.attrs
    layout = str(attributes.layout)
    if not layout.isupper() or str(attributes.out_layout) not in ("", layout):
        return []
    axes = [a for a, letter in enumerate(layout) if letter not in "NC"]
    data, result = static_shape(call.args[0]), static_shape(call)
    padding = [int(n) for n in attributes.padding]
    windows = [
        Windows(
            axis=axis,
            size=int(attributes.pool_size[i]),
            stride=int(attributes.strides[i]),
            dilation=int(attributes.dilation[i]),
            pad_before=padding[i],
            extent=data[axis],
            outputs=result[axis],
            counted_padding=(padding[i], padding[i + len(axes)])
            if attributes.count_include_pad
            else (0, 0),
        )
        for i, axis in enumerate(axes)
    ]
    return windows if all(w.is_uniform or w.dilation == 1 for w in windows) else []


def sum_windows(
    data: te.Tensor, windows: list[Windows], shape: tuple[int, ...], zero_point: int
) -> te.Tensor:
    """Sum data - zero point over each window. Padding adds 0."""
    steps = {w.axis: te.reduce_axis((0, w.size)) for w in windows}

    def term(*output: Any) -> Integer:
        positions = list(output)
        inside = []
        for w in windows:
            position = positions[w.axis] = w.input_index(output[w.axis], steps[w.axis])
            if w.is_padded:
                inside += [position >= 0, position < w.extent]
        value = data(*positions).astype("int32") - zero_point
        return te.if_then_else(te.all(*inside), value, 0) if inside else value

    return te.compute(
        shape, lambda *i: te.sum(term(*i), axis=list(steps.values())), name="window_sum"
    )
