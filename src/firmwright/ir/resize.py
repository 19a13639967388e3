"""Describes bilinear resizes of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from firmwright.ir.layer import LayerKind


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
