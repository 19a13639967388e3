"""Lists all stages in the order in which they run.

A firmware with several networks has separate stages for its sources, run, exports and bundle.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import structs

from firmwright.created_folders import INDEX_FILE
from firmwright.pipeline import artifacts
from firmwright.pipeline.declaration import ALL
from firmwright.pipeline.job import Job, Stage
from firmwright.pipeline.stage_options import describe_board, get_build, list_sample_files

from . import firmware_stages as network
from . import network_stages


def describe_file(job: Job) -> Any:
    """Return the values in the file of the networks, whose keys differ from a recipe's keys."""
    recipe = job.recipe
    export = structs.asdict(recipe.export) if recipe.export else None
    return [recipe.name, recipe.c_prefix, recipe.description, job.concurrent, export]


def run_inputs(job: Job) -> list[Path]:
    runs = [member.folder("run") / INDEX_FILE for member in job.members]
    samples = [path for member in job.members for path in list_sample_files(member)]
    return [*runs, *samples, *map(Path, filter(None, [job.board_access]))]


def export_inputs(job: Job) -> list[Path]:
    needs = network.EXPORTS.needs
    pairs = [(member, need) for member in job.members for need in needs if member.has_stage(need)]
    results = [member.folder(need) / INDEX_FILE for member, need in pairs]
    return [*results, *(path for m in job.members for path in network.EXPORTS.inputs(m))]


SOURCES = Stage(
    name="sources",
    sentence="write the C project of all networks",
    run="firmwright.stages.networks:write_sources",
    joins=True,
    of_members=network.SOURCES,
    reads=network.SOURCES.reads,
    platform=ALL,
    facts={"file": describe_file, "build": get_build},
    inputs=lambda job: [p for m in job.members for p in network.list_project_files(m)],
    templates=lambda job: [p for m in job.members for p in network.list_project_templates(m)],
    tools=lambda job: [job.compiler] if job.has_firmware else [],
    archive=lambda job: artifacts.PROJECT.pack(job, "src/"),
)
RUN = Stage(
    name="run",
    sentence="run the networks in turn and compare them with their references",
    run="firmwright.stages.networks:run",
    reads=(artifacts.FIRMWARE,),
    of_members=network.RUN,
    platform=ALL,
    facts={"file": describe_file, "board": describe_board},
    inputs=run_inputs,
    tools=network.list_emulators,
    condition=network.RUN.condition,
    applies=lambda job: job.is_run,
)
EXPORTS = Stage(
    name="exports",
    sentence="package all networks for other build systems",
    run="firmwright.stages.exports:run_for_networks",
    reads=(artifacts.PROJECT,),
    of_members=network.EXPORTS,
    platform=ALL,
    facts={"file": describe_file, "board": describe_board},
    inputs=export_inputs,
    templates=network.list_export_templates,
    condition=network.EXPORTS.condition,
    applies=network.EXPORTS.applies,
    archive=network.EXPORTS.archive,
    about=("export",),
)
BUNDLE = Stage(
    name="bundle",
    sentence="pack the firmware, its sources, and the networks' bundles",
    run="firmwright.stages.networks:pack",
    of_members=network.BUNDLE,
    reads_all=True,
    platform=ALL,
    facts={"file": describe_file, "build": get_build},
    inputs=lambda job: [member.bundle for member in job.members],
    templates=lambda _: ["bundle/*.j2"],
    publish=lambda job: [job.bundle],
)

PIPELINE = (*network_stages.STAGES, *network.STAGES)
NETWORKS_PIPELINE = (SOURCES, network.OBJECTS, network.FIRMWARE, RUN, EXPORTS, BUNDLE)
"""The stages of a firmware with several networks, which run after each network's stages."""
