"""Runs the stage ``exports``: packages the network for other build systems."""

from __future__ import annotations

from pathlib import Path

from firmwright.codegen.templates import make_environment, render
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
    """Write a folder for each build system. The stage ``sources`` has checked the network."""
    options, interface = require(job.recipe.export), artifacts.INTERFACE.read(job)
    caller, plan = job.recipe.arena == "caller", artifacts.PLAN.read(job)
    inputs, outputs = make_ports(interface)
    network = ExportedNetwork(
        title=job.recipe.name,
        name=job.recipe.c_prefix,
        version=options.version,
        url=options.url,
        description=job.recipe.description,
        platform=job.platform,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        sample=read_sample(job),
        sources=artifacts.PROJECT.path(job) / NETWORK,
        stateful=bool(interface.states),
        workspace=max(plan.arena_bytes, 1) if caller else None,
        drivers=render_drivers(job),
    )
    for name in options.to:
        write_export(name, network, folder / name)


def render_drivers(job: Job) -> dict[str, str]:
    """Return the portable drivers of the network's devices, by file name."""
    own = tuple(template_folders(job.recipe).values())
    drivers = {}
    for device in find_driven_devices(job):
        for template in list_portable_drivers(device, own):
            drivers[file_name(template)] = render(make_environment(own), template, {})
    return drivers
