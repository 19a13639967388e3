"""mapping: what the recipe's target and another one are modelled to cost; nothing is measured."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import INDEX, Stage

from .comparison import mix, other_job

if TYPE_CHECKING:
    from firmwright.report.modelled import ModelledLayer


def options(job: Job) -> Any:
    assert job.platform.timing is not None
    return [job.recipe.name, mix(job), mix(other_job(job)), asdict(job.platform.timing)]


def inputs(job: Job) -> list[Path]:
    return [other_job(job).folder(stage) / INDEX for stage in ("partition", "kernels", "run")]


def run(job: Job, folder: Path) -> None:
    """Write ``mapping.json``."""
    from firmwright.ir.records import write_record
    from firmwright.report.mappings import ORIGIN, compare_mappings, table

    assert job.platform.timing is not None
    other = other_job(job)
    found = compare_mappings(
        layers(job), mix(job), layers(other), mix(other), job.platform.timing.unverified
    )
    write_record(folder / "mapping.json", found)
    print(f"   {job.recipe.name} on {job.platform.name}: {ORIGIN}")
    print("\n".join(f"   {line}" for line in table(found).splitlines()))
    if found.unverified:
        print(f"   assumed: {', '.join(found.unverified)}")


def layers(job: Job) -> tuple[ModelledLayer, ...]:
    """Return what each layer of a job's mix is modelled to cost, and the call of the network."""
    from firmwright.ir.kernels import Kernels
    from firmwright.ir.records import read_record
    from firmwright.ir.regions import Partition
    from firmwright.report.modelled import modelled_layers

    assert job.platform.timing is not None
    return modelled_layers(
        read_record(job.folder("partition") / "partition.json", Partition),
        read_record(job.folder("kernels") / "kernels.json", Kernels),
        job.platform.timing,
        {device.name: device.target.core for device in job.mix},
        f"{job.recipe.c_prefix}_run",
    )


STAGE = Stage(
    name="mapping",
    sentence="model what the target and another one cost",
    needs=("partition", "kernels", "run"),
    options=options,
    inputs=inputs,
    run=run,
)
