"""What DIANA's accelerators compute, as one object that every module here talks through."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]


class LayerKind(str, Enum):
    """The four operations of the digital accelerator, and that of the analog core."""

    CONV2D = "conv2d"
    DEPTHWISE_CONV2D = "depthwise_conv2d"
    DENSE = "dense"
    ADD = "add"
    ANALOG_CONV2D = "analog_conv2d"


@dataclass(frozen=True)
class AcceleratorLayer:
    """One layer: int8 in, int32 sums, an arithmetic right shift, a clip, int8 out.

    Activations are (batch, channels, height, width); of a dense layer (batch, channels), with
    heights and widths of 1. ``weights`` is int8: (O, I, height, width) of a convolution,
    (C, 1, height, width) of a depthwise one, (O, I) of a dense layer, None of an addition, which
    adds two tensors of the same shape. ``bias`` is int32 (O,), None of an addition. ``padding`` is
    (top, left, bottom, right). ``relu``: results are clipped to 0..127, else to -128..127.

    A layer of the analog core has weights of -1, 0 and 1. Its converter divides sums by ``step``,
    rounds down, and clips to -32..31. What comes out is multiplied by ``factors``, int16 (O,), and
    ``bias`` is added to that, not to the sums; then it is shifted and clipped as elsewhere.
    """

    kind: LayerKind
    batch: int
    in_channels: int
    in_height: int
    in_width: int
    out_channels: int
    out_height: int
    out_width: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    shift: int
    relu: bool
    weights: Array | None
    bias: Array | None
    step: int = 0
    factors: Array | None = None

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the whole batch."""
        if self.kind is LayerKind.ADD:
            return 0
        inputs = 1 if self.kind is LayerKind.DEPTHWISE_CONV2D else self.in_channels
        results = self.batch * self.out_channels * self.out_height * self.out_width
        return results * inputs * self.kernel[0] * self.kernel[1]
