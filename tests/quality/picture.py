"""Draws docs/explanation/architecture.svg, which shows the packages of the source.

A row of boxes is a layer. An arrow means that a package imports another package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from tests.quality.layers import LAYERS, ROOT, Graph

PICTURE = ROOT / "docs" / "explanation" / "architecture.svg"

ROW, GAP, SPACE, LETTER = 30, 36, 26, 7.9
"""Height of a box, between rows, between boxes, and the width of a letter, in pixels."""

STYLE = """
text { font: 13px ui-monospace, Menlo, Consolas, monospace; text-anchor: middle; fill: #1f2328 }
rect { fill: #eef2f7; stroke: #57606a }
path { fill: none; stroke: #57606a }
marker path { fill: #57606a }
@media (prefers-color-scheme: dark) {
 text { fill: #e6edf3 } rect { fill: #21262d; stroke: #8b949e }
 path { stroke: #8b949e } marker path { fill: #8b949e }
}
"""


def find_direct_arrows(packages: Graph) -> list[tuple[str, str]]:
    """Return the imports without those that follow from others: for a, b, c only a-b and b-c."""

    def reach(package: str) -> frozenset[str]:
        others = packages[package]
        return others.union(*map(reach, others))

    return [
        (package, other)
        for package, others in sorted(packages.items())
        for other in sorted(others)
        if not any(other in reach(between) for between in others)
    ]


def place_rows(arrows: Sequence[tuple[str, str]]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the rows of boxes and bends, and the paths of the arrows through them.

    An arrow bends once in each row that it crosses; a bend is named after its arrow and row.
    """
    rows = [list(row) for row in LAYERS]
    layer = {package: number for number, row in enumerate(LAYERS) for package in row}
    ways = []
    for start, end in arrows:
        bends = [f"{start}>{end}:{number}" for number in range(layer[start] + 1, layer[end])]
        for number, bend in enumerate(bends, layer[start] + 1):
            rows[number].append(bend)
        ways.append([start, *bends, end])
    return rows, ways


def find_width(name: str) -> float:
    """Return the width of a box, or of a bend."""
    return 4 if ">" in name else LETTER * len(name) + 18


def place_columns(rows: Sequence[Sequence[str]], ways: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the middle of each box and bend: near its neighbors, after 24 sweeps."""
    joined: dict[str, list[str]] = {name: [] for row in rows for name in row}
    for way in ways:
        for name, other in pairwise(way):
            joined[name].append(other)
            joined[other].append(name)
    middle = dict.fromkeys(joined, 0.0)
    for sweep in range(24):
        for row in rows if sweep % 2 else reversed(rows):
            wish = {n: fmean(middle[o] for o in joined[n]) if joined[n] else 0.0 for n in row}
            right = -math.inf
            for name in sorted(row, key=lambda n: (wish[n], n)):
                middle[name] = max(wish[name], right + find_width(name) / 2)
                right = middle[name] + find_width(name) / 2 + SPACE
            shift = fmean(middle[name] - wish[name] for name in row)
            middle.update({name: middle[name] - shift for name in row})
    left = min(middle[name] - find_width(name) / 2 for name in middle)
    return {name: middle[name] - left + 10 for name in middle}


def draw(packages: Graph) -> str:
    """Return the picture as SVG."""
    rows, ways = place_rows(find_direct_arrows(packages))
    middle = place_columns(rows, ways)
    top = {name: 10 + number * (ROW + GAP) for number, row in enumerate(rows) for name in row}
    width = max(middle[name] + find_width(name) / 2 for name in middle) + 10
    height = 20 + len(rows) * (ROW + GAP) - GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}">',
        "<title>The packages of firmwright, and what they import</title>",
        f"<style>{STYLE}</style>",
        '<marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0 0L8 4L0 8z"/></marker>',
    ]
    for start, *bends, end in ways:
        path = [f"M{middle[start]:.0f} {top[start] + ROW}"]
        for bend in bends:
            path.append(f"L{middle[bend]:.0f} {top[bend]}V{top[bend] + ROW}")
        path.append(f"L{middle[end]:.0f} {top[end]}")
        lines.append(f'<path marker-end="url(#head)" d="{"".join(path)}"/>')
    for name in (name for row in LAYERS for name in row):
        left, box = middle[name] - find_width(name) / 2, find_width(name)
        lines.append(
            f'<rect x="{left:.0f}" y="{top[name]}" width="{box:.0f}" height="{ROW}" rx="5"/>'
            f'<text x="{middle[name]:.0f}" y="{top[name] + 20}">{name}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])
