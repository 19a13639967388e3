"""Runs the stage ``demo``: writes an application that shows one inference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from firmwright.pipeline import artifacts, samples
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import require
from firmwright.project.demo import ShownNetwork, write_demo
from firmwright.toolchain.boards import load_board
from firmwright.verify.batches import join_outputs, join_samples


def run(job: Job, folder: Path) -> None:
    """Write the C files of the application, with the first sample of the run."""
    regions = {r.name: r for r in artifacts.PARTITION.read(job).regions if not r.view}
    plan, caller = artifacts.PLAN.read(job), job.recipe.arena == "caller"
    write_demo(
        ShownNetwork(
            job.recipe.name,
            job.recipe.c_prefix,
            artifacts.INTERFACE.read(job),
            [regions[step.region] for step in plan.schedule.steps if step.region in regions],
            caller,
            tuple(plan.other_arenas) if caller else (),
        ),
        require(job.recipe.demo),
        read_sample(job),
        load_board(job.platform.board).data_section,
        folder,
    )


def read_sample(job: Job) -> dict[str, NDArray[Any]]:
    """Return the inputs of one inference, and the outputs of the firmware or the reference."""
    return artifacts.RUN_SAMPLE.read(job) if job.has_stage("run") else make_reference_sample(job)


def make_reference_sample(job: Job) -> dict[str, NDArray[Any]]:
    """Return the inputs of one inference and the reference outputs for them."""
    single = artifacts.NETWORK_INTERFACE.read(job)
    interface = artifacts.INTERFACE.read(job)
    layout = samples.read_batch_layout(job, interface)
    _, alone = samples.read_run_samples(job, single, layout.size)
    reference = samples.run_reference(job, interface, alone)
    (outputs,) = join_outputs(reference.outputs, layout.size, layout.output_axes)
    (chosen,) = join_samples(alone, layout.size)
    return samples.pack_first_sample(interface, chosen, outputs)
