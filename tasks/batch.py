"""batch: how many samples at once fit the platform's memory; only for recipes that ask."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from firmwright.pipeline.artifacts import BATCH, NETWORK_INTERFACE, NETWORK_MODULE
from firmwright.pipeline.extensions import extend_mix
from firmwright.pipeline.job import Job
from firmwright.pipeline.rewriting import rewrite_network, rewrite_options
from firmwright.pipeline.stage import Stage
from firmwright.targets import Device

from .partition import mix_options
from .plan import max_boxes, memory_options


def options(job: Job) -> Any:
    batch = job.recipe.batch
    return {
        "batch": [batch.size, batch.require] if batch else None,
        **mix_options(job),
        **rewrite_options(job),
        **memory_options(job),
        "extensions": job.recipe.extensions,
        "boxes": max_boxes(job),
    }


def run(job: Job, folder: Path) -> None:
    """Write ``batch.json``; UserError where one sample does not fit, or samples are mixed."""
    from firmwright.compile import lower_regions, partition_network
    from firmwright.ir.records import write_record
    from firmwright.planning import MemoryUse, Program, check_memory, make_plan, memory_uses
    from firmwright.planning.batch import batch_network, largest_tensor
    from firmwright.planning.batch_size import choose_batch

    module, interface = rewrite_network(job)

    def uses(size: int, mix: Sequence[Device]) -> Sequence[MemoryUse]:
        batched, ports, _ = batch_network(module, interface, size)
        tensor = largest_tensor(batched)
        if not tensor.fits:
            return [tensor]
        outlined, ports, partition = partition_network(batched, ports, mix)
        kernels, _ = lower_regions(outlined, partition, mix)
        plan = make_plan(partition, kernels)
        program = Program(plan, partition, kernels, ports, max_boxes(job))
        if size == 1:
            check_memory(program, job.platform)
        return [*memory_uses(program, job.platform), tensor]

    wanted = job.recipe.batch
    assert wanted is not None
    with extend_mix(job) as mix:
        choice = choose_batch(wanted.size, wanted.require, lambda size: uses(size, mix))
    write_record(folder / "batch.json", choice)
    print(f"   {job.recipe.name} on {job.platform.name}: {choice}")


STAGE = Stage(
    name="batch",
    sentence="find the largest batch that fits",
    run="firmwright.tasks.batch:run",
    reads=(NETWORK_MODULE, NETWORK_INTERFACE),
    writes=(BATCH,),
    options=options,
    inputs=lambda job: [*job.recipe.list_files("transforms", "extensions"), *job.device_files],
    applies=lambda job: job.recipe.batch,
)
