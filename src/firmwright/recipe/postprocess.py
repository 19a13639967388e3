"""What a recipe says of the boxes that a detector's outputs encode."""

from __future__ import annotations

from dataclasses import dataclass

from firmwright.data.sources import DataFile


@dataclass(frozen=True, slots=True)
class Head:
    """One grid of cells: an output (None: the network's only one), or a part of one.

    ``stride`` is the distance of two cells in pixels; needed where the output's shape does not
    tell the grid. ``anchors`` are (width, height) in pixels, one a box of each cell.
    """

    output: str | None = None
    stride: int | None = None
    anchors: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Confidence:
    """A factor of the score: activation(value at ``channel``) to the power of ``exponent``."""

    channel: int
    activation: str = "none"
    exponent: float = 1.0


@dataclass(frozen=True, slots=True)
class BoxCode:
    """How a box is written: ``encoding`` names a rule of docs/howto/detection.md.

    ``channel`` is its first; ``bins`` counts the values of each distance's distribution.
    """

    encoding: str
    channel: int = 0
    bins: int = 16


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes: ``names`` as listed, or one a line in ``file``, or just ``count`` of them."""

    names: tuple[str, ...] | None = None
    file: DataFile | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Detection:
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
