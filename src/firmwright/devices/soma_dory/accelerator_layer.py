"""Defines the layer of DIANA's accelerators."""

from __future__ import annotations

from dataclasses import dataclass

from firmwright.ir.layer import Array, LayerGeometry, LayerKind


@dataclass(frozen=True)
class AcceleratorLayer(LayerGeometry):
    """A layer: int8 in, int32 sums, an arithmetic right shift, a clip, int8 out.

    Activations are (batch, channels, height, width), or (batch, channels) for a dense layer.
    ``weights`` is int8: (O, I, height, width) for a convolution, (C, 1, height, width) for a
    depthwise convolution, (O, I) for a dense layer. An addition adds two tensors of equal shape,
    and its ``weights`` is None. ``bias`` is int32 (O,), or None for an addition. If ``relu`` is
    true, the results are clipped to 0..127. Otherwise they are clipped to -128..127.

    A layer of the analog core has weights of -1, 0 and 1. The core's converter divides sums by
    ``step``, rounds down, and clips to -32..31. The core multiplies these results by ``factors``,
    int16 (O,), and adds ``bias`` to the products. The shift and the clip follow.
    """

    shift: int
    relu: bool
    weights: Array | None
    bias: Array | None
    step: int = 0
    factors: Array | None = None

    @property
    def macs(self) -> int:
        """Return the multiply-accumulates of the whole batch."""
        if self.kind is LayerKind.ADD:
            return 0
        inputs = 1 if self.kind is LayerKind.DEPTHWISE_CONV2D else self.channels
        return self.batch * self.output_elements * inputs * self.kernel[0] * self.kernel[1]
