"""Keeps the lowered regions of the kernels stage, so the next run lowers only changed regions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import tvm
from tvm import relax

from firmwright.created_folders import INDEX_FILE
from firmwright.ir.kernels import KeptRegion, KeptRegions, Kernels, LoweredRegion
from firmwright.ir.records import encode_record
from firmwright.ir.regions import Partition
from firmwright.pipeline.artifacts import KEPT_REGIONS, WEIGHTS
from firmwright.pipeline.freshness import file_digest
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage_cache import find_key
from firmwright.pipeline.task import collect_configuration, list_own_inputs
from firmwright.targets.custom import CustomTarget

Digests = Mapping[str, str]
"""A digest of everything that decides the C of a region, by the region's name."""


def digest_regions(job: Job, module: tvm.IRModule, partition: Partition) -> Digests:
    """Return the digests of a network's regions.

    A digest covers the region's record and function, the TIR functions, and the configuration of
    the stage. The result is empty if there is custom code, because custom code may read any file.
    It is also empty if constants are compressed, because the stage then writes only their codes.
    """
    recipe, custom = job.recipe, any(isinstance(d.target, CustomTarget) for d in job.mix)
    if recipe.extensions or custom or recipe.compress:
        return {}
    stage = job.stages[KEPT_REGIONS.stage]
    setting = find_key(job, stage, collect_configuration(job, stage), list_own_inputs(job, stage))
    common = hashlib.sha256(setting.encode())
    for variable, function in module.functions.items():
        if not isinstance(function, relax.Function):
            common.update(tvm.ir.save_json(variable).encode())
            common.update(tvm.ir.save_json(function).encode())
    digests = {}
    for region in partition.regions:
        if not region.view:
            own = common.copy()
            own.update(encode_record(region))
            own.update(tvm.ir.save_json(module[region.name]).encode())
            digests[region.name] = own.hexdigest()
    return digests


def read_kept(job: Job, digests: Digests) -> dict[str, LoweredRegion]:
    """Return the results of the last run for regions with equal digests.

    The result is empty if a file is damaged.
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
        name: LoweredRegion(region.kernel, {own: arrays[n] for own, n in region.weights.items()})
        for name, region in kept.items()
        if digests.get(name) == region.digest
    }


def keep_regions(
    lowered: Sequence[tuple[str, LoweredRegion]], kernels: Kernels, digests: Digests
) -> KeptRegions:
    """Return the lowered regions to keep; the ``kernels`` contain the stored names of arrays."""
    kept = {}
    for (_, made), kernel in zip(lowered, kernels.kernels, strict=True):
        own = (parameter.tensor for parameter in made.kernel.weights)
        stored = dict(zip(own, (parameter.tensor for parameter in kernel.weights), strict=True))
        if kernel.region in digests:
            names = {name: stored[name] for name in made.weights}
            kept[kernel.region] = KeptRegion(digests[kernel.region], made.kernel, names)
    return KeptRegions(kept)
