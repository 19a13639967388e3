"""Runs the stage ``batch``: finds the largest batch that fits the platform's memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from firmwright.compile import lower_regions, partition_network
from firmwright.pipeline.artifacts import BATCH, NETWORK_MODULE
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage_options import max_boxes, require
from firmwright.planning import MemoryUse, Program, check_memory, make_plan, memory_uses
from firmwright.planning.batch import batch_network, largest_tensor
from firmwright.planning.batch_size import BatchChoice, choose_batch
from firmwright.targets import Device
from firmwright.targets.custom_strategies import load_extensions

from .plan import choose as choose_for
from .rewriting import rewrite_network


def run(job: Job, folder: Path) -> None:
    """Write ``batch.json``. Raises UserError if a sample does not fit, or if samples interact.

    The batch fits both targets if the recipe has a comparison.
    """
    choices = [choose(each) for each in job.all_jobs]
    choice = min(choices, key=lambda choice: choice.actual_batch_size)
    BATCH.write(folder, choice)
    job.note(str(choice))
    if choice is not choices[0]:
        job.note(f"{choices[0].actual_batch_size:,} would fit without `compare`")


def choose(job: Job) -> BatchChoice:
    module, interface = rewrite_network(job, NETWORK_MODULE.read(job))

    def uses(size: int, mix: Sequence[Device]) -> Sequence[MemoryUse]:
        batched, ports, _ = batch_network(module, interface, size)
        tensor = largest_tensor(batched)
        if not tensor.fits:
            return [tensor]
        outlined, ports, partition = partition_network(batched, ports, mix, job.recipe.placement)
        kernels, _ = lower_regions(outlined, partition, mix)
        plan = make_plan(partition, kernels, choose_for(job, ports, partition, kernels))
        program = Program(plan, partition, kernels, ports, max_boxes(job))
        if size == 1:
            check_memory(program, job.platform)
        return [*memory_uses(program, job.platform), tensor]

    wanted = require(job.recipe.batch)
    with load_extensions(job.mix, job.recipe.extensions, job.recipe.layers) as mix:
        return choose_batch(wanted.size, wanted.require, lambda size: uses(size, mix))
