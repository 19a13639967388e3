"""What of a recipe and a platform decides about several stages."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from firmwright.recipe import TransformOptions
from firmwright.recipe.quantization import Inputs
from firmwright.targets import find_rewrites

from .job import Job

T = TypeVar("T")


def require(part: T | None) -> T:
    """Return a part of the recipe, or of the platform, that the stage does not apply without."""
    assert part is not None
    return part


def mix_options(job: Job) -> Any:
    """Return what decides which device takes what, and how it lowers it."""
    recipe = job.recipe
    return {
        "target": [[d.name, d.options] for d in recipe.target],
        "rounding": recipe.rounding,
        "fuse_layers": recipe.fuse_layers,
        "devices": recipe.devices,
        "wanted_batch": recipe.batch.size if recipe.batch else None,
        "platform": None if job.is_portable else asdict(job.platform),
    }


def transform_options(job: Job) -> TransformOptions:
    return job.recipe.transforms or TransformOptions()


def select_rewrites(job: Job) -> frozenset[str]:
    """Return the names of the optional rewrites that run."""
    options = transform_options(job)
    asked = find_rewrites(job.mix)
    return frozenset(asked.union(options.switched_on).difference(options.switched_off))


def rewrite_options(job: Job) -> Any:
    """Return what decides how the network is rewritten."""
    return {"rewrites": sorted(select_rewrites(job)), "extra": transform_options(job).extra}


def memory_options(job: Job) -> Any:
    """Return what decides whether a network fits the platform's memory."""
    platform = job.platform
    return {
        "memories": {name: asdict(memory) for name, memory in platform.memories.items()},
        "pins": job.recipe.memory,
        "stack": platform.stack,
        "code": platform.code,
        "boxes": max_boxes(job),
    }


def chooses_memories(job: Job) -> bool:
    """Tell whether planning chooses memories: their costs or the recipe tell them apart.

    A network in a slot has its constants there and one arena.
    """
    costs = (memory.cost for memory in job.platform.memories.values())
    stated = bool(job.recipe.memory) or any(cost is not None for cost in costs)
    return stated and job.recipe.slot is None


def max_boxes(job: Job) -> int:
    """Return how many boxes the program has room for."""
    return job.recipe.detection.candidates if job.recipe.detection else 0


def select_run_inputs(job: Job) -> Inputs | None:
    """Return where the run's samples are: the evaluation's, if the recipe names no others."""
    if job.recipe.run.inputs is None and job.recipe.evaluate is not None:
        return job.recipe.evaluate.inputs
    return job.recipe.run.inputs


def canonical_run_inputs(job: Job) -> Any:
    canonical = job.recipe.canonical
    return canonical["run"]["inputs"] or canonical.get("evaluate", {}).get("inputs")


def run_sample_options(job: Job) -> Any:
    """Return what of the recipe decides which samples the run has."""
    spec = job.recipe.run
    return {
        "batch": job.has_stage("batch"),
        "samples": spec.samples,
        "seed": spec.seed,
        "inputs": canonical_run_inputs(job),
    }


def list_run_files(job: Job) -> list[Path]:
    """Return the user's files that the run's samples are read from."""
    own = job.recipe.run.inputs is not None
    return job.recipe.list_files("run.inputs" if own else "evaluate.inputs")


def list_sample_files(job: Job) -> list[Path]:
    """Return the user's files of the run's samples, and of the classes."""
    return [*list_run_files(job), *job.recipe.list_files("postprocess")]


def shown_sample_options(job: Job) -> Any:
    """Return what decides about the sample that a program shows: the run's first, or one drawn."""
    return None if job.has_stage("run") else [canonical_run_inputs(job), job.recipe.run.seed]


def list_shown_sample_files(job: Job) -> list[Path]:
    return [] if job.has_stage("run") else list_sample_files(job)


def find_extra_archives(job: Job) -> dict[Path, str]:
    """Return the archives that the environment adds for devices, with the variable of each."""
    variables = {device.target.libraries_variable for device in job.mix} - {""}
    return {file: name for name in sorted(variables) for file in read_extra_archives(name)}


def read_extra_archives(variable: str) -> list[Path]:
    """Return the files that the environment names, as in ``-l one.lib -l /path/two.lib``."""
    words = shlex.split(os.environ.get(variable, ""))
    return [Path(word.removeprefix("-l")) for word in words if word != "-l"]
