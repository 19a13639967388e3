"""Runs the stage ``kernels``: lowers every region to a C function and its constants."""

from __future__ import annotations

from pathlib import Path

from firmwright.compile import lower_each, share_weights
from firmwright.errors import DiagnosticError
from firmwright.ir.kernels import Kernels
from firmwright.pipeline.artifacts import KEPT_REGIONS, KERNELS, LOWERED, PARTITION, WEIGHTS
from firmwright.pipeline.explain import explain_partition, find_unmet_demands
from firmwright.pipeline.job import Job
from firmwright.pipeline.tuned_layers import add_tuning_notes, is_untuned, tune_command, tune_mix
from firmwright.targets.custom_strategies import load_extensions

from .compress import compress
from .kept_regions import digest_regions, keep_regions, read_kept

MAX_LISTED = 12
"""The maximum number of operators on the terminal. The manifest lists all operators."""


def run(job: Job, folder: Path) -> None:
    """Write ``kernels.json``, ``weights.npz``, and ``kept.json`` for the next run."""
    if wrong := find_unmet_demands(job, explain_partition(job)):
        raise DiagnosticError(wrong)
    with load_extensions(job.mix, job.recipe.extensions, job.recipe.layers) as mix:
        module, partition = LOWERED.read(job), PARTITION.read(job)
        digests = digest_regions(job, module, partition)
        mix = tune_mix(job, partition, module, mix)
        lowered = lower_each(module, partition, mix, read_kept(job, digests))
    kernels, weights = share_weights(lowered)
    KEPT_REGIONS.write(folder, keep_regions(lowered, kernels, digests))
    kernels, weights = compress(job, partition, kernels, weights)
    kernels = add_tuning_notes(job, kernels)
    if is_untuned(job):
        job.note(f"not tuned for {job.platform.name}: `{tune_command(job)}` finds faster C")
    WEIGHTS.write(folder, weights)
    KERNELS.write(folder, kernels)
    for stand_in in sorted({k.stand_in for k in kernels.kernels if k.stand_in}):
        regions = [k.region for k in kernels.kernels if k.stand_in == stand_in]
        job.note(f"{', '.join(regions)}: a stand-in for {stand_in}")
    if kernels.float_operators:
        job.note(summarize(kernels))


def summarize(kernels: Kernels) -> str:
    """Return a sentence that lists the operators on quantized values that run in float32."""
    floats = [str(operator) for operator in kernels.float_operators]
    more = (
        f" and {len(floats) - MAX_LISTED} more: see the manifest"
        if len(floats) > MAX_LISTED
        else ""
    )
    return (
        f"{len(floats)} of {kernels.quantized_operators} quantized operators run in float32: "
        f"{', '.join(floats[:MAX_LISTED])}{more}"
    )
