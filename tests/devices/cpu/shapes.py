"""Random geometries of layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from firmwright.ir.layer import LayerKind


@dataclass(frozen=True)
class Shape:
    """The geometry of a random layer; a dense layer uses only the channels."""

    channels: int
    out_channels: int
    height: int = 1
    width: int = 1
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    batch: int = 1
    groups: int = 1

    @property
    def output(self) -> tuple[int, int]:
        """Height and width of the output."""
        sizes = (self.height, self.width)
        ends = (self.padding[0] + self.padding[2], self.padding[1] + self.padding[3])
        reach = [(k - 1) * d for k, d in zip(self.kernel, self.dilation, strict=True)]
        height, width = (
            (size + end - r - 1) // stride + 1
            for size, end, r, stride in zip(sizes, ends, reach, self.strides, strict=True)
        )
        return height, width

    def list_fields(self) -> dict[str, Any]:
        """Return the fields that every kind of layer has."""
        out_height, out_width = self.output
        return {
            "batch": self.batch,
            "height": self.height,
            "width": self.width,
            "channels": self.channels,
            "out_height": out_height,
            "out_width": out_width,
            "out_channels": self.out_channels,
            "kernel": self.kernel,
            "strides": self.strides,
            "dilation": self.dilation,
            "padding": self.padding,
        }


DEPTHWISE = (
    LayerKind.DEPTHWISE_CONV2D,
    LayerKind.FLOAT_DEPTHWISE_CONV2D,
    LayerKind.WIDE_DEPTHWISE_CONV2D,
)
DENSE = (LayerKind.DENSE, LayerKind.WIDE_DENSE)


def draw_shape(kind: LayerKind, generator: np.random.Generator) -> Shape:
    """Return a random small geometry, usually asymmetric."""

    def pick(*choices: int) -> int:
        return int(generator.choice(choices))

    channels = pick(1, 2, 3, 4, 5, 8, 12, 16, 31)
    groups = pick(2, 3, 4) if kind is LayerKind.GROUPED_CONV2D else 1
    if kind in DENSE:
        return Shape(
            pick(1, 3, 4, 7, 16, 33, 64), pick(1, 2, 5, 6, 8, 11, 16, 24), batch=pick(1, 3)
        )
    kernel = (pick(1, 1, 2, 3, 3, 5), pick(1, 1, 3, 3, 4, 5))
    if kind is LayerKind.DEPTHWISE_CONV2D and generator.random() < 0.03:
        kernel = (9, 8)
    dilation = (pick(1, 1, 1, 2), pick(1, 1, 1, 2))
    reach = [(k - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    padding = (
        (0, 0, 0, 0)
        if pick(0, 1)
        else (pick(0, *range(reach[0] + 1)), pick(0, *range(reach[1] + 1)),
              pick(0, *range(reach[0] + 1)), pick(0, *range(reach[1] + 1)))
    )  # fmt: skip
    least = [
        max(1, r + 1 - before - after)
        for r, before, after in zip(reach, padding[:2], padding[2:], strict=True)
    ]
    if kind is LayerKind.GROUPED_CONV2D:
        channels = min(channels, 8) * groups
    return Shape(
        channels,
        channels if kind in DEPTHWISE else groups * pick(1, 2, 3, 4, 7, 8, 16, 17),
        least[0] + pick(0, 1, 2, 3, 5, 8),
        least[1] + pick(0, 1, 2, 3, 5, 8),
        kernel,
        (pick(1, 1, 2), pick(1, 1, 2, 3)),
        dilation,
        padding,
        batch=pick(1, 1, 1, 2),
        groups=groups,
    )
