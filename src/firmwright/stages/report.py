"""Collects the facts of the bundle's report from the records of the stages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace

import msgspec

from firmwright.pipeline import artifacts
from firmwright.pipeline.explain import find_job_memories
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage_options import chooses_memories
from firmwright.recipe.lock import Lock
from firmwright.report.accuracy_table import format_accuracy
from firmwright.report.estimates import LayerEstimate
from firmwright.report.layer_memories import count_constants
from firmwright.report.layer_rows import CodeLines, LayerFacts, ReportedLayer, describe_layers
from firmwright.report.report import REPORT_VERSION, Memory, ModelFacts, Proof, Report, Roof
from firmwright.report.timeline import Total
from firmwright.stages.comparison import estimate_job_layers
from firmwright.toolchain.flash_images import list_symbols
from firmwright.toolchain.stack_depth import StackDepth

MAX_CODE = 2**20
"""The maximum number of characters of C code on the page."""
MAX_SYMBOLS = 100
"""The maximum number of symbols in a report. A network with many layers has thousands."""


def collect_report(job: Job, read: Lock) -> Report:
    """Return the report of a job. ``read`` are the inputs of the build."""
    interface = artifacts.MODEL_INTERFACE.read(job)
    accuracy = artifacts.ACCURACY.find(job)
    facts = replace(
        read_layer_facts(job),
        timeline=artifacts.TIMELINE.find(job),
        accuracy=(accuracy.layers if accuracy else None) or (),
    )
    return Report(
        report_version=REPORT_VERSION,
        name=job.recipe.name,
        platform=job.platform.name,
        platform_description=job.platform.description,
        target=job.target,
        devices=tuple(device.name for device in job.mix),
        model=ModelFacts(interface.format, interface.sha256, interface.inputs, interface.outputs),
        proof=read_proof(job),
        total=read_total(job),
        memory=read_memory(job),
        layers=describe_layers(facts),
        advice=artifacts.ADVICE.read(job).advice,
        accuracy=tuple(format_accuracy(accuracy)) if accuracy else (),
        roofs=list_roofs(job),
        recipe=job.recipe.canonical,
        inputs=read,
    )


def read_layer_facts(job: Job) -> LayerFacts:
    """Return the facts about each layer that are known after the C project is written."""
    plan = artifacts.PLAN.read(job)
    return LayerFacts(
        partition=artifacts.PARTITION.read(job),
        kernels=artifacts.KERNELS.read(job),
        schedule=plan.schedule,
        buffers=plan.buffers,
        timeline=None,
        estimates=estimate(job),
        accuracy=(),
        operators=artifacts.MODEL_INTERFACE.read(job).operators,
        code=find_code(job),
        memories=find_job_memories(job),
    )


def estimate(job: Job) -> tuple[LayerEstimate, ...]:
    """Return the cost of each layer, or () if the platform does not state all speeds."""
    timing = job.platform.timing
    stated = timing is not None and all(device.name in timing.engines for device in job.mix)
    return estimate_job_layers(job) if stated else ()


def find_code(job: Job) -> dict[str, CodeLines]:
    """Map the name of each region to the lines of its function."""
    project, prefix = artifacts.PROJECT.read(job), job.recipe.c_prefix
    function = re.compile(rf"^void {prefix}_(region_\w+)\((?s:.*?)^}}", re.MULTILINE)
    code_lines = {}
    for path in sorted(project.rglob(f"{prefix}_region*.c")):
        text = path.read_text(encoding="utf-8")
        for region in function.finditer(text):
            first, last = (text.count("\n", 0, offset) + 1 for offset in region.span())
            code_lines[region[1]] = CodeLines(path.relative_to(project).as_posix(), first, last)
    shared = artifacts.PLAN.read(job).shared_functions
    return code_lines | {
        name: code_lines[owner] for name, owner in shared.items() if owner in code_lines
    }


def read_code(job: Job, layer: ReportedLayer) -> list[str]:
    """Return the lines of a layer's function, or [] if another core runs the function."""
    if layer.code is None:
        return []
    text = (artifacts.PROJECT.read(job) / layer.code.file).read_text(encoding="utf-8")
    return text.splitlines()[layer.code.first - 1 : layer.code.last]


def collect_code(job: Job, layers: Sequence[ReportedLayer]) -> dict[int, str]:
    """Map the numbers of all layers to their C code. Return {} if the code is too long."""
    code = {layer.number: "\n".join(read_code(job, layer)) for layer in layers if layer.code}
    return code if sum(map(len, code.values())) <= MAX_CODE else {}


def read_proof(job: Job) -> Proof | None:
    record = artifacts.RUN.find(job)
    if record is None:
        return None
    return Proof(**{field.name: getattr(record, field.name) for field in fields(Proof)})


def read_total(job: Job) -> Total | None:
    timeline = artifacts.TIMELINE.find(job)
    if timeline is None:
        return None
    return Total(**{field.name: getattr(timeline, field.name) for field in fields(Total)})


def read_memory(job: Job) -> Memory:
    plan, linked = artifacts.PLAN.read(job), artifacts.FIRMWARE_SIZE.find(job)
    symbols = list_symbols(artifacts.FIRMWARE.read(job)) if linked else []
    return Memory(
        flash=linked.flash_bytes if linked else None,
        ram=linked.ram_bytes if linked else None,
        capacity={name: memory.size for name, memory in job.platform.memories.items()},
        arena=plan.arena_bytes,
        arena_lower_bound=plan.arena_lower_bound_bytes,
        other_arenas=plan.other_arenas,
        steps=tuple(step.region for step in plan.schedule.steps),
        buffers=plan.buffers,
        sections=dict(linked.sections) if linked else {},
        symbols=tuple(symbols[:MAX_SYMBOLS]),
        constants=read_constants(job),
        stack=read_stack(job),
    )


def read_stack(job: Job) -> StackDepth | msgspec.UnsetType:
    """Return the stack of the run function, or UNSET if an operating system provides the stack."""
    linked = artifacts.FIRMWARE_SIZE.find(job)
    return linked.stacks.get(job.recipe.c_prefix, msgspec.UNSET) if linked else msgspec.UNSET


def read_constants(job: Job) -> dict[str, int] | msgspec.UnsetType:
    """Map each memory to its bytes of constants, or return UNSET if there is only one memory."""
    if not chooses_memories(job):
        return msgspec.UNSET
    kernels, plan = artifacts.KERNELS.read(job), artifacts.PLAN.read(job)
    return count_constants(kernels, plan, job.platform.constants_memory)


def list_roofs(job: Job) -> tuple[Roof, ...]:
    """Return the maximum speeds that the platform states for the devices of the target."""
    engines = job.platform.timing.engines if job.platform.timing else {}
    return tuple(
        Roof(name, engines[name].macs_per_cycle, engines[name].bytes_per_cycle)
        for name in (device.name for device in job.mix)
        if name in engines
    )
