"""Runs the stage ``exports``: packages the network for other build systems."""

from __future__ import annotations

from pathlib import Path

from firmwright.codegen.templates import make_environment, render
from firmwright.errors import UserError
from firmwright.pipeline import artifacts
from firmwright.pipeline.devices import template_folders
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import require
from firmwright.project.export_packages import ExportedNetwork, write_export
from firmwright.project.files import file_name, list_portable_drivers
from firmwright.project.write import make_ports
from firmwright.steps.demo import read_sample
from firmwright.steps.network import find_driven_devices
from firmwright.toolchain.layout import NETWORK


def run(job: Job, folder: Path) -> None:
    """Write a folder for each build system.

    Raises UserError for a network that needs other code in addition to its C files.
    """
    drivers = render_drivers(job)
    options, interface = require(job.recipe.export), artifacts.INTERFACE.read(job)
    caller, plan = job.recipe.arena == "caller", artifacts.PLAN.read(job)
    if caller and plan.other_arenas:
        raise UserError(
            f"packages pass one arena, but this network has a second arena in "
            f"{' and '.join(plan.other_arenas)}; add `memory: {{arena: ram}}` to the recipe, or "
            "leave `arena: caller` out"
        )
    inputs, outputs = make_ports(interface)
    network = ExportedNetwork(
        title=job.recipe.name,
        name=job.recipe.c_prefix,
        version=options.version,
        description=job.recipe.description,
        platform=job.platform,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        sample=read_sample(job),
        sources=artifacts.PROJECT.path(job) / NETWORK,
        stateful=bool(interface.states),
        workspace=max(plan.arena_bytes, 1) if caller else None,
        drivers=drivers,
    )
    for name in options.to:
        write_export(name, network, folder / name)


def render_drivers(job: Job) -> dict[str, str]:
    """Return the portable drivers of the network's devices, by file name.

    Raises UserError for a device whose driver belongs to the board.
    """
    own = tuple(template_folders(job.recipe).values())
    drivers = {}
    for device in find_driven_devices(job):
        templates = list_portable_drivers(device, own)
        if not templates:
            raise UserError(
                f"{device} runs a part of the network; its driver belongs to the board "
                f"{job.platform.board}, which no package contains; export with `target: c`"
            )
        for template in templates:
            drivers[file_name(template)] = render(make_environment(own), template, {})
    return drivers
