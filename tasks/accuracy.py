"""accuracy: the quantised network and its C against the float network; the recipe's gate."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.errors import UserError
from firmwright.recipe.quantization import EvaluateOptions

from .extensions import library_files
from .jobs import Job
from .network import cores
from .samples import read_real_samples, sample_files
from .stage import NETWORK, Stage

if TYPE_CHECKING:
    from firmwright.codegen.project import Network
    from firmwright.models import ModelInterface
    from firmwright.quantize.boxes import BoxJudge


def evaluate_options(job: Job) -> EvaluateOptions:
    options = job.recipe.evaluate
    assert options is not None  # the stage is left out of other recipes
    return options


def options(job: Job) -> Any:
    evaluate = evaluate_options(job)
    canonical = job.recipe.canonical()
    return {**asdict(evaluate), **canonical["evaluate"], "detection": canonical.get("detection")}


def inputs(job: Job) -> list[Path]:
    from firmwright.data.sources import module_file

    evaluate = evaluate_options(job)
    files = sample_files(job, evaluate.inputs)
    if evaluate.labels is not None:
        files.append(job.recipe.resolve(evaluate.labels))
    if evaluate.metric is not None:
        files.append(module_file(evaluate.metric, job.recipe.path.parent))
    return [*files, *job.class_files, *library_files(job)]


def network(job: Job) -> Network:
    from firmwright.codegen.crossings import cores_of
    from firmwright.codegen.kernel import Kernels
    from firmwright.codegen.project import Network
    from firmwright.models import ModelInterface
    from firmwright.partition import Partition
    from firmwright.planning import make_plan
    from firmwright.records import read_arrays, read_record

    partition = read_record(job.folder("partition") / "partition.json", Partition)
    kernels = read_record(job.folder("kernels") / "kernels.json", Kernels)
    return Network(
        name=job.recipe.name,
        c_prefix="network",
        interface=read_record(job.folder("partition") / "interface.json", ModelInterface),
        partition=partition,
        kernels=kernels,
        plan=make_plan(partition, kernels),
        weights=read_arrays(job.folder("kernels") / "weights.npz"),
        cores=cores_of(cores(job)),
        libraries=tuple(library_files(job)),
    )


def box_judge(
    job: Job, quantised: ModelInterface, labels: Path | None, count: int
) -> BoxJudge | None:
    """Return what compares boxes, for a recipe with a detection."""
    from firmwright.postprocess.classes import class_names
    from firmwright.postprocess.report import AGREEMENT
    from firmwright.quantize.boxes import BoxJudge, read_labels, real_detector

    detection = job.recipe.detection
    if detection is None:
        return None
    names = class_names(detection.classes, job.place)
    limits = evaluate_options(job).thresholds.boxes
    right = None
    if labels is not None and labels.suffix == ".json":
        right = read_labels(labels, names, count)
    detector = real_detector(detection, len(names), quantised)
    return BoxJudge(detector, limits.iou if limits else AGREEMENT, right)


def run(job: Job, folder: Path) -> None:
    """Write ``accuracy.json``; UserError naming the worst layers where a threshold is not met."""
    import onnx

    from firmwright.models import FORMATS, ModelInterface
    from firmwright.planning.batch import BatchLayout
    from firmwright.quantize import gate
    from firmwright.quantize.judge import judge
    from firmwright.quantize.record import QuantizationRecord
    from firmwright.records import read_record, write_record
    from firmwright.user_code import user_function
    from firmwright.verify.host_run import run_on_host

    evaluate = evaluate_options(job)
    source = read_record(job.folder("model") / "model.json", ModelInterface)
    samples = read_real_samples(job, source.inputs, evaluate.inputs, evaluate.samples)
    labels = None if evaluate.labels is None else job.recipe.resolve(evaluate.labels)
    quantised = read_record(job.folder(job.network) / "model.json", ModelInterface)
    reference = FORMATS[quantised.format].load()
    definition = (job.folder(job.network) / f"model.{quantised.format}").read_bytes()
    compiled = network(job)
    layout = BatchLayout(1, tuple(0 for _ in compiled.interface.outputs))
    if job.has("batch"):
        layout = read_record(job.folder("partition") / "batch.json", BatchLayout)
    scratch = folder / "host"
    with ExitStack() as stack:
        metric = None
        if evaluate.metric is not None:
            own = user_function(evaluate.metric, job.recipe.path.parent)
            metric = stack.enter_context(own)
        record = judge(
            onnx.load(job.folder("calibration") / "prepared.onnx"),
            onnx.load(job.folder("quantized") / "model.onnx"),
            quantised,
            samples,
            lambda given: reference.run_reference(definition, given).outputs,
            lambda given: run_on_host(compiled, job.platform, layout, given, scratch, job.cache),
            labels if labels and labels.suffix == ".npy" else None,
            metric,
            box_judge(job, quantised, labels, len(samples)),
            evaluate.thresholds,
            read_record(job.folder("quantized") / "quantization.json", QuantizationRecord).samples,
        )
    shutil.rmtree(scratch)
    write_record(folder / "accuracy.json", record)
    if gate.failures(record):
        raise UserError(gate.failure_message(record))
    for line in gate.summary(record):
        print(line)


STAGE = Stage(
    name="accuracy",
    sentence="compare the quantised network with the float one",
    needs=("model", "calibration", NETWORK, "partition", "kernels"),
    code=(
        "models",
        "quantize",
        "postprocess",
        "verify",
        "codegen",
        "planning",
        "toolchain",
        "emulator",
        "data",
        "user_code.py",
        "records.py",
    ),
    options=options,
    inputs=inputs,
    run=run,
)
