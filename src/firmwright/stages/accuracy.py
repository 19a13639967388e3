"""Runs the stage ``accuracy``: compares networks on the samples of `evaluate`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import onnx

from firmwright.custom.code import load_custom_function
from firmwright.data.samples import Sample, sample_digest
from firmwright.errors import UserError
from firmwright.ir.tensors import ModelInterface
from firmwright.models import FORMATS
from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.pipeline.label_files import Labels, read_labels
from firmwright.pipeline.python_operators import load_custom_operators
from firmwright.pipeline.recipe_samples import read_real_samples, read_samples
from firmwright.pipeline.stage_options import require
from firmwright.postprocess.classes import read_class_names
from firmwright.quantize.float_network import FloatReference, compare_with_float
from firmwright.report.accuracy_table import format_accuracy, format_failure
from firmwright.stages.network import read_network
from firmwright.verify.accuracy import Evaluation, dequantize_outputs, measure_accuracy
from firmwright.verify.detection import AGREEMENT_IOU, BoxComparer, fit_float_detector
from firmwright.verify.host_run import run_on_host


def make_box_comparer(job: Job, interface: ModelInterface, labels: Labels) -> BoxComparer | None:
    """Return the comparer of boxes, or None if the recipe has no detection."""
    detection = job.recipe.detection
    if detection is None:
        return None
    names = read_class_names(detection.classes, job.data_folders)
    limits = require(job.recipe.evaluate).thresholds.boxes
    detector = fit_float_detector(detection, len(names), interface)
    return BoxComparer(detector, limits.iou if limits else AGREEMENT_IOU, labels.boxes)


def run_float_network(
    job: Job, interface: ModelInterface, samples: Sequence[Sample]
) -> FloatReference | None:
    """Return the outputs of the network before its quantization, or None without quantization."""
    if job.recipe.quantize is None:
        return None
    prepared = onnx.load(artifacts.PREPARED_MODEL.read(job))
    calibrated = artifacts.QUANTIZATION.read(job).samples
    quantized = onnx.load(artifacts.QUANTIZED_MODEL.read(job))
    return compare_with_float(prepared, quantized, interface, samples, calibrated)


def run_networks(
    job: Job, interface: ModelInterface, samples: Sequence[Sample], scratch: Path
) -> Evaluation:
    """Run every network on the samples. ``interface`` describes the compiled network."""
    before = run_float_network(job, interface, samples)
    given = before.inputs if before else samples
    definition = (job.folder(job.network_stage) / f"model.{interface.format}").read_bytes()
    runtime = FORMATS[interface.format].load()
    with load_custom_operators(job.recipe):
        reference = runtime.run_reference(definition, given, interface.states)
    compiled = read_network(job)
    ran = run_on_host(compiled, job.platform, given, scratch, job.cache)
    digests = tuple(sample_digest(s) for s in samples)
    return Evaluation(
        samples=digests,
        calibrated=len(before.calibrated.intersection(digests)) if before else 0,
        networks={
            **({"float32": before.outputs} if before else {}),
            "quantized" if before else "reference": dequantize_outputs(
                interface, reference.outputs
            ),
            "firmware": dequantize_outputs(interface, ran.outputs),
        },
        reference=reference.runtime,
        firmware=f"C compiled for this machine by {ran.compiler}",
        layers=before.layers if before else None,
    )


def run(job: Job, folder: Path) -> None:
    """Write ``accuracy.json``. Raises UserError with the thresholds that are not met."""
    stated = require(job.recipe.evaluate)
    source = artifacts.MODEL_INTERFACE.read(job)
    interface = artifacts.NETWORK_INTERFACE.read(job)
    # The float network reads real numbers. A model that the build does not quantize reads its input
    # types.
    read = read_real_samples if job.recipe.quantize else read_samples
    samples = read(job, source.inputs, stated.inputs, stated.samples)
    labels = read_labels(job, interface, len(samples))
    boxes = make_box_comparer(job, interface, labels)
    scratch = folder / "host"
    evaluation = run_networks(job, interface, samples, scratch)
    shutil.rmtree(scratch)
    with ExitStack() as stack:
        metric = None
        if stated.metric is not None:
            custom = load_custom_function(stated.metric, job.recipe.path.parent)
            metric = stack.enter_context(custom)
        record = measure_accuracy(evaluation, labels.classes, metric, boxes, stated.thresholds)
    artifacts.ACCURACY.write(folder, record)
    message = format_failure(record)
    if message:
        raise UserError(message)
    for line in format_accuracy(record):
        job.note(line)
