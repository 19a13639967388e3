"""plan: every buffer at a fixed offset, and the proof that it fits."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline.artifacts import INTERFACE, KERNELS, PARTITION, PLAN
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import max_boxes
from firmwright.planning import Program, check_memory, make_plan


def run(job: Job, folder: Path) -> None:
    """Write ``plan.json``; UserError when the platform's RAM is too small."""
    interface = INTERFACE.read(job)
    partition = PARTITION.read(job)
    kernels = KERNELS.read(job)
    plan = make_plan(partition, kernels)
    check_memory(Program(plan, partition, kernels, interface, max_boxes(job)), job.platform)
    PLAN.write(folder, plan)
