"""batch: how many samples at once fit the platform's memory; only for recipes that ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .jobs import Job
from .partition import mix_options
from .plan import memory_options
from .stage import NETWORK, Stage


def options(job: Job) -> Any:
    batch = job.recipe.batch
    return {
        "batch": [batch.size, batch.require] if batch else None,
        **mix_options(job),
        **memory_options(job),
    }


def run(job: Job, folder: Path) -> None:
    """Write ``batch.json``; UserError where one sample does not fit, or samples are mixed."""
    import tvm

    from firmwright.codegen.kernel import Kernels
    from firmwright.models import ModelInterface
    from firmwright.partition.outline import partition_module
    from firmwright.planning import Program, make_plan, ram_needed
    from firmwright.planning.batch import batched_interface, choose_batch
    from firmwright.records import read_record, write_record
    from firmwright.transforms import CANONICAL

    model = job.folder(job.network)
    interface = read_record(model / "model.json", ModelInterface)
    module = tvm.ir.load_json((model / "module.json").read_text(encoding="utf-8"))
    for transform in CANONICAL:
        module = transform.apply(module)
    devices = {device.name: device for device in job.mix}

    def needed(size: int) -> int:
        batched, ports, _ = batched_interface(interface, module, size)
        outlined, partition = partition_module(batched, ports, job.mix)
        lowered = [
            devices[region.device].lower(region, outlined)
            for region in partition.regions
            if not region.view
        ]
        kernels = Kernels(tuple(r.kernel for r in lowered))
        plan = make_plan(partition, kernels)
        return ram_needed(Program(plan, partition, kernels, ports), job.platform)

    assert job.recipe.batch is not None
    choice = choose_batch(job.recipe.batch.size, job.recipe.batch.require, job.platform, needed)
    write_record(folder / "batch.json", choice)
    print(f"   {job.recipe.name} on {job.platform.name}: {choice}")


STAGE = Stage(
    name="batch",
    sentence="find the largest batch that fits",
    needs=(NETWORK,),
    code=("planning", "partition", "transforms", "targets", "codegen", "records.py"),
    options=options,
    run=run,
)
