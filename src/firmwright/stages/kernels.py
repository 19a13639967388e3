"""Runs the stage ``kernels``: lowers every region to a C function and its constants."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import tvm
from tvm import relax

from firmwright.compile import lower_each, share_weights
from firmwright.created_folders import INDEX_FILE
from firmwright.errors import DiagnosticError
from firmwright.ir.kernels import KeptRegion, KeptRegions, Kernels, LoweredRegion
from firmwright.ir.records import encode_record
from firmwright.ir.regions import Partition
from firmwright.pipeline.artifacts import KEPT_REGIONS, KERNELS, LOWERED, PARTITION, WEIGHTS
from firmwright.pipeline.explain import explain_partition, find_unmet_demands
from firmwright.pipeline.freshness import file_digest
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage_cache import find_key
from firmwright.pipeline.task import collect_configuration, list_inputs
from firmwright.pipeline.tuned_layers import add_tuning_notes, is_untuned, tune_mix
from firmwright.targets.custom import CustomTarget
from firmwright.targets.custom_strategies import load_extensions

from .compress import (
    choose_encodings,
    encode_constants,
    find_looked_up,
    find_needless_parts,
    use_tables,
)

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
        decodes = job.recipe.compress is not None
        decoding = tuple(replace(d, context=replace(d.context, decodes=decodes)) for d in mix)
        lowered = lower_each(module, partition, decoding, read_kept(job, digests))
        kernels, weights = share_weights(lowered)
        encodings = choose_encodings(job, partition, kernels, weights)
        looked_up = find_looked_up(kernels, encodings)
        if again := find_needless_parts(kernels, encodings) | looked_up.keys():
            kept = {made.kernel.region: made for _, made in lowered}
            kept = {name: made for name, made in kept.items() if name not in again}
            mix = use_tables(mix, kernels, looked_up)
            lowered = lower_each(module, partition, mix, kept)
            kernels, weights = share_weights(lowered)
            encodings = choose_encodings(job, partition, kernels, weights, looked_up)
    KEPT_REGIONS.write(folder, keep_regions(lowered, kernels, digests))
    kernels, weights = encode_constants(job, kernels, weights, encodings, looked_up)
    kernels = add_tuning_notes(job, kernels)
    if is_untuned(job):
        job.note(f"not tuned for {job.platform.name}: `{job.name_command('tune')}` finds faster C")
    WEIGHTS.write(folder, weights)
    KERNELS.write(folder, kernels)
    for stand_in in sorted({k.stand_in for k in kernels.kernels if k.stand_in}):
        regions = [k.region for k in kernels.kernels if k.stand_in == stand_in]
        job.note(f"{', '.join(regions)}: a stand-in for {stand_in}")
    if kernels.float_operators:
        job.note(summarize(kernels))


def summarize(kernels: Kernels) -> str:
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


Digests = Mapping[str, str]
"""Maps the name of a region to a digest of all inputs that decide the region's C code."""


def digest_regions(job: Job, module: tvm.IRModule, partition: Partition) -> Digests:
    """Return the digests of a network's regions.

    A digest covers the region's record and function, the TIR functions, and the configuration of
    the stage. The result is {} if there is custom code, because custom code may read any file. The
    result is also {} if constants are compressed, because the stage then writes only their codes.
    """
    recipe, custom = job.recipe, any(isinstance(d.target, CustomTarget) for d in job.mix)
    if recipe.extensions or custom or recipe.compress:
        return {}
    stage = job.stages[KEPT_REGIONS.stage]
    setting = find_key(job, stage, collect_configuration(job, stage), list_inputs(job, stage))
    common = hashlib.sha256(setting.encode())
    for variable, function in module.functions.items():
        if not isinstance(function, relax.Function):
            common.update(tvm.ir.save_json(variable).encode())
            common.update(tvm.ir.save_json(function).encode())
    digests = {}
    for region in partition.regions:
        if not region.view:
            digest = common.copy()
            digest.update(encode_record(region))
            digest.update(tvm.ir.save_json(module[region.name]).encode())
            digests[region.name] = digest.hexdigest()
    return digests


def read_kept(job: Job, digests: Digests) -> dict[str, LoweredRegion]:
    """Return the results of the last run for regions with equal digests.

    The result is {} if a file is damaged.
    """
    folder = job.folder(KEPT_REGIONS.stage)
    try:
        listed = json.loads((folder / INDEX_FILE).read_bytes())["files"]
        whole = all(listed[a.file] == file_digest(a.path(job)) for a in (KEPT_REGIONS, WEIGHTS))
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    if not whole:
        return {}
    kept, arrays = KEPT_REGIONS.read(job).regions, WEIGHTS.read(job)
    return {
        name: LoweredRegion(
            region.kernel, {local: arrays[n] for local, n in region.weights.items()}
        )
        for name, region in kept.items()
        if digests.get(name) == region.digest
    }


def keep_regions(
    lowered: Sequence[tuple[str, LoweredRegion]], kernels: Kernels, digests: Digests
) -> KeptRegions:
    """Return the lowered regions to keep. ``kernels`` have the stored names of the arrays."""
    kept = {}
    for (_, made), kernel in zip(lowered, kernels.kernels, strict=True):
        tensors = (parameter.tensor for parameter in made.kernel.weights)
        stored = dict(zip(tensors, (parameter.tensor for parameter in kernel.weights), strict=True))
        if kernel.region in digests:
            names = {name: stored[name] for name in made.weights}
            kept[kernel.region] = KeptRegion(digests[kernel.region], made.kernel, names)
    return KeptRegions(kept)
