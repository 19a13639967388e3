"""The windows of a pooling along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import te

from firmwright.ir.relax import static_shape
from firmwright.lowering.fixed_point import Integer


@dataclass(frozen=True)
class Windows:
    """Windows of ``size`` elements along ``axis``, which has ``extent`` elements.

    A place counts if it is one of an element, or of the ``counted`` padding before and after.
    """

    axis: int
    size: int
    stride: int
    dilation: int
    before: int
    extent: int
    outputs: int
    counted: tuple[int, int]

    def place(self, output: Integer, step: Integer) -> Integer:
        """Return where an output's window reads in its ``step``; 0 is the first element."""
        return output * self.stride - self.before + step * self.dilation

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last place that any window reads."""
        return int(self.place(0, 0)), int(self.place(self.outputs - 1, self.size - 1))

    @property
    def padded(self) -> bool:
        """Tell whether any window reads beside the elements."""
        first, last = self.span
        return first < 0 or last >= self.extent

    @property
    def uniform(self) -> bool:
        """Tell whether every place of every window counts."""
        first, last = self.span
        return first >= -self.counted[0] and last < self.extent + self.counted[1]

    def count(self, output: Integer) -> Integer:
        """Return how many places of an output's window count; exact without dilation."""
        if self.uniform:
            return self.size
        first, end = self.place(output, 0), self.place(output, self.size)
        return te.min(end, self.extent + self.counted[1]) - te.max(first, -self.counted[0])


def windows_of(operator: tvm.ir.Call) -> list[Windows]:
    """Return a pooling's windows along each spatial axis; none where they are out of the common.

    That is a packed layout, or dilation where some windows have fewer places than others.
    """
    attributes: Any = operator.attrs
    layout = str(attributes.layout)
    if not layout.isupper() or str(attributes.out_layout) not in ("", layout):
        return []
    axes = [a for a, letter in enumerate(layout) if letter not in "NC"]
    data, result = static_shape(operator.args[0]), static_shape(operator)
    padding = [int(n) for n in attributes.padding]
    windows = [
        Windows(
            axis=axis,
            size=int(attributes.pool_size[i]),
            stride=int(attributes.strides[i]),
            dilation=int(attributes.dilation[i]),
            before=padding[i],
            extent=data[axis],
            outputs=result[axis],
            counted=(padding[i], padding[i + len(axes)])
            if attributes.count_include_pad
            else (0, 0),
        )
        for i, axis in enumerate(axes)
    ]
    return windows if all(w.uniform or w.dilation == 1 for w in windows) else []


def window_sums(
    data: te.Tensor, windows: list[Windows], shape: tuple[int, ...], zero_point: int
) -> te.Tensor:
    """Sum data - zero point over each window; padding adds nothing."""
    steps = {w.axis: te.reduce_axis((0, w.size)) for w in windows}

    def term(*output: Any) -> Integer:
        places = list(output)
        inside = []
        for w in windows:
            place = places[w.axis] = w.place(output[w.axis], steps[w.axis])
            if w.padded:
                inside += [place >= 0, place < w.extent]
        value = data(*places).astype("int32") - zero_point
        return te.if_then_else(te.all(*inside), value, 0) if inside else value

    return te.compute(
        shape, lambda *i: te.sum(term(*i), axis=list(steps.values())), name="window_sum"
    )
