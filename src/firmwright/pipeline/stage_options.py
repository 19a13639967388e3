"""Reads the keys of a recipe and the fields of a platform that stages declare."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from firmwright.recipe.quantize_keys import Inputs
from firmwright.recipe.recipe import KEYS_NOT_IN_NETWORK_DIGEST, Recipe, TransformOptions
from firmwright.targets import find_rewrites
from firmwright.toolchain import Platform, load_toolchain
from firmwright.toolchain.boards import load_board

from .declaration import ALL
from .job import Job, Stage

T = TypeVar("T")

NO_KEYS = frozenset({"path", "data", "layers", "chain"})
"""Fields of a recipe that are not keys."""


def require(part: T | None) -> T:
    """Return a part of the recipe or platform, which is never None if the stage applies."""
    assert part is not None
    return part


MIX = ("target", "placement", "rounding", "fuse_layers", "devices", "batch.size")
"""Keys that determine the operators that devices accept, and their lowering."""
REWRITES = ("transforms",)
MEMORIES = ("memory", "detection.candidates")
"""Keys that determine the memories of buffers, in addition to MEMORY_FIELDS of the platform."""
MEMORY_FIELDS = ("memories", "stack", "code")
REFERENCE = ("model.custom_operators",)
"""Keys whose Python functions compute the reference."""
RUN_SAMPLES = ("batch", "run.samples", "run.seed", "run.inputs", "evaluate.inputs", *REFERENCE)
"""Keys that select the samples of the run."""
SHOWN_SAMPLE = ("run.seed", "run.inputs", "evaluate.inputs", *REFERENCE)
"""Keys that select the sample that a program shows."""
NETWORK = tuple(
    sorted({each.name for each in fields(Recipe)} - KEYS_NOT_IN_NETWORK_DIGEST - NO_KEYS)
)
"""Keys that determine the digest of the network."""
OF_PLATFORMS = frozenset({"platform", "toolchain", "cflags", "compile_for_device"})
PORTABLE_NETWORK = tuple(key for key in NETWORK if key not in OF_PLATFORMS)
"""The keys in NETWORK, except the keys that select the platform and the platform's toolchain."""


def collect_options(job: Job, stage: Stage) -> dict[str, Any]:
    """Return the values of all keys, fields, variables and facts that a stage declares."""
    stated = () if job.is_shared(stage.name) else stage.platform
    options: dict[str, Any] = {
        "recipe": {key: find_key(job.recipe, key) for key in stage.keys},
        "platform": job.platform.fields if stated == ALL else pick_fields(job.platform, stated),
        "variables": [name for name in stage.variables if os.environ.get(name)],
        "facts": {name: find(job) for name, find in stage.facts.items()},
    }
    if stage.of_members is not None:
        options["members"] = [collect_options(member, stage.of_members) for member in job.members]
    return options


def find_key(recipe: Recipe, key: str) -> Any:
    """Return the value of a recipe's key as plain data without absolute paths, or None."""
    if (key,) == ALL:
        return recipe.portable
    # The recipe of a firmware with several networks has fields, but no text.
    value: Any = recipe.canonical if recipe.data else msgspec.to_builtins(recipe, enc_hook=str)
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def pick_fields(platform: Platform, names: Sequence[str]) -> dict[str, Any]:
    return {name: platform.fields[name] for name in names}


def get_build(job: Job) -> Any:
    return job.build_settings


def describe_board(job: Job) -> Any:
    return asdict(load_board(job.platform.board))


def describe_modules(job: Job) -> Any:
    return [asdict(load_toolchain(name)) for name in job.platform.modules.values()]


def name_archives(job: Job) -> list[str]:
    return [archive.name for archive in find_extra_archives(job)]


def transform_options(job: Job) -> TransformOptions:
    return job.recipe.transforms or TransformOptions()


def select_rewrites(job: Job) -> frozenset[str]:
    options = transform_options(job)
    asked = find_rewrites(job.mix)
    return frozenset(asked.union(options.switched_on).difference(options.switched_off))


def chooses_memories(job: Job) -> bool:
    """Return whether planning chooses memories.

    Memory costs, the recipe or an accelerator can require the choice. A network in a slot stores
    constants in the slot and has one arena, so planning has no alternative.
    """
    costs = (memory.cost for memory in job.platform.memories.values())
    stated = bool(job.recipe.memory or job.platform.device_storage)
    stated |= any(cost is not None for cost in costs)
    return stated and job.recipe.slot is None


def max_boxes(job: Job) -> int:
    return job.recipe.detection.candidates if job.recipe.detection else 0


def select_run_inputs(job: Job) -> Inputs | None:
    """Return the inputs of the run, by default the inputs of the evaluation."""
    if job.recipe.run.inputs is None and job.recipe.evaluate is not None:
        return job.recipe.evaluate.inputs
    return job.recipe.run.inputs


def canonical_run_inputs(job: Job) -> Any:
    canonical = job.recipe.canonical
    return canonical["run"]["inputs"] or canonical.get("evaluate", {}).get("inputs")


def list_run_files(job: Job) -> list[Path]:
    """Return the user's files with the samples of the run, and the files for the reference."""
    has_inputs = job.recipe.run.inputs is not None
    samples = "run.inputs" if has_inputs else "evaluate.inputs"
    return job.recipe.list_files(samples, "model.custom_operators")


def list_sample_files(job: Job) -> list[Path]:
    return [*list_run_files(job), *job.recipe.list_files("postprocess")]


def list_shown_sample_files(job: Job) -> list[Path]:
    return [] if job.has_stage("run") else list_sample_files(job)


def find_extra_archives(job: Job) -> dict[Path, str]:
    """Return the archives that the environment adds for devices, and the variables' names."""
    variables = {device.target.libraries_variable for device in job.mix} - {""}
    return {file: name for name in sorted(variables) for file in read_extra_archives(name)}


def read_extra_archives(variable: str) -> list[Path]:
    """Return the files that a variable names, as in ``-l one.lib -l /path/two.lib``."""
    flags = shlex.split(os.environ.get(variable, ""))
    return [Path(flag.removeprefix("-l")) for flag in flags if flag != "-l"]
