"""The compiled network, read from the results of its stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .job import Job
from .rewriting import cores_by_device

if TYPE_CHECKING:
    from firmwright.planning import Plan
    from firmwright.project.write import Network


def read_network(job: Job, plan: Plan | None = None) -> Network:
    """Return the network of a job; without a ``plan`` it gets one that may not fit the platform."""
    from firmwright.ir.kernels import Kernels
    from firmwright.ir.records import read_arrays, read_record
    from firmwright.ir.regions import Partition
    from firmwright.ir.tensors import BatchLayout, ModelInterface
    from firmwright.planning import make_plan
    from firmwright.project.inter_core_calls import make_cores
    from firmwright.project.write import Network

    folder = job.folder("partition")
    partition = read_record(folder / "partition.json", Partition)
    kernels = read_record(job.folder("kernels") / "kernels.json", Kernels)
    return Network(
        name=job.recipe.name,
        c_prefix=job.recipe.c_prefix,
        interface=read_record(folder / "interface.json", ModelInterface),
        partition=partition,
        kernels=kernels,
        plan=plan or make_plan(partition, kernels),
        weights=read_arrays(job.folder("kernels") / "weights.npz"),
        cores=make_cores(cores_by_device(job)),
        libraries=tuple(job.recipe.list_files("libraries")),
        batch=read_record(folder / "batch.json", BatchLayout) if job.has_stage("batch") else None,
    )
