"""partition: the module, cut into regions, each on one device."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from firmwright.errors import UserError
from firmwright.pipeline.artifacts import (
    BATCH,
    BATCH_LAYOUT,
    INTERFACE,
    NETWORK_INTERFACE,
    NETWORK_MODULE,
    PARTITION,
    REGIONS,
)
from firmwright.pipeline.job import Job
from firmwright.pipeline.rewriting import rewrite_network, rewrite_options
from firmwright.pipeline.stage import Scope, Stage


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


def run(job: Job, folder: Path) -> None:
    """Write ``partition.json``, ``interface.json`` and ``module.json`` (a function a region)."""
    import tvm

    from firmwright.compile import partition_network
    from firmwright.ir.records import read_record, write_record
    from firmwright.planning.batch import batch_network
    from firmwright.planning.batch_size import BatchChoice

    try:
        module, interface = rewrite_network(job)
        if job.has_stage("batch"):
            choice = read_record(job.folder("batch") / "batch.json", BatchChoice)
            module, interface, layout = batch_network(module, interface, choice.actual_batch_size)
            write_record(folder / "batch.json", layout)
        module, interface, partition = partition_network(module, interface, job.mix)
    except UserError as error:
        raise UserError(f"{job.recipe.name}: {error}") from error
    (folder / "module.json").write_text(tvm.ir.save_json(module), encoding="utf-8")
    write_record(folder / "partition.json", partition)
    write_record(folder / "interface.json", interface)


STAGE = Stage(
    name="partition",
    sentence="cut the network into regions, each on one device",
    run="firmwright.tasks.partition:run",
    reads=(NETWORK_MODULE, NETWORK_INTERFACE, BATCH),
    writes=(PARTITION, REGIONS, INTERFACE, BATCH_LAYOUT),
    options=lambda job: {**mix_options(job), **rewrite_options(job)},
    inputs=lambda job: [*job.recipe.list_files("transforms"), *job.device_files],
    scope=Scope.TARGET,
)
