"""Draws the graph of a network as a list: one row per layer, and lanes for tensors.

The graph is similar to the history in version control. A layer occupies a lane until the last layer
that reads the layer's result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class LaneRow(Protocol):
    """A row of a graph: its number, and the numbers of the rows whose results it reads."""

    @property
    def number(self) -> int: ...

    @property
    def follows(self) -> Sequence[int]: ...


R = TypeVar("R", bound=LaneRow)

ROW, LANE = 28, 16
"""The height of a row and the width of a lane, in pixels."""


@dataclass(frozen=True)
class LaneNode(Generic[R]):
    """A layer or a stage of a build, its row, and its lane. Rows and lanes are counted from 0."""

    layer: R
    row: int
    lane: int

    @property
    def x(self) -> int:
        return LANE * self.lane + LANE // 2

    @property
    def y(self) -> int:
        return ROW * self.row + ROW // 2


@dataclass(frozen=True)
class LaneGraph(Generic[R]):
    """Nodes, and edges as the data of SVG paths. ``width`` and ``height`` are in pixels."""

    nodes: tuple[LaneNode[R], ...]
    edges: tuple[str, ...]
    width: int
    height: int


def draw_graph(layers: Sequence[R]) -> LaneGraph[R]:
    """Return the layers in order of execution, and the lines from the layers that they follow."""
    last_reader = {number: layer.number for layer in layers for number in layer.follows}
    lanes: list[int | None] = []
    nodes: dict[int, LaneNode[R]] = {}
    edges = []
    for row, layer in enumerate(layers):
        for number in layer.follows:
            if last_reader[number] == layer.number:
                lanes[nodes[number].lane] = None
        lane = lanes.index(None) if None in lanes else len(lanes)
        lanes[lane : lane + 1] = [layer.number if layer.number in last_reader else None]
        nodes[layer.number] = LaneNode(layer, row, lane)
        edges += [draw_edge(nodes[number], nodes[layer.number]) for number in layer.follows]
    return LaneGraph(tuple(nodes.values()), tuple(edges), LANE * len(lanes), ROW * len(nodes))


def draw_edge(start: LaneNode[R], end: LaneNode[R]) -> str:
    """Return a line in the lane of ``start`` that turns to the lane of ``end`` at its end."""
    above, middle = end.y - ROW, end.y - ROW // 2
    return f"M{start.x} {start.y}V{above}C{start.x} {middle} {end.x} {middle} {end.x} {end.y}"
