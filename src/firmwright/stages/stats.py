"""Runs the stage ``stats``: computes the start, the end and the duration of each layer."""

from __future__ import annotations

from pathlib import Path

from firmwright.ir.kernels import Kernels
from firmwright.ir.regions import Partition
from firmwright.pipeline.artifacts import KERNELS, PARTITION, PLAN, RUN, TIMELINE
from firmwright.pipeline.job import Job
from firmwright.report.timeline import (
    COUNTED,
    HEADER,
    MEASURED,
    PARALLEL_JOBS_HEADER,
    add_bound,
    draw_tracks,
    make_timeline,
    name_one,
    write_timeline,
)
from firmwright.toolchain import Platform
from firmwright.verify.run_records import RunRecord

OF_CYCLES = " Their cycles are {source}."


def run(job: Job, folder: Path) -> None:
    """Write ``stats.json`` and, for users and their scripts, ``<recipe>_stats.yaml``."""
    record = RUN.read(job)
    if record.instructions_total is None and record.cycles_total is None:
        return  # the board has no counter, as the stage `run` has noted
    partition = PARTITION.read(job)
    kernels = KERNELS.read(job)
    schedule = PLAN.read(job).schedule
    source = describe_source(job.platform, kernels, partition, record)
    run_function = f"{job.recipe.c_prefix}_run"
    timeline = make_timeline(
        schedule, partition, kernels, record, run_function, source, job.clock, job.platform.energy
    )
    timeline = add_bound(timeline, job.platform.cycle_bound)
    cycles = OF_CYCLES.format(source=record.cycles_source) if record.cycles_source else ""
    counted = COUNTED if record.instructions_total is not None else MEASURED
    runs = "1 run" if record.samples == 1 else f"{record.samples} runs"
    header = HEADER.format(
        name=job.recipe.name,
        platform=job.platform.name,
        counted=counted.format(runs=runs, emulator=record.emulator, cycles=cycles),
        unit=timeline.unit,
        one=name_one(timeline),
        time=timeline,
    )
    modelled = record.instructions_total is not None
    waited = {k.region for k in kernels.kernels if k.wait_function and modelled}
    devices = sorted({r.device for r in partition.regions if r.name in waited})
    beside = timeline.modelled + timeline.counted - timeline.total
    if devices:
        header += PARALLEL_JOBS_HEADER.format(devices=" and ".join(devices), beside=beside)
    write_timeline(folder / job.stats_file, timeline, header)
    TIMELINE.write(folder, timeline)
    if not timeline.modelled:
        return  # the final table shows all numbers
    job.note(str(timeline))
    overlap = f", {beside:,} of them in parallel" if devices else ""
    slowest = max(timeline.layers, key=lambda layer: layer.length)
    job.note(
        f"{timeline.modelled:,} cycles modelled, {timeline.counted:,} on the processor{overlap}; "
        f"{slowest.name} needs {100 * slowest.length / timeline.total:.1f} % of them"
    )
    for track in draw_tracks(timeline) if devices else ():
        job.note(track)


def describe_source(
    platform: Platform, kernels: Kernels, partition: Partition, record: RunRecord
) -> str:
    """Return the method that determines the numbers of a timeline."""
    if record.instructions_total is None:
        return str(record.cycles_source)
    sources = {k.region: k.cycles_source for k in kernels.kernels if k.cycles is not None}
    devices = sorted({r.device for r in partition.regions if sources.get(r.name) == ""})
    models = f"the cost model{'s' if len(devices) > 1 else ''} of {' and '.join(devices)}"
    named = sorted({*sources.values()} - {""})
    models = " and ".join([*([models] if devices else ()), *named])
    if record.cycles_total is not None:
        processor = f"{record.cycles_source}, {describe_waits(platform)}"
        return f"{processor}; by {models}" if models else processor
    if models:
        return f"by {models}; one cycle assumed per instruction of the processor"
    return f"counted by {record.emulator}"


def describe_waits(platform: Platform) -> str:
    memory = platform.memories[platform.constants_memory]
    if not memory.wait_states:
        return "zero wait states"
    return f"{memory.wait_states} wait states per {memory.fetch_bytes} bytes of code"
