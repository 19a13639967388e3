"""Runs the stage ``exports``: packages the network for other build systems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from firmwright.codegen.templates import make_environment, render
from firmwright.pipeline import artifacts
from firmwright.pipeline.devices import template_folders
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage_options import require
from firmwright.project.export_packages import ExportedNetwork, Package, write_export
from firmwright.project.project_files import file_name, list_portable_drivers
from firmwright.project.several_networks import lay_out
from firmwright.project.write import make_ports
from firmwright.stages.demo import read_sample
from firmwright.stages.network import find_driven_devices, read_network
from firmwright.toolchain.project_folders import NETWORK


def run(job: Job, folder: Path) -> None:
    """Write a folder for each build system. The stage ``sources`` has checked the network."""
    caller, plan = job.recipe.arena == "caller", artifacts.PLAN.read(job)
    workspace = max(plan.arena_bytes, 1) if caller else None
    write_packages(job, (read_exported(job),), workspace, render_drivers(job), folder)


def run_for_networks(job: Job, folder: Path) -> None:
    layout = lay_out([read_network(m, artifacts.PLAN.read(m)) for m in job.members], job.concurrent)
    networks = tuple(read_exported(member) for member in job.members)
    write_packages(job, networks, layout.workspace, {}, folder)


def read_exported(job: Job) -> ExportedNetwork:
    interface = artifacts.INTERFACE.read(job)
    inputs, outputs = make_ports(interface)
    return ExportedNetwork(
        c_prefix=job.recipe.c_prefix,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        sample=read_sample(job),
        stateful=bool(interface.states),
    )


def write_packages(
    job: Job,
    networks: tuple[ExportedNetwork, ...],
    workspace: int | None,
    drivers: Mapping[str, str],
    folder: Path,
) -> None:
    options = require(job.recipe.export)
    package = Package(
        title=job.recipe.name,
        name=job.recipe.c_prefix,
        version=options.version,
        url=options.url,
        description=job.recipe.description,
        platform=job.platform,
        networks=networks,
        sources=artifacts.PROJECT.path(job) / NETWORK,
        workspace=workspace,
        drivers=drivers,
    )
    for name in options.to:
        write_export(name, package, folder / name)


def render_drivers(job: Job) -> dict[str, str]:
    roots = tuple(template_folders(job.recipe).values())
    drivers = {}
    for device in find_driven_devices(job):
        for template in list_portable_drivers(device, roots):
            drivers[file_name(template)] = render(make_environment(roots), template, {})
    return drivers
