"""Runs the stage ``partition``: cuts the module into regions, each on one device."""

from __future__ import annotations

from pathlib import Path

from firmwright.compile import partition_network
from firmwright.errors import DiagnosticError, UserError
from firmwright.partition.prices import CostError
from firmwright.pipeline.artifacts import (
    BATCH,
    BATCH_LAYOUT,
    INTERFACE,
    NETWORK_MODULE,
    PARTITION,
    REGIONS,
)
from firmwright.pipeline.job import Job
from firmwright.planning.batch import batch_network
from firmwright.targets.device_options import OptionError

from .rewriting import note_idle_keys, note_kept_layers, note_saved_macs, rewrite_network


def run(job: Job, folder: Path) -> None:
    """Write ``partition.json``, ``interface.json`` and ``module.json`` (a function per region)."""
    try:
        network = NETWORK_MODULE.read(job)
        module, interface = rewrite_network(job, network)
        note_saved_macs(job, network, module)
        note_kept_layers(job, module)
        rewritten = module
        if job.origin is None:
            note_idle_keys(job, network, module)
        if job.has_stage("batch"):
            size = BATCH.read(job).actual_batch_size
            module, interface, layout = batch_network(module, interface, size)
            BATCH_LAYOUT.write(folder, layout)
        module, interface, partition = partition_network(
            module, interface, job.mix, job.recipe.placement
        )
    except OptionError as error:
        message = str(error).removeprefix("target: ")
        raise DiagnosticError([job.recipe.make_diagnostic(("target",), message)]) from error
    except CostError as error:
        raise DiagnosticError([job.recipe.make_diagnostic(("placement",), str(error))]) from error
    except UserError as error:
        raise UserError(f"{job.recipe.name}: {error}") from error
    if job.origin is None:
        for device in job.mix:
            for note in device.list_idle_options(partition.regions, rewritten):
                job.note(f"target: {device.name} {note}")
    REGIONS.write(folder, module)
    PARTITION.write(folder, partition)
    INTERFACE.write(folder, interface)
