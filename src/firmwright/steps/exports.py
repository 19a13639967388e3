"""exports: the network as packages of other build systems."""

from __future__ import annotations

from pathlib import Path

from firmwright.errors import UserError
from firmwright.pipeline import artifacts
from firmwright.pipeline.devices import template_folders
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import require
from firmwright.project.exports import ExportedNetwork, write_export
from firmwright.project.files import list_templates
from firmwright.project.write import make_ports
from firmwright.steps.demo import read_sample
from firmwright.toolchain.layout import NETWORK


def run(job: Job, folder: Path) -> None:
    """Write a folder for each build system.

    Raises UserError for a network that needs more than its own C files.
    """
    refuse_board_code(job)
    options, interface = require(job.recipe.export), artifacts.INTERFACE.read(job)
    network = ExportedNetwork(
        title=job.recipe.name,
        name=job.recipe.c_prefix,
        version=options.version,
        description=job.recipe.description,
        platform=job.platform,
        inputs=tuple(make_ports(interface.inputs)),
        outputs=tuple(make_ports(interface.outputs)),
        sample=read_sample(job),
        sources=artifacts.PROJECT.path(job) / NETWORK,
    )
    for name in options.to:
        write_export(name, network, folder / name)


def refuse_board_code(job: Job) -> None:
    """Raise UserError for a network of which a part runs on what the board's code drives."""
    own = tuple(template_folders(job.recipe).values())
    used = {region.device for region in artifacts.PARTITION.read(job).regions}
    for device in sorted(used):
        driven = list_templates(f"{device}/{job.platform.board}", own)
        if driven or device in job.platform.accelerators:
            raise UserError(
                f"{device} runs a part of the network, and what drives it is code of the board "
                f"{job.platform.board}, which no package has; export the network with `target: c`"
            )
