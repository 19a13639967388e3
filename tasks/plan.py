"""plan: every buffer at a fixed offset, and the proof that it fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firmwright.pipeline.artifacts import INTERFACE, KERNELS, PARTITION, PLAN
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Stage


def memory_options(job: Job) -> Any:
    platform = job.platform
    ram = platform.memories.get("ram")
    code = platform.code if platform.all_in_ram else None
    return {"ram": ram.size if ram else None, "stack": platform.stack, "code": code}


def options(job: Job) -> Any:
    return {**memory_options(job), "boxes": max_boxes(job)}


def max_boxes(job: Job) -> int:
    """Return how many boxes the program has room for."""
    return job.recipe.detection.candidates if job.recipe.detection else 0


def run(job: Job, folder: Path) -> None:
    """Write ``plan.json``; UserError when the platform's RAM is too small."""
    from firmwright.ir.kernels import Kernels
    from firmwright.ir.records import read_record, write_record
    from firmwright.ir.regions import Partition
    from firmwright.ir.tensors import ModelInterface
    from firmwright.planning import Program, check_memory, make_plan

    interface = read_record(job.folder("partition") / "interface.json", ModelInterface)
    partition = read_record(job.folder("partition") / "partition.json", Partition)
    kernels = read_record(job.folder("kernels") / "kernels.json", Kernels)
    plan = make_plan(partition, kernels)
    check_memory(Program(plan, partition, kernels, interface, max_boxes(job)), job.platform)
    write_record(folder / "plan.json", plan)


STAGE = Stage(
    name="plan",
    sentence="give every buffer its place in memory",
    run="firmwright.tasks.plan:run",
    reads=(INTERFACE, PARTITION, KERNELS),
    writes=(PLAN,),
    options=options,
)
