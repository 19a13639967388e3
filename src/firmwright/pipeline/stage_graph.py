"""Draws a recipe's stages and their inputs for ``firmwright graph``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape

from firmwright.report.network_lanes import LANE, draw_graph

from .job import Job
from .task import list_results, name_index

Stages = Mapping[str, tuple[str, ...]]
"""A mapping from stages, in order, to the stages whose results the stage reads."""


@dataclass(frozen=True)
class NumberedStage:
    name: str
    number: int
    follows: tuple[int, ...]


def read_stages(job: Job) -> dict[str, tuple[str, ...]]:
    """Return the stages that each stage reads.

    Edges to the last stage are omitted if they add no order.
    """
    names = [name for name in job.stages if job.has_stage(name)]
    indices = {name_index(job, name): name for name in names}
    reads: dict[str, tuple[str, ...]] = {}
    for name in names:
        stage = job.stages[name]
        read = [indices[path] for path in list_results(job, stage) if path in indices]
        if stage.reads_all:
            used = {each for others in reads.values() for each in others}
            read = [each for each in read if each not in used]
        reads[name] = tuple(dict.fromkeys(each for each in read if each != name))
    return reads


def format_text(stages: Stages) -> str:
    width = max(map(len, stages))
    return "\n".join(
        f"{name:<{width}}  {'<- ' + ', '.join(read) if read else ''}".rstrip()
        for name, read in stages.items()
    )


def format_mermaid(stages: Stages) -> str:
    edges = [f"  {before} --> {name}" for name, read in stages.items() for before in read]
    return "\n".join(["flowchart TD", *(f"  {name}" for name in stages), *edges])


def format_svg(stages: Stages) -> str:
    """Return an SVG picture with one row per stage and lanes for results of earlier stages."""
    numbers = {name: number for number, name in enumerate(stages)}
    rows = [
        NumberedStage(name, numbers[name], tuple(numbers[each] for each in read))
        for name, read in stages.items()
    ]
    graph = draw_graph(rows)
    width = graph.width + 160
    size = f'width="{width}" height="{graph.height}" viewBox="0 0 {width} {graph.height}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">']
    lines += [f'<path d="{edge}" fill="none" stroke="#777"/>' for edge in graph.edges]
    for node in graph.nodes:
        lines.append(f'<circle cx="{node.x}" cy="{node.y}" r="4"/>')
        text = f'x="{graph.width + LANE}" y="{node.y + 4}" font-size="13"'
        lines.append(f"<text {text}>{escape(node.layer.name)}</text>")
    return "\n".join([*lines, "</svg>"])


FORMATS: Mapping[str, Callable[[Stages], str]] = {
    "text": format_text,
    "mermaid": format_mermaid,
    "svg": format_svg,
}
