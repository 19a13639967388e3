"""What a recipe says of the boxes that a detector's outputs encode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from firmwright.data.sources import DataFile, normalize_file, portable_path


@dataclass(frozen=True)
class Head:
    """One grid of cells: an output (None: the network's only one), or a part of one.

    ``stride`` is the distance of two cells in pixels; needed where the output's shape does not
    tell the grid. ``anchors`` are (width, height) in pixels, one a box of each cell.
    """

    output: str | None = None
    stride: int | None = None
    anchors: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Confidence:
    """A factor of the score: activation(value at ``channel``) to the power of ``exponent``."""

    channel: int
    activation: str = "none"
    exponent: float = 1.0


@dataclass(frozen=True)
class BoxCode:
    """How a box is written: ``encoding`` names a rule of docs/detection.md.

    ``channel`` is its first; ``bins`` counts the values of each distance's distribution.
    """

    encoding: str
    channel: int = 0
    bins: int = 16


@dataclass(frozen=True)
class Classes:
    """The classes: ``names`` as listed, or one a line in ``file``, or just ``count`` of them."""

    names: tuple[str, ...] | None = None
    file: DataFile | None = None
    count: int | None = None


@dataclass(frozen=True)
class Detection:
    """How outputs become boxes; ``picture`` is the (width, height) of the network's input."""

    picture: tuple[int, int]
    layout: str
    heads: tuple[Head, ...]
    box: BoxCode
    objectness: Confidence | None
    class_scores: Confidence
    classes: Classes
    threshold: float
    iou: float
    per_class: bool
    candidates: int

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Detection:
        """Return the detection that ``asdict`` wrote, or its JSON form."""
        import msgspec

        return msgspec.convert(dict(data), cls)


def normalize_detection(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the one spelling of a detection that the recipe's schema found valid."""
    stated = dict(given)
    objectness = stated.pop("objectness", None)
    return asdict(
        Detection(
            picture=tuple(stated.pop("picture")),
            heads=tuple(normalize_head(head) for head in stated.pop("heads")),
            box=BoxCode(**stated.pop("box")),
            objectness=normalize_confidence(objectness) if objectness else None,
            class_scores=normalize_confidence(stated.pop("class_scores")),
            classes=normalize_classes(stated.pop("classes")),
            threshold=float(stated.pop("threshold")),
            iou=float(stated.pop("iou")),
            **stated,
        )
    )


def normalize_head(given: Mapping[str, Any]) -> Head:
    anchors = tuple((float(width), float(height)) for width, height in given.get("anchors", ()))
    return Head(given.get("output"), given.get("stride"), anchors)


def normalize_confidence(given: Mapping[str, Any]) -> Confidence:
    return Confidence(**{**given, "exponent": float(given["exponent"])})


def normalize_classes(given: Any) -> Classes:
    if isinstance(given, int):
        return Classes(count=given)
    if isinstance(given, list):
        return Classes(names=tuple(given))
    return Classes(file=normalize_file(given))


def portable_detection(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the normal form without absolute paths."""
    file = data["classes"]["file"]
    if file is None:
        return dict(data)
    portable = {**file, "path": portable_path(file["path"])}
    return {**data, "classes": {**data["classes"], "file": portable}}
