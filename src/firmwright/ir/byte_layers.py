"""Describes layers of bytes that are not linear: softmaxes, resizes, functions of one byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from firmwright.ir.layer import (
    Array,
    BinaryLayer,
    FloatLayer,
    Layer,
    LayerKind,
    MatrixProduct,
    Pair,
    Sums,
)


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


class Line(NamedTuple):
    """The two neighbors of each result along an axis of ``length`` pixels.

    The weight of the later neighbor is ``share`` / ``unit``, and both weights add up to 1.
    """

    length: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    share: tuple[int, ...]
    unit: int


@dataclass(frozen=True)
class Resize:
    """A bilinear resize of int8 pictures (N, H, W, C). Sums are rounded, ties away from zero.

    The units of both lines are powers of two.
    """

    kind: ClassVar[LayerKind] = LayerKind.RESIZE
    input_dtype: ClassVar[str] = "int8"
    output_dtype: ClassVar[str] = "int8"

    batch: int
    channels: int
    rows: Line
    columns: Line

    @property
    def input_elements(self) -> int:
        """The elements of one picture."""
        return self.rows.length * self.columns.length * self.channels

    @property
    def output_elements(self) -> int:
        return len(self.rows.share) * len(self.columns.share) * self.channels


@dataclass(frozen=True, eq=False)
class ByteFunction:
    """A function of one byte: ``results`` has the stored result of each integer, smallest first.

    ``slope`` is the factor of a line, or the steps of the logistic function's argument per step of
    the input. ``repeats`` is the number of regions with equal operators and shapes.
    """

    kind: LayerKind
    elements: int
    input_dtype: str
    input_zero_point: int
    output_dtype: str
    results: Array
    low: int
    high: int
    slope: float
    repeats: int = 1


AnyLayer: TypeAlias = (
    Layer | FloatLayer | Pair | MatrixProduct | Softmax | Sums | ByteFunction | BinaryLayer | Resize
)
"""The layers that have forms on the device ``c``."""
