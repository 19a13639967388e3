"""demo: an application that shows one inference, built by the C project's Makefile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.pipeline.artifacts import (
    BATCH_LAYOUT,
    DEMO,
    INTERFACE,
    MODEL_INTERFACE,
    NETWORK_INTERFACE,
    PARTITION,
    PLAN,
    PROJECT,
    RUN_SAMPLE,
)
from firmwright.pipeline.job import Job
from firmwright.pipeline.run_samples import (
    canonical_run_inputs,
    pack_first_sample,
    read_batch_layout,
    read_run_samples,
    run_model_reference,
)
from firmwright.pipeline.stage import Stage

from . import run as run_stage

if TYPE_CHECKING:
    from numpy.typing import NDArray


def options(job: Job) -> Any:
    canonical = job.recipe.canonical
    return {
        **{key: canonical[key] for key in ("name", "c_prefix", "demo")},
        "sample": None
        if job.has_stage("run")
        else [canonical_run_inputs(job), job.recipe.run.seed],
    }


def inputs(job: Job) -> list[Path]:
    return [] if job.has_stage("run") else run_stage.inputs(job)


def run(job: Job, folder: Path) -> None:
    """Write the application's C files, its data those of the run's first sample.

    Where no emulator runs the firmware, the outputs are those of the reference.
    """
    from firmwright.ir.records import read_arrays, read_record
    from firmwright.ir.regions import Partition
    from firmwright.ir.tensors import ModelInterface
    from firmwright.planning import Plan
    from firmwright.project.demo import write_demo

    partition = read_record(job.folder("partition") / "partition.json", Partition)
    views = {region.name for region in partition.regions if region.view}
    plan = read_record(job.folder("plan") / "plan.json", Plan)
    sample = job.folder("run") / "sample.npz"
    assert job.recipe.demo is not None
    write_demo(
        job.recipe.name,
        job.recipe.c_prefix,
        job.recipe.demo,
        read_record(job.folder("partition") / "interface.json", ModelInterface),
        [step.region for step in plan.schedule.steps if step.region not in views],
        read_arrays(sample) if job.has_stage("run") else make_reference_sample(job),
        folder,
    )


def make_reference_sample(job: Job) -> dict[str, NDArray[Any]]:
    """Return the inputs of one inference and what the model's reference makes of them."""
    from firmwright.ir.records import read_record
    from firmwright.ir.tensors import ModelInterface
    from firmwright.verify.batches import join_outputs, join_samples

    single = read_record(job.folder(job.network_stage) / "model.json", ModelInterface)
    interface = read_record(job.folder("partition") / "interface.json", ModelInterface)
    layout = read_batch_layout(job, interface)
    _, alone = read_run_samples(job, single, layout.size)
    verdict = run_model_reference(job, interface, alone)
    (outputs,) = join_outputs(verdict.outputs, layout.size, layout.output_axes)
    (chosen,) = join_samples(alone, layout.size)
    return pack_first_sample(interface, chosen, outputs)


STAGE = Stage(
    name="demo",
    sentence="write the demo application",
    run="firmwright.tasks.demo:run",
    reads=(
        *(MODEL_INTERFACE, NETWORK_INTERFACE, INTERFACE, BATCH_LAYOUT),
        *(PARTITION, PLAN, PROJECT, RUN_SAMPLE),
    ),
    writes=(DEMO,),
    options=options,
    inputs=inputs,
    templates=lambda _: ["demo/*.j2", "application/console.j2"],
    applies=lambda job: job.recipe.demo,
    archive=lambda job: DEMO.pack(job, "src/demo/"),
)
