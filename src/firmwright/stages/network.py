"""Reads the network from the results of stages."""

from __future__ import annotations

from firmwright.pipeline import artifacts
from firmwright.pipeline.devices import find_driven
from firmwright.pipeline.job import Job
from firmwright.planning import Plan, make_plan
from firmwright.project.inter_core_calls import make_cores
from firmwright.project.network import Network


def find_driven_devices(job: Job) -> list[str]:
    """Return the devices that run a part of the network and need the board's code."""
    used = sorted({region.device for region in artifacts.PARTITION.read(job).regions})
    return find_driven(used, job.recipe, job.platform)


def read_network(job: Job, plan: Plan | None = None) -> Network:
    """Return the network of a job. The network may not fit the platform if ``plan`` is None."""
    partition, kernels = artifacts.PARTITION.read(job), artifacts.KERNELS.read(job)
    return Network(
        name=job.recipe.name,
        c_prefix=job.recipe.c_prefix,
        interface=artifacts.INTERFACE.read(job),
        partition=partition,
        kernels=kernels,
        plan=plan or make_plan(partition, kernels),
        weights=artifacts.WEIGHTS.read(job),
        cores=make_cores(job.cores),
        libraries=tuple(job.recipe.list_files("libraries")),
        batch=artifacts.BATCH_LAYOUT.read(job) if job.has_stage("batch") else None,
        caller_arena=job.recipe.arena == "caller",
        hooks=job.recipe.hooks,
        recipe_sha256=job.recipe.network_sha256,
    )
