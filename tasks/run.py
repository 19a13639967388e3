"""run: the firmware in the emulator, judged by the model's own reference runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.recipe.quantization import Inputs

from .emulators import identity
from .jobs import Job
from .samples import columns_on_grid, sample_files
from .stage import NETWORK, Stage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from firmwright.data.samples import Column, Sample
    from firmwright.models import ModelInterface
    from firmwright.models.formats import Verdict
    from firmwright.models.interface import BatchLayout
    from firmwright.postprocess.boxes import Box
    from firmwright.verify.record import RunRecord

BUDGET = 400_000_000_000
"""Instructions before a firmware counts as hung: some minutes in the emulator."""


def given_samples(job: Job) -> Inputs | None:
    """Return where the run's samples are: the evaluation's, if the recipe names no others."""
    if job.recipe.run.inputs is None and job.recipe.evaluate is not None:
        return job.recipe.evaluate.inputs
    return job.recipe.run.inputs


def given_inputs(job: Job) -> Any:
    canonical = job.recipe.canonical()
    return canonical["run"]["inputs"] or canonical.get("evaluate", {}).get("inputs")


def options(job: Job) -> Any:
    spec = job.recipe.run
    return {
        "batch": job.has("batch"),
        "samples": spec.samples,
        "seed": spec.seed,
        "emulator": identity(job),
        "tolerance": [spec.tolerance.absolute, spec.tolerance.relative],
        "inputs": given_inputs(job),
        "detection": job.recipe.canonical().get("detection"),
        "c_prefix": job.recipe.c_prefix,
    }


def inputs(job: Job) -> list[Path]:
    """Return the files of the samples and of the classes."""
    return [*sample_files(job, given_samples(job)), *job.class_files]


def accelerators(job: Job) -> list[Path]:
    """Return the C of the accelerators that an emulator compiles for itself."""
    from importlib.resources import files

    folder = Path(str(files("firmwright.templates")))
    return [p for d in job.platform.accelerators for p in sorted((folder / d).rglob("*.j2"))]


def columns(job: Job, interface: ModelInterface, count: int) -> dict[str, Column]:
    """Return ``count`` samples for a batch of 1 from the recipe's data; nothing where it has none.

    One for each batch has to be there; where they do not fill the batches, they come in turn.
    """
    from firmwright.verify.samples import in_turn

    given = given_samples(job)
    if given is None:
        return {}
    return in_turn(columns_on_grid(job, interface, given, count, job.recipe.run.samples), count)


def run(job: Job, folder: Path) -> None:
    """Write ``run.json``, the outputs of firmware and reference (``outputs.npz``), and the
    firmware's first sample (``sample.npz``).

    With a detection also ``boxes.json``, and ``boxes-<number>.png`` of every picture, also of
    those that share a batch.
    """
    import numpy as np

    from firmwright.codegen.kernel import Kernels
    from firmwright.emulator import run_firmware
    from firmwright.models import ModelInterface
    from firmwright.partition import Partition
    from firmwright.quantize.samples import sample_digest
    from firmwright.records import read_record, write_arrays, write_record
    from firmwright.verify.batches import joined_outputs, joined_samples
    from firmwright.verify.compare import compare
    from firmwright.verify.protocol import (
        decode_boxes,
        decode_counts,
        decode_outputs,
        encode_samples,
    )
    from firmwright.verify.record import RunRecord

    spec = job.recipe.run
    single = read_record(job.folder(job.network) / "model.json", ModelInterface)
    interface = read_record(job.folder("partition") / "interface.json", ModelInterface)
    layout = batch_layout(job, interface)
    data, alone = samples(job, single, spec.samples * layout.size)
    chosen = joined_samples(alone, layout.size)
    partition = read_record(job.folder("partition") / "partition.json", Partition)
    functions = {f"{job.recipe.c_prefix}_{r.name}": r.name for r in partition.regions if not r.view}
    kernels = read_record(job.folder("kernels") / "kernels.json", Kernels)
    waits = sorted({k.waits for k in kernels.kernels if k.waits})
    execution = run_firmware(
        job.folder("firmware") / "firmware.elf",
        job.platform,
        job.emulator,
        encode_samples(interface.inputs, chosen),
        f"{job.recipe.c_prefix}_run",
        job.cache,
        BUDGET,
        (*functions, *waits),
    )
    found = decode_outputs(execution.console, interface.outputs, len(chosen), execution.exit_code)
    write_arrays(folder / "sample.npz", first_sample(interface, chosen[0], found[0]))
    verdict = judged_by_reference(job, interface, alone)
    expected = joined_outputs(verdict.outputs, layout.size, layout.output_axes)
    arrays = {
        f"{side}_{i}": np.stack([outputs[i] for outputs in results])
        for side, results in (("firmware", found), ("reference", expected))
        for i in range(len(interface.outputs))
    }
    write_arrays(folder / "outputs.npz", arrays)
    tolerance = spec.tolerance
    total = execution.instructions
    if total is not None:  # what an emulated device does in a wait, the processor does not
        total -= sum(execution.by_part[function] for function in waits)
    record = RunRecord(
        emulator=execution.emulator,
        reference=verdict.reference,
        samples=len(chosen),
        batch=layout.size,
        macs=partition.macs,
        instructions=None if total is None else total // len(chosen),
        instructions_total=total,
        instructions_by_function=dict(sorted(execution.by_symbol.items())),
        instructions_by_region={
            functions[f]: n for f, n in execution.by_part.items() if f in functions
        },
        tolerance=tolerance,
        agreement=compare(interface.outputs, found, expected, tolerance),
        inputs=tuple(sample_digest(s) for s in alone) if data else (),
        counts=decode_counts(execution.console),
    )
    write_record(folder / "run.json", record)
    print(summary(job, record))
    if job.recipe.detection is not None:
        boxes = decode_boxes(execution.console, len(interface.outputs), len(chosen), layout.size)
        judge = single
        if job.recipe.quantize is not None:
            judge, verdict = float_verdict(job, single, alone)
        judge_boxes(job, folder, data, boxes, judge, verdict)


def batch_layout(job: Job, interface: ModelInterface) -> BatchLayout:
    """Return how many samples an inference takes, and along which axis each output holds them."""
    from firmwright.models.interface import BatchLayout
    from firmwright.records import read_record

    if job.has("batch"):
        return read_record(job.folder("partition") / "batch.json", BatchLayout)
    return BatchLayout(1, tuple(0 for _ in interface.outputs))


def samples(job: Job, single: ModelInterface, count: int) -> tuple[dict[str, Column], list[Sample]]:
    """Return ``count`` samples for a batch of 1, and the recipe's data if they are of it."""
    from firmwright.verify.samples import as_samples, random_samples

    data = columns(job, single, count)
    if data:
        return data, as_samples(data, count)
    return data, random_samples(single.inputs, count, job.recipe.run.seed)


def judged_by_reference(job: Job, interface: ModelInterface, alone: Sequence[Sample]) -> Verdict:
    """Return what the model's own reference runtime makes of samples."""
    from firmwright.models import FORMATS

    model = job.folder(job.network) / f"model.{interface.format}"
    return FORMATS[interface.format].load().run_reference(model.read_bytes(), alone)


def first_sample(
    interface: ModelInterface, sample: Sample, outputs: Sequence[NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return what the firmware read first and what it wrote: ``input_0`` …, ``output_0`` …"""
    inputs = {f"input_{i}": sample[t.name] for i, t in enumerate(interface.inputs)}
    return inputs | {f"output_{i}": array for i, array in enumerate(outputs)}


def float_verdict(
    job: Job, quantised: ModelInterface, samples: Sequence[Sample]
) -> tuple[ModelInterface, Verdict]:
    """Return the network before its quantisation, and what it makes of the run's samples.

    It sees the recipe's data as real numbers, and random integers by their input's scale.
    """
    from firmwright.data.arrays import dequantised
    from firmwright.models import FORMATS, ModelInterface
    from firmwright.records import read_record
    from firmwright.verify.samples import as_samples

    stage = job.folder("model")
    interface = read_record(stage / "model.json", ModelInterface)
    data = columns(job, interface, len(samples))
    tensors = {t.name: t for t in quantised.inputs}
    real = (
        as_samples(data, len(samples))
        if data
        else [
            {name: dequantised(array, tensors[name]) for name, array in sample.items()}
            for sample in samples
        ]
    )
    judge = FORMATS[interface.format].load()
    verdict = judge.run_reference((stage / f"model.{interface.format}").read_bytes(), real)
    return interface, replace(verdict, reference=f"the float network in {verdict.reference}")


def judge_boxes(
    job: Job,
    folder: Path,
    data: Mapping[str, Column],
    found: list[list[Box]],
    interface: ModelInterface,
    verdict: Verdict,
) -> None:
    """Compare the firmware's boxes with those of a reference's outputs; write and draw them.

    ``interface`` describes the network that the reference evaluated.
    """
    from firmwright.postprocess.classes import class_names
    from firmwright.postprocess.detector import fit_detector
    from firmwright.postprocess.drawing import draw_boxes
    from firmwright.postprocess.reference import detect
    from firmwright.postprocess.report import AGREEMENT, DetectionReport, judged
    from firmwright.records import write_record

    detection = job.recipe.detection
    assert detection is not None
    names = class_names(detection.classes, job.place)
    detector = fit_detector(detection, len(names), interface.outputs)
    origins = [{name: c.origins[i] for name, c in data.items()} for i in range(len(found))]
    samples = judged(
        verdict.reference,
        [", ".join(o.name for o in by.values()) or f"sample {i}" for i, by in enumerate(origins)],
        [{name: o.sha256 for name, o in by.items()} for by in origins],
        names,
        found,
        [detect(detector, outputs) for outputs in verdict.outputs],
    )
    report = DetectionReport(detection.threshold, AGREEMENT, verdict.reference, samples)
    write_record(folder / "boxes.json", report)
    for i, by in enumerate(origins):
        for origin in by.values():
            if origin.picture and origin.preprocess:
                target = folder / f"boxes-{i}.png"
                draw_boxes(origin.picture, origin.preprocess, found[i], names, target)
    count = sum(map(len, found))
    print(f"   {job.recipe.name}: {count} boxes, those of {verdict.reference}")


def summary(job: Job, record: RunRecord) -> str:
    agreement = record.agreement
    given, different = len(record.inputs), len(set(record.inputs))
    counted = (
        "not counted"
        if record.instructions is None
        else f"{record.instructions:,} instructions an inference"
    )
    return (
        f"   {job.recipe.name} on {job.platform.name} ({record.emulator}): {counted}, "
        f"{record.macs:,} MACs; {agreement.exact_samples} of {record.samples} samples exact, "
        f"largest difference {agreement.max_difference:g} ({record.reference})"
        + (f"; {different} samples in turn fill the batches" if different < given else "")
        + "".join(f"; {name} {count:,}" for name, count in record.counts.items())
    )


STAGE = Stage(
    name="run",
    sentence="run the firmware and compare it with the reference",
    needs=("model", NETWORK, "partition", "kernels", "firmware"),
    code=(
        *(
            "emulator",
            "verify",
            "models",
            "data",
            "user_code.py",
            "postprocess",
            "quantize/samples.py",
        ),
        "records.py",
    ),
    options=options,
    inputs=lambda job: [*inputs(job), *accelerators(job)],
    run=run,
)
