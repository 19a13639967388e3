"""Compares the boxes that a firmware found with the boxes of the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from firmwright.data.samples import Column, Sample, to_samples
from firmwright.ir.tensors import ModelInterface
from firmwright.models.formats import ReferenceOutputs
from firmwright.pipeline.artifacts import BOXES, MODEL_INTERFACE
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import require
from firmwright.pipeline.samples import dequantize_samples, read_run_columns, run_reference
from firmwright.postprocess.boxes import Box
from firmwright.postprocess.classes import read_class_names
from firmwright.postprocess.detector import fit_detector
from firmwright.postprocess.drawing import draw_boxes
from firmwright.postprocess.numpy_detection import detect
from firmwright.verify.detection import AGREEMENT_IOU, DetectionReport, match_samples


def run_float_reference(
    job: Job, quantized: ModelInterface, samples: Sequence[Sample]
) -> tuple[ModelInterface, ReferenceOutputs]:
    """Return the interface of the network before its quantization, and its reference outputs.

    The network runs on the recipe's data as real numbers. Random integers are converted with the
    scale of the input.
    """
    interface = MODEL_INTERFACE.read(job)
    count = len(samples)
    data = read_run_columns(job, interface, count)
    real = to_samples(data, count) if data else dequantize_samples(quantized.inputs, samples)
    outputs = run_reference(job, interface, real, MODEL_INTERFACE.stage)
    return interface, replace(outputs, runtime=f"the float network in {outputs.runtime}")


def compare_boxes(
    job: Job,
    folder: Path,
    data: Mapping[str, Column],
    found: list[list[Box]],
    samples: Sequence[Sample],
    interface: ModelInterface,
    expected: ReferenceOutputs,
) -> None:
    """Compare the firmware's boxes with the boxes of the reference outputs; write and draw them.

    ``interface`` describes the compiled network, and ``expected`` contains the reference outputs.
    If the recipe quantizes the network, the float network is the reference instead.
    """
    detection = require(job.recipe.detection)
    if job.recipe.quantize is not None:
        interface, expected = run_float_reference(job, interface, samples)
    names = read_class_names(detection.classes, job.data_folders)
    detector = fit_detector(detection, len(names), interface.outputs)
    origins = [{name: c.origins[i] for name, c in data.items()} for i in range(len(found))]
    matched = match_samples(
        expected.runtime,
        [", ".join(o.name for o in by.values()) or f"sample {i}" for i, by in enumerate(origins)],
        [{name: o.sha256 for name, o in by.items()} for by in origins],
        names,
        found,
        [detect(detector, outputs) for outputs in expected.outputs],
    )
    report = DetectionReport(detection.threshold, AGREEMENT_IOU, expected.runtime, matched)
    BOXES.write(folder, report)
    for i, by in enumerate(origins):
        for origin in by.values():
            if origin.picture and origin.preprocess:
                target = folder / f"boxes-{i}.png"
                draw_boxes(origin.picture, origin.preprocess, found[i], names, target)
    count = sum(map(len, found))
    job.note(f"{count} boxes, equal to the boxes of {expected.runtime}")
