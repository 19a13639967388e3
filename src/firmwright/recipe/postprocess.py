"""Defines the part of a recipe that describes the boxes in a detector's outputs."""

from __future__ import annotations

import msgspec

from firmwright.data.sample_sources import DataFile


class Head(msgspec.Struct, frozen=True):
    """One grid of cells, which is an output or a part of an output.

    ``output`` None is the network's only output. ``stride`` is the distance of two cells in pixels.
    The recipe must state the stride if the output's shape does not define the grid. ``anchors`` are
    (width, height) in pixels, one per box of each cell.
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
    """The encoding of a box.

    ``encoding`` names a rule of docs/howto/detection.md. ``channel`` is the first channel of the
    box. ``bins`` is the number of values per distance distribution.
    """

    encoding: str
    channel: int = 0
    bins: int = 16


class Classes(msgspec.Struct, frozen=True):
    """The classes: a list of ``names``, one name per line of ``file``, or only their ``count``."""

    names: tuple[str, ...] | None = None
    file: DataFile | None = None
    count: int | None = None


class Detection(msgspec.Struct, frozen=True):
    """The decoding of outputs to boxes.

    ``picture`` is the size (width, height) of the network's input.
    """

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
