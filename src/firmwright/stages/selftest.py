"""Runs the stage ``selftest``: computes golden samples and the checksums of layers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from firmwright.errors import UserError
from firmwright.pipeline import artifacts, recipe_samples
from firmwright.pipeline.job import Job
from firmwright.project.selftest import decode_checksums, find_checks
from firmwright.stages.check_outputs import judge
from firmwright.stages.network import read_network
from firmwright.verify.batches import join_outputs, join_samples
from firmwright.verify.host_run import run_on_host


def run(job: Job, folder: Path) -> None:
    """Write ``golden.npz``: inputs, outputs and checksums. The first axis is the sample.

    The C code of the firmware computes outputs and checksums on this machine, because integer
    results are equal on all machines. The reference may differ within the tolerance of the run.
    Raises UserError if the difference is larger, or if another core runs a part of the network.
    """
    network = read_network(job, artifacts.PLAN.read(job))
    for region in network.partition.regions:
        if network.cores.called_core(region.device):
            raise UserError(
                f"{region.device} runs on another core, whose layers have no checksums; remove "
                "the key, or build with `target: c`"
            )
    network = replace(network, checks=find_checks(network.partition, network.plan))
    single, interface = artifacts.NETWORK_INTERFACE.read(job), network.interface
    layout = recipe_samples.read_batch_layout(job, interface)
    _, alone = recipe_samples.read_run_samples(job, single, job.recipe.selftest * layout.size)
    scratch = folder / "host"
    ran = run_on_host(network, job.platform, alone, scratch, job.cache)
    shutil.rmtree(scratch)
    batch_outputs = join_outputs(ran.outputs, layout.size, layout.output_axes)
    judge(job, interface, alone, batch_outputs, recipe_samples.run_reference(job, interface, alone))
    batches = join_samples(alone, layout.size)
    given = {
        f"input_{i}": np.stack([batch[tensor.name] for batch in batches])
        for i, tensor in enumerate(interface.inputs)
    }
    wanted = {
        f"output_{i}": np.stack([outputs[i] for outputs in batch_outputs])
        for i in range(len(interface.outputs))
    }
    layers = len(network.checks or ())
    checksums = decode_checksums(ran.console, len(batches), layers)
    artifacts.GOLDEN.write(folder, {**given, **wanted, "checksums": checksums})
    golden = f"{len(batches)} golden sample{'s' if len(batches) != 1 else ''}"
    job.note(f"{golden}, checksums of {layers} layers")
