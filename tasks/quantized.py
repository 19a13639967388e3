"""quantized: the float network as a QDQ graph on integer grids, imported to Relax."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from firmwright.pipeline.artifacts import (
    CALIBRATION,
    DISTRIBUTIONS,
    MODEL_INTERFACE,
    PREPARED_MODEL,
    QUANTIZATION,
    QUANTIZED_MODEL,
)
from firmwright.pipeline.job import Job
from firmwright.pipeline.samples import read_real_samples
from firmwright.pipeline.stage import Scope, Stage

from .calibration import quantize_options


def options(job: Job) -> Any:
    """Return the recipe's options, without the names of files: the calibration has digests."""
    data = asdict(quantize_options(job))
    del data["calibration"]["inputs"]
    return data


def inputs(job: Job) -> list[Path]:
    quantize = job.recipe.quantize
    return job.recipe.list_files("quantize") if quantize and quantize.sees_samples else []


def run(job: Job, folder: Path) -> None:
    """Write ``model.onnx`` (QDQ), ``model.json``, ``module.json`` and ``quantization.json``.

    In shift arithmetic also ``model.relax``, which then is the network's definition.
    """
    import onnx
    import tvm

    from firmwright.ir.records import read_arrays, read_record, write_record
    from firmwright.ir.tensors import ModelInterface
    from firmwright.models.onnx import importer
    from firmwright.quantize.calibration import CalibrationRecord, unpack_distributions
    from firmwright.quantize.description import describe_quantization
    from firmwright.quantize.engine import quantize
    from firmwright.quantize.integer_io import add_quant_params, remove_float_io
    from firmwright.quantize.shift_arithmetic import make_shift_network

    wanted = quantize_options(job)
    source = read_record(job.folder("model") / "model.json", ModelInterface)
    stage = job.folder("calibration")
    calibration = read_record(stage / "calibration.json", CalibrationRecord)
    arrays = read_arrays(stage / "distributions.npz")
    distributions = unpack_distributions(calibration.tensors, arrays)
    model = onnx.load(stage / "prepared.onnx")
    samples = []
    if wanted.sees_samples:
        given = wanted.calibration
        assert given.inputs is not None
        samples = read_real_samples(job, source.inputs, given.inputs, given.samples)
    model = quantize(model, distributions, wanted, samples)
    record = describe_quantization(model, distributions, calibration, wanted)
    grids = remove_float_io(model) if wanted.io == "integer" else {}
    data = model.SerializeToString(deterministic=True)
    module, interface = importer.import_model(data, "the quantized model", {})
    (folder / "model.onnx").write_bytes(data)
    if wanted.arithmetic == "shift":
        module, interface = make_shift_network(module, interface)
        (folder / "model.relax").write_text(tvm.ir.save_json(module), encoding="utf-8")
    (folder / "module.json").write_text(tvm.ir.save_json(module), encoding="utf-8")
    write_record(folder / "model.json", add_quant_params(interface, grids))
    write_record(folder / "quantization.json", record)
    for note in record.notes:
        print(f"   quantize: {note}")


STAGE = Stage(
    name="quantized",
    sentence="quantize the network",
    run="firmwright.tasks.quantized:run",
    reads=(MODEL_INTERFACE, CALIBRATION, DISTRIBUTIONS, PREPARED_MODEL),
    writes=(QUANTIZED_MODEL, QUANTIZATION),
    options=options,
    inputs=inputs,
    applies=lambda job: job.recipe.quantize,
    scope=Scope.MODEL,
    archive=QUANTIZATION.pack,
)
