"""run: the firmware in the emulator, judged by the model's own reference runtime."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .jobs import Job
from .stage import Stage

if TYPE_CHECKING:
    from firmwright.models import ModelInterface
    from firmwright.verify.record import RunRecord
    from firmwright.verify.samples import Sample

BUDGET = 400_000_000_000
"""Instructions before a firmware counts as hung: some minutes in the emulator."""


def options(job: Job) -> Any:
    spec = job.recipe.run
    return {
        "batch": job.has("batch"),
        "samples": spec.samples,
        "seed": spec.seed,
        "emulator": emulator(job),
        "tolerance": [spec.tolerance.absolute, spec.tolerance.relative],
        "inputs": spec.inputs if isinstance(spec.inputs, str) else sorted(spec.inputs or ()),
        "c_prefix": job.recipe.c_prefix,
    }


def emulator(job: Job) -> str:
    return job.recipe.run.emulator or job.platform.emulators[0]


def inputs(job: Job) -> list[Path]:
    given = job.recipe.run.inputs
    if given is None:
        return []
    names = [given] if isinstance(given, str) else [path for _, path in given]
    return [job.recipe.resolve(name) for name in names]


def samples(job: Job, interface: ModelInterface, count: int) -> list[Sample]:
    """Return ``count`` samples for a batch of 1."""
    from firmwright.verify.samples import random_samples, stored_samples

    spec = job.recipe.run
    if spec.inputs is None:
        return random_samples(interface.inputs, count, spec.seed)
    if isinstance(spec.inputs, str):
        return stored_samples(interface.inputs, job.recipe.resolve(spec.inputs), count)
    paths = {name: job.recipe.resolve(path) for name, path in spec.inputs}
    return stored_samples(interface.inputs, paths, count)


def run(job: Job, folder: Path) -> None:
    """Write ``run.json`` and the outputs of firmware and reference (``outputs.npz``)."""
    import numpy as np

    from firmwright.emulator import run_firmware
    from firmwright.models import FORMATS, ModelInterface
    from firmwright.partition import Partition
    from firmwright.planning.batch import BatchLayout
    from firmwright.records import read_record, write_arrays, write_record
    from firmwright.verify.batches import joined_outputs, joined_samples
    from firmwright.verify.compare import compare
    from firmwright.verify.protocol import decode_outputs, encode_samples
    from firmwright.verify.record import RunRecord

    model = job.folder("model")
    single = read_record(model / "model.json", ModelInterface)
    interface = read_record(job.folder("partition") / "interface.json", ModelInterface)
    layout = BatchLayout(1, tuple(0 for _ in interface.outputs))
    if job.has("batch"):
        layout = read_record(job.folder("partition") / "batch.json", BatchLayout)
    alone = samples(job, single, job.recipe.run.samples * layout.size)
    chosen = joined_samples(alone, layout.size)
    execution = run_firmware(
        job.folder("firmware") / "firmware.elf",
        job.platform,
        emulator(job),
        encode_samples(interface.inputs, chosen),
        f"{job.recipe.c_prefix}_run",
        job.cache,
        BUDGET,
    )
    found = decode_outputs(execution.console, interface.outputs, len(chosen), execution.exit_code)
    judge = FORMATS[interface.format].load()
    verdict = judge.run_reference((model / f"model.{interface.format}").read_bytes(), alone)
    expected = joined_outputs(verdict.outputs, layout.size, layout.output_axes)
    arrays = {
        f"{side}_{i}": np.stack([outputs[i] for outputs in results])
        for side, results in (("firmware", found), ("reference", expected))
        for i in range(len(interface.outputs))
    }
    write_arrays(folder / "outputs.npz", arrays)
    tolerance = job.recipe.run.tolerance
    total = execution.instructions
    record = RunRecord(
        emulator=execution.emulator,
        reference=verdict.reference,
        samples=len(chosen),
        batch=layout.size,
        macs=read_record(job.folder("partition") / "partition.json", Partition).macs,
        instructions=None if total is None else total // len(chosen),
        instructions_total=total,
        instructions_by_function=dict(sorted(execution.by_symbol.items())),
        tolerance=tolerance,
        agreement=compare(interface.outputs, found, expected, tolerance),
    )
    write_record(folder / "run.json", record)
    print(summary(job, record))


def summary(job: Job, record: RunRecord) -> str:
    agreement = record.agreement
    counted = (
        "not counted"
        if record.instructions is None
        else f"{record.instructions:,} instructions an inference"
    )
    return (
        f"   {job.recipe.name} on {job.platform.name} ({record.emulator}): {counted}, "
        f"{record.macs:,} MACs; {agreement.exact_samples} of {record.samples} samples exact, "
        f"largest difference {agreement.max_difference:g} ({record.reference})"
    )


STAGE = Stage(
    name="run",
    sentence="run the firmware and compare it with the reference",
    needs=("model", "partition", "firmware"),
    code=("planning/batch.py", "emulator", "verify", "models", "records.py"),
    options=options,
    inputs=inputs,
    run=run,
)
