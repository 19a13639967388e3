"""Prints one layer, from the model to its lines of C code: ``firmwright explain --layer``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shutil import get_terminal_size

from firmwright.errors import UserError
from firmwright.ir.records import format_record
from firmwright.pipeline.explain import advise_job
from firmwright.pipeline.job import Job
from firmwright.report.layer_rows import describe_layers
from firmwright.report.layer_text import FollowedLayer, FollowedLayers, find_layers, format_layer
from firmwright.stages.report import read_code, read_layer_facts


def print_layer(jobs: Sequence[Job], name: str, as_json: bool) -> int:
    """Print the layers with this name in each job. Return 1 if a job has no layer with this name.

    Returns 2 if ``as_json`` is set for several jobs.
    """
    if as_json and len(jobs) > 1:
        print("--json supports one recipe and one platform; name one of each", file=sys.stderr)
        return 2
    width = get_terminal_size().columns
    for job in jobs:
        if not as_json:
            print(job.title)
        try:
            record = follow_layers(job, name)
        except UserError as error:
            print(f"{job.recipe.path}: {error}", file=sys.stderr)
            return 1
        if as_json:
            print(format_record(record, "followed_layers.schema.json"), end="")
            continue
        for followed in record.layers:
            print(format_layer(followed, record.count, width))
    return 0


def follow_layers(job: Job, name: str) -> FollowedLayers:
    """Return the layers with this name. Raises UserError if the job has no layer with this name."""
    layers, advice = describe_layers(read_layer_facts(job)), advise_job(job)
    return FollowedLayers(
        name=job.recipe.name,
        platform=job.platform.name,
        count=len(layers),
        layers=tuple(
            FollowedLayer(
                layer,
                tuple(each for each in advice if layer.title in each.layers),
                tuple(read_code(job, layer)),
            )
            for layer in find_layers(layers, name)
        ),
    )
