"""What a recipe says of the boxes that a detector's outputs encode."""

from __future__ import annotations

import msgspec

from firmwright.data.sample_sources import DataFile


class Head(msgspec.Struct, frozen=True):
    """One grid of cells: an output (None: the network's only one), or a part of one.

    ``stride`` is the distance of two cells in pixels; needed where the output's shape does not
    tell the grid. ``anchors`` are (width, height) in pixels, one a box of each cell.
    """

    output: str | None = None
    stride: int | None = None
    anchors: tuple[tuple[float, float], ...] = ()


class Confidence(msgspec.Struct, frozen=True):
    """A factor of the score: activation(value at ``channel``) to the power of ``exponent``."""

    channel: int
    activation: str = "none"
    exponent: float = 1.0


class BoxCode(msgspec.Struct, frozen=True):
    """How a box is written: ``encoding`` names a rule of docs/howto/detection.md.

    ``channel`` is its first; ``bins`` counts the values of each distance's distribution.
    """

    encoding: str
    channel: int = 0
    bins: int = 16


class Classes(msgspec.Struct, frozen=True):
    """The classes: ``names`` as listed, or one a line in ``file``, or just ``count`` of them."""

    names: tuple[str, ...] | None = None
    file: DataFile | None = None
    count: int | None = None


class Detection(msgspec.Struct, frozen=True):
    """How outputs become boxes; ``picture`` is the (width, height) of the network's input."""

    picture: tuple[int, int]
    layout: str
    heads: tuple[Head, ...]
    box: BoxCode
    class_scores: Confidence
    classes: Classes
    threshold: float
    iou: float
    per_class: bool
    candidates: int
    objectness: Confidence | None = None
