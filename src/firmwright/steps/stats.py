"""Runs the stage ``stats``: computes the start and end of each layer in clock cycles."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline.artifacts import KERNELS, PARTITION, PLAN, RUN, TIMELINE
from firmwright.pipeline.job import Job
from firmwright.report.timeline import (
    HEADER,
    PARALLEL_JOBS_HEADER,
    draw_tracks,
    make_timeline,
    write_timeline,
)


def run(job: Job, folder: Path) -> None:
    """Write ``stats.json`` and, for users and their scripts, ``<recipe>_stats.yaml``."""
    record = RUN.read(job)
    partition = PARTITION.read(job)
    kernels = KERNELS.read(job)
    schedule = PLAN.read(job).schedule
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
    TIMELINE.write(folder, found)
    if not found.modelled:
        return  # cycles equal instructions then
    overlap = f", {beside:,} of them in parallel" if devices else ""
    slowest = max(found.layers, key=lambda layer: layer.cycles)
    job.note(
        f"{found.cycles:,} cycles ({found.modelled:,} modelled, "
        f"{found.counted:,} instructions counted{overlap}); {slowest.name} needs "
        f"{100 * slowest.cycles / found.cycles:.1f} % of them"
    )
    for track in draw_tracks(found) if devices else ():
        job.note(track)
