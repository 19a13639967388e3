"""Runs the C project for DIANA's chip on a model of the accelerator's registers.

:mod:`firmwright.devices.soma_dory.chip_program` compiles the program.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from firmwright.devices.soma_dory.chip_program import DRIVER, SDK, build_program
from firmwright.devices.soma_dory.rules import list_open_questions
from firmwright.devices.soma_dory.stages import REPORT, ChipReport
from firmwright.emulator import run_firmware
from firmwright.ir.regions import Partition
from firmwright.pipeline import artifacts, recipe_samples
from firmwright.pipeline.job import Job
from firmwright.toolchain import make_host_build
from firmwright.verify.batches import join_outputs, join_samples
from firmwright.verify.compare import compare
from firmwright.verify.protocol import decode_outputs, encode_samples

MAX_INSTRUCTIONS = 10**12
"""The number of instructions after which the run of the program is aborted."""


def run(job: Job, folder: Path) -> None:
    """Write ``chip.json``. Raises UserError if outputs differ or the project does not compile."""
    single = artifacts.NETWORK_INTERFACE.read(job)
    interface = artifacts.INTERFACE.read(job)
    layout = recipe_samples.read_batch_layout(job, interface)
    _, alone = recipe_samples.read_run_samples(job, single, job.recipe.run.samples * layout.size)
    batches = join_samples(alone, layout.size)
    scratch = folder / "program"
    build = make_host_build(job.platform)
    program, compiler = build_program(artifacts.PROJECT.path(job), build, scratch, job.cache)
    given = encode_samples(interface.inputs, batches)
    entry = f"{job.recipe.c_prefix}_run"
    ran = run_firmware(program, build.platform, "native", given, entry, MAX_INSTRUCTIONS)
    outputs = decode_outputs(ran.console, interface.outputs, len(batches), ran.exit_code)
    reference = recipe_samples.run_reference(job, interface, alone)
    expected = join_outputs(reference.outputs, layout.size, layout.output_axes)
    tolerance = job.recipe.run.tolerance
    steps = artifacts.NETWORK_VALUES.read(job).output_steps if tolerance.steps else ()
    agreement = compare(interface.outputs, outputs, expected, tolerance, steps)
    shutil.rmtree(scratch)
    report = ChipReport(
        driver=describe_source(DRIVER, "a stand-in"),
        registers=describe_source(SDK, "a stand-in"),
        compiler=compiler.version,
        reference=reference.runtime,
        samples=len(batches),
        values=agreement.values,
        differences=agreement.differences,
        open_questions=list_open_questions(list_kinds(artifacts.PARTITION.read(job))),
    )
    REPORT.write(folder, report)
    job.note(
        f"{report.values - report.differences} of {report.values} values equal the values of the "
        f"register model; driver: {report.driver}; registers: {report.registers}"
    )
    for question in report.open_questions:
        job.note(f"open: {question}")


def describe_source(variable: str, otherwise: str) -> str:
    return variable if variable in os.environ else otherwise


def list_kinds(partition: Partition) -> set[str]:
    return {region.anchor for region in partition.regions if region.device == "soma_dory"}
