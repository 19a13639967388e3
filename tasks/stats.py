"""stats: when each layer runs, in clock cycles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firmwright.pipeline.artifacts import KERNELS, PARTITION, PLAN, RUN, TIMELINE
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Stage


def options(job: Job) -> Any:
    return {
        "name": job.recipe.name,
        "platform": job.platform.name,
        "c_prefix": job.recipe.c_prefix,
    }


def run(job: Job, folder: Path) -> None:
    """Write ``stats.json`` and, for people and their scripts, ``<recipe>_stats.yaml``."""
    from firmwright.ir.kernels import Kernels
    from firmwright.ir.records import read_record, write_record
    from firmwright.ir.regions import Partition
    from firmwright.planning import Plan
    from firmwright.report.timeline import (
        HEADER,
        PARALLEL_JOBS_HEADER,
        make_timeline,
        write_timeline,
    )
    from firmwright.verify.record import RunRecord

    record = read_record(job.folder("run") / "run.json", RunRecord)
    partition = read_record(job.folder("partition") / "partition.json", Partition)
    kernels = read_record(job.folder("kernels") / "kernels.json", Kernels)
    schedule = read_record(job.folder("plan") / "plan.json", Plan).schedule
    found = make_timeline(schedule, partition, kernels, record, f"{job.recipe.c_prefix}_run")
    runs = "1 run" if record.samples == 1 else f"{record.samples} runs"
    header = HEADER.format(
        name=job.recipe.name, platform=job.platform.name, runs=runs, emulator=record.emulator
    )
    waited = {k.region for k in kernels.kernels if k.wait_function}
    devices = sorted({r.device for r in partition.regions if r.name in waited})
    beside = found.modelled + found.counted - found.cycles
    if devices:
        header += PARALLEL_JOBS_HEADER.format(devices=" and ".join(devices), beside=beside)
    write_timeline(folder / job.stats_file, found, header)
    write_record(folder / "stats.json", found)
    overlap = f", {beside:,} of them beside others" if devices else ""
    slowest = max(found.layers, key=lambda layer: layer.cycles)
    print(
        f"   {job.recipe.name}: {found.cycles:,} cycles ({found.modelled:,} modelled, "
        f"{found.counted:,} instructions counted{overlap}); {slowest.name} takes "
        f"{100 * slowest.cycles / found.cycles:.1f} % of them"
    )


STAGE = Stage(
    name="stats",
    sentence="tell when each layer runs, in clock cycles",
    run="firmwright.tasks.stats:run",
    reads=(PARTITION, KERNELS, PLAN, RUN),
    writes=(TIMELINE,),
    options=options,
    applies=lambda job: job.counts_instructions,
    archive=lambda job: {f"stats/{job.stats_file}": job.folder("stats") / job.stats_file},
)
