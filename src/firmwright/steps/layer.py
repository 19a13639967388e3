"""``firmwright explain --layer``: one layer, from the model to its lines of C."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shutil import get_terminal_size

from firmwright.errors import UserError
from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.report.layer_text import find_layers, format_layer
from firmwright.report.layers import ReportedLayer, describe_layers
from firmwright.steps.report import read_layer_facts


def print_layer(jobs: Sequence[Job], name: str) -> int:
    """Print the layers of this name of each job; return 1 where one has none."""
    width = get_terminal_size().columns
    for job in jobs:
        layers = describe_layers(read_layer_facts(job))
        print(job.title)
        try:
            found = find_layers(layers, name)
        except UserError as error:
            print(f"{job.recipe.path}: {error}", file=sys.stderr)
            return 1
        for layer in found:
            print(format_layer(layer, len(layers), read_code(job, layer), width))
    return 0


def read_code(job: Job, layer: ReportedLayer) -> list[str]:
    """Return the lines of a layer's function; none where another core's tools compile it."""
    if layer.code is None:
        return []
    text = (artifacts.PROJECT.read(job) / layer.code.file).read_text(encoding="utf-8")
    return text.splitlines()[layer.code.first - 1 : layer.code.last]
