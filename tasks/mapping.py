"""mapping: what the recipe's target and another one are modelled to cost; nothing is measured."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.pipeline.artifacts import KERNELS, MAPPING, PARTITION, RUN
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Stage

from .comparison import format_mix, get_comparison_job

if TYPE_CHECKING:
    from firmwright.report.estimates import LayerEstimate


def options(job: Job) -> Any:
    assert job.platform.timing is not None
    return [
        job.recipe.name,
        format_mix(job),
        format_mix(get_comparison_job(job)),
        asdict(job.platform.timing),
    ]


def run(job: Job, folder: Path) -> None:
    """Write ``mapping.json``."""
    from firmwright.ir.records import write_record
    from firmwright.report.comparison import ORIGIN, compare_costs, format_costs

    assert job.platform.timing is not None
    other = get_comparison_job(job)
    found = compare_costs(
        estimate_job_layers(job),
        format_mix(job),
        estimate_job_layers(other),
        format_mix(other),
        job.platform.timing.unverified,
    )
    write_record(folder / "mapping.json", found)
    print(f"   {job.recipe.name} on {job.platform.name}: {ORIGIN}")
    print("\n".join(f"   {line}" for line in format_costs(found).splitlines()))
    if found.unverified:
        print(f"   assumed: {', '.join(found.unverified)}")


def estimate_job_layers(job: Job) -> tuple[LayerEstimate, ...]:
    """Return what each layer of a job's mix is modelled to cost, and the call of the network."""
    from firmwright.ir.kernels import Kernels
    from firmwright.ir.records import read_record
    from firmwright.ir.regions import Partition
    from firmwright.report.estimates import estimate_layers

    assert job.platform.timing is not None
    return estimate_layers(
        read_record(job.folder("partition") / "partition.json", Partition),
        read_record(job.folder("kernels") / "kernels.json", Kernels),
        job.platform.timing,
        {device.name: device.target.core for device in job.mix},
        f"{job.recipe.c_prefix}_run",
    )


STAGE = Stage(
    name="mapping",
    sentence="model what the target and another one cost",
    run="firmwright.tasks.mapping:run",
    reads=(PARTITION, KERNELS, RUN),
    compares=True,
    writes=(MAPPING,),
    options=options,
    applies=lambda job: job.has_firmware and job.recipe.compare and job.platform.timing,
    archive=MAPPING.pack,
)
