"""Runs the stage ``quantized``: converts the float network to a QDQ graph, and imports it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import tvm

from firmwright.errors import to_printable
from firmwright.models.onnx import importer
from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.pipeline.layer_precision import apply_precision
from firmwright.pipeline.recipe_samples import read_real_samples
from firmwright.quantize.calibration import unpack_distributions
from firmwright.quantize.description import describe_quantization
from firmwright.quantize.integer_io import remove_float_io
from firmwright.quantize.qdq_graph import quantize
from firmwright.quantize.shift_arithmetic import make_shift_network
from firmwright.verify.network_values import describe_values


def run(job: Job, folder: Path) -> None:
    """Write ``model.onnx`` (QDQ), the model's records, and ``quantization.json``.

    In shift arithmetic, ``model.relax`` is also written. This file then defines the network.
    """
    source = artifacts.MODEL_INTERFACE.read(job)
    calibration = artifacts.CALIBRATION.read(job)
    distributions = unpack_distributions(calibration.tensors, artifacts.DISTRIBUTIONS.read(job))
    model = onnx.load(artifacts.PREPARED_MODEL.read(job))
    wanted = apply_precision(job, model)
    samples = []
    if wanted.sees_samples:
        given = wanted.calibration
        assert given.inputs is not None
        samples = read_real_samples(job, source.inputs, given.inputs, given.samples)
    model = quantize(model, distributions, wanted, samples)
    record = describe_quantization(model, distributions, calibration, wanted)
    if wanted.io == "integer":
        remove_float_io(model)
    data = model.SerializeToString(deterministic=True)
    module, interface = importer.import_model(data, "the quantized model", {})
    (folder / artifacts.QUANTIZED_MODEL.file).write_bytes(data)
    if wanted.arithmetic == "shift":
        module, interface = make_shift_network(module, interface)
        (folder / artifacts.QUANTIZED_RELAX.file).write_text(
            to_printable(tvm.ir.save_json(module)), encoding="utf-8"
        )
    interface = replace(
        interface, input_c_names=source.input_c_names, output_c_names=source.output_c_names
    )
    artifacts.NETWORK_MODULE.write(folder, module)
    artifacts.NETWORK_INTERFACE.write(folder, interface)
    artifacts.NETWORK_VALUES.write(folder, describe_values(module, interface))
    artifacts.QUANTIZATION.write(folder, record)
    for note in record.notes:
        job.note(f"quantize: {note}")
