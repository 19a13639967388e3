"""The network as the devices are asked about it: rewritten as they and the recipe want it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from firmwright.recipe import TransformOptions

from .job import Job

if TYPE_CHECKING:
    import tvm

    from firmwright.ir.tensors import ModelInterface


def select_rewrites(job: Job) -> frozenset[str]:
    """Return the names of the optional rewrites that run."""
    options = transform_options(job)
    asked = {name for device in job.mix for name in device.target.rewrites}
    return frozenset(asked.union(options.switched_on).difference(options.switched_off))


def cores_by_device(job: Job) -> dict[str, str]:
    """Return the core of each device of the mix, in its order."""
    return {device.name: device.target.core for device in job.mix}


def transform_options(job: Job) -> TransformOptions:
    return job.recipe.transforms or TransformOptions()


def rewrite_options(job: Job) -> Any:
    """Return what decides how the network is rewritten."""
    return {"rewrites": sorted(select_rewrites(job)), "extra": transform_options(job).extra}


def rewrite_network(job: Job) -> tuple[tvm.IRModule, ModelInterface]:
    """Read the network that is compiled, and apply every rewrite: optional, own, canonical."""
    import tvm

    from firmwright.compile import prepare_module
    from firmwright.ir.records import read_record
    from firmwright.ir.tensors import ModelInterface
    from firmwright.targets.custom_transforms import apply_user_transform

    source = job.folder(job.network_stage)
    module = tvm.ir.load_json((source / "module.json").read_text(encoding="utf-8"))
    folder = job.recipe.path.parent
    custom = [partial(apply_user_transform, r, folder) for r in transform_options(job).extra]
    module = prepare_module(module, select_rewrites(job), custom)
    return module, read_record(source / "model.json", ModelInterface)
