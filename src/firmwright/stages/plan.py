"""Runs the stage ``plan``: sets the offset of every buffer, and proves that all buffers fit."""

from __future__ import annotations

from pathlib import Path

from firmwright.errors import DiagnosticError
from firmwright.ir.kernels import Kernels
from firmwright.ir.regions import Partition
from firmwright.ir.tensors import ModelInterface
from firmwright.pipeline.artifacts import INTERFACE, KERNELS, PARTITION, PLAN
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage_options import chooses_memories, max_boxes
from firmwright.planning import MemoryChoices, Program, check_memory, list_taken, make_plan
from firmwright.planning.pinned_memories import resolve_pins
from firmwright.recipe.memory_key import PinError


def run(job: Job, folder: Path) -> None:
    """Write ``plan.json``. Raises UserError if the platform's RAM is too small."""
    interface = INTERFACE.read(job)
    partition = PARTITION.read(job)
    kernels = KERNELS.read(job)
    plan = make_plan(partition, kernels, choose(job, interface, partition, kernels))
    check_memory(Program(plan, partition, kernels, interface, max_boxes(job)), job.platform)
    PLAN.write(folder, plan)


def choose(
    job: Job, interface: ModelInterface, partition: Partition, kernels: Kernels
) -> MemoryChoices | None:
    """Return the choices of memories, or None if there is only one usable memory.

    Raises DiagnosticError if a pin is not possible.
    """
    platform, recipe = job.platform, job.recipe
    if not chooses_memories(job):
        return None
    try:
        pins = resolve_pins(recipe.memory, partition, kernels, platform)
    except PinError as error:
        mistake = recipe.make_diagnostic(("memory", error.key), str(error))
        raise DiagnosticError([mistake]) from None
    return MemoryChoices(platform, pins, list_taken(interface, max_boxes(job), platform))
