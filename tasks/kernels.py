"""kernels: every region as a C function and its constants."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.errors import UserError
from firmwright.pipeline.artifacts import KERNELS, PARTITION, REGIONS, WEIGHTS
from firmwright.pipeline.explain import explain_partition, find_unmet_demands
from firmwright.pipeline.extensions import extend_mix
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage import Scope, Stage

from .partition import mix_options

if TYPE_CHECKING:
    from firmwright.ir.kernels import Kernels

MAX_LISTED = 12
"""Operators that are named on the terminal; the manifest has all."""


def run(job: Job, folder: Path) -> None:
    """Write ``kernels.json`` and ``weights.npz``."""
    import tvm

    from firmwright.compile import lower_regions
    from firmwright.ir.records import read_record, write_arrays, write_record
    from firmwright.ir.regions import Partition

    source = job.folder("partition")
    partition = read_record(source / "partition.json", Partition)
    if wrong := find_unmet_demands(job, explain_partition(job)):
        raise UserError(wrong)
    module = tvm.ir.load_json((source / "module.json").read_text(encoding="utf-8"))
    with extend_mix(job) as mix:
        kernels, weights = lower_regions(module, partition, mix)
    write_arrays(folder / "weights.npz", weights)
    write_record(folder / "kernels.json", kernels)
    for stand_in in sorted({k.stand_in for k in kernels.kernels if k.stand_in}):
        regions = [k.region for k in kernels.kernels if k.stand_in == stand_in]
        print(f"   {job.recipe.name}: {', '.join(regions)}: a stand-in for {stand_in}")
    if kernels.float_operators:
        print(summary(job, kernels))


def options(job: Job) -> Any:
    recipe = job.recipe
    return [mix_options(job), recipe.allow_fallback, recipe.require_offload, recipe.extensions]


def summary(job: Job, kernels: Kernels) -> str:
    """Say which operators on quantized values run in float32."""
    floats = [str(operator) for operator in kernels.float_operators]
    more = (
        f" and {len(floats) - MAX_LISTED} more: see the manifest"
        if len(floats) > MAX_LISTED
        else ""
    )
    return (
        f"   {job.recipe.name}: {len(floats)} of {kernels.quantized_operators} quantized "
        f"operators run in float32: {', '.join(floats[:MAX_LISTED])}{more}"
    )


STAGE = Stage(
    name="kernels",
    sentence="lower every region to C",
    run="firmwright.tasks.kernels:run",
    reads=(PARTITION, REGIONS),
    writes=(KERNELS, WEIGHTS),
    options=options,
    inputs=lambda job: [*job.recipe.list_files("extensions"), *job.device_files],
    templates=lambda job: [f"{device.name}/layers/*.j2" for device in job.recipe.target],
    scope=Scope.TARGET,
)
