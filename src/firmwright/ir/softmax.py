"""Describes softmaxes of rows of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from firmwright.ir.layer import LayerKind


@dataclass(frozen=True)
class Softmax:
    """A softmax of rows of bytes, computed in float32 operator by operator and quantized to bytes.

    With m the largest of a row's dequantized elements, and each result rounded to float32, a result
    is

        clamp(zero_point + rint(exp(x - m) / sum of exp(x - m) / scale), low, high)

    A sum begins at zero and adds the elements in their order.
    """

    kind: ClassVar[LayerKind] = LayerKind.SOFTMAX

    rows: int
    length: int
    input_dtype: str
    input_scale: float
    input_zero_point: int
    output_dtype: str
    scale: float
    zero_point: int
    low: int
    high: int

    @property
    def elements(self) -> int:
        return self.rows * self.length


@dataclass(frozen=True)
class FixedSoftmax(Softmax):
    """A softmax of rows of bytes in the fixed point of TFLite's kernel, with the scale 1/256.

    ``zero_point`` and ``low`` are the smallest integer of the output's type.
    """

    kind: ClassVar[LayerKind] = LayerKind.FIXED_SOFTMAX
