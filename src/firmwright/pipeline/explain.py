"""Prints the device of every operator and the reason for the choice."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from shutil import get_terminal_size

from firmwright.errors import Diagnostic
from firmwright.ir.records import format_record
from firmwright.report.advice import Advice
from firmwright.report.explanation import Explanation, check_offload, explain, format_table
from firmwright.report.layer_memories import LayerMemories, find_memories

from .artifacts import KERNELS, PARTITION, PLAN, REGIONS
from .job import Job
from .stage_options import chooses_memories
from .tuned_layers import list_tuned_variants, tune_mix


def print_explanations(jobs: Sequence[Job], as_json: bool) -> int:
    """Print the devices of all operators.

    Returns 1 if a recipe's requirement is not met, and 2 if ``as_json`` is set for several jobs.
    """
    if as_json and len(jobs) > 1:
        print("--json supports one recipe and one platform; name one of each", file=sys.stderr)
        return 2
    wrong: list[Diagnostic] = []
    for job in jobs:
        explanation = explain_kernels(job)
        if as_json:
            print(format_record(explanation, "explanation.schema.json"), end="")
        else:
            width = get_terminal_size().columns if sys.stdout.isatty() else None
            print(f"{job.title}\n{format_table(explanation, width)}")
        wrong += find_unmet_demands(job, explanation)
    for each in wrong:
        print(each, file=sys.stderr)
    return int(bool(wrong))


def find_needed_stage(job: Job, layer: str | None) -> str:
    """Return the last stage that is needed to explain all layers, or one ``layer``."""
    if layer is not None:
        return "sources"
    return "plan" if chooses_memories(job) else "partition"


def explain_partition(job: Job) -> Explanation:
    return explain(PARTITION.read(job), [device.name for device in job.recipe.target])


def explain_kernels(job: Job) -> Explanation:
    """Return the explanation of the partition, which contains the kernel of each region."""
    partition, module = PARTITION.read(job), REGIONS.read(job)
    mix = tune_mix(job, partition, module, job.mix)
    devices = {device.name: device for device in mix}
    kernels = {
        region.name: devices[region.lowered_by or region.device].describe_kernel(region, module)
        for region in partition.regions
        if not region.view
    }
    kernels |= {name: f"{variant}, tuned" for name, variant in list_tuned_variants(mix).items()}
    devices_named = [device.name for device in job.recipe.target]
    explanation = explain(partition, devices_named, kernels, find_job_memories(job))
    return replace(explanation, advice=advise_job(job))


def find_job_memories(job: Job) -> dict[str, LayerMemories]:
    """Return a mapping from regions to the memories of the layer's parts.

    The result is empty if planning does not choose memories.
    """
    if not chooses_memories(job):
        return {}
    return find_memories(
        PARTITION.read(job), KERNELS.read(job), PLAN.read(job), job.platform.constants_memory
    )


def advise_job(job: Job) -> tuple[Advice, ...]:
    from firmwright.report.advising import advise  # loads TVM, which the end of a build avoids

    partition, module = PARTITION.read(job), REGIONS.read(job)
    mix = tune_mix(job, partition, module, job.mix)
    return advise(partition, module, mix, job.platform.timing)


def find_unmet_demands(job: Job, explanation: Explanation) -> list[Diagnostic]:
    """Return a message for each of ``allow_fallback`` and ``require_offload`` that is not met."""
    recipe = job.recipe
    ends_on_processor = job.mix[-1].target.is_portable
    wrong = check_offload(
        explanation, recipe.allow_fallback, recipe.require_offload, ends_on_processor
    )
    return [recipe.make_diagnostic((key,), text) for key, text in wrong.items()]
