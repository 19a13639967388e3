"""The compiled network, read from the results of its stages."""

from __future__ import annotations

from firmwright.pipeline.artifacts import BATCH_LAYOUT, INTERFACE, KERNELS, PARTITION, WEIGHTS
from firmwright.pipeline.job import Job
from firmwright.pipeline.rewriting import cores_by_device
from firmwright.planning import Plan, make_plan
from firmwright.project.inter_core_calls import make_cores
from firmwright.project.write import Network


def read_network(job: Job, plan: Plan | None = None) -> Network:
    """Return the network of a job; without a ``plan`` it gets one that may not fit the platform."""
    partition, kernels = PARTITION.read(job), KERNELS.read(job)
    return Network(
        name=job.recipe.name,
        c_prefix=job.recipe.c_prefix,
        interface=INTERFACE.read(job),
        partition=partition,
        kernels=kernels,
        plan=plan or make_plan(partition, kernels),
        weights=WEIGHTS.read(job),
        cores=make_cores(cores_by_device(job)),
        libraries=tuple(job.recipe.list_files("libraries")),
        batch=BATCH_LAYOUT.read(job) if job.has_stage("batch") else None,
    )
