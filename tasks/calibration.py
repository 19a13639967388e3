"""calibration: how far the values of each tensor of a float network reach on real samples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.recipe.quantization import QuantizeOptions

from .jobs import Job
from .samples import read_samples, sample_files
from .stage import Stage

if TYPE_CHECKING:
    from firmwright.models import ModelInterface


def quantize_options(job: Job) -> QuantizeOptions:
    options = job.recipe.quantize
    assert options is not None  # the stage is left out of other recipes
    return options


def options(job: Job) -> Any:
    quantize = quantize_options(job)
    return {
        "inputs": job.recipe.canonical()["quantize"]["calibration"]["inputs"],
        "samples": quantize.calibration.samples,
        "equalize": quantize.equalize,
        "sixteen_bit": quantize.sixteen_bit,
    }


def inputs(job: Job) -> list[Path]:
    return sample_files(job, quantize_options(job).calibration.inputs)


def float_network(job: Job, interface: ModelInterface) -> bytes:
    """Return the model as ONNX: the file itself, or what was imported from another format."""
    import tvm

    from firmwright.quantize.export import exported
    from firmwright.transforms import CANONICAL

    stage = job.folder("model")
    if interface.format == "onnx":
        return (stage / "model.onnx").read_bytes()
    module = tvm.ir.load_json((stage / "module.json").read_text(encoding="utf-8"))
    for transform in CANONICAL:
        module = transform.apply(module)
    return exported(module, interface)


def run(job: Job, folder: Path) -> None:
    """Write ``prepared.onnx``, ``calibration.json`` and ``distributions.npz``."""
    from firmwright.models import ModelInterface
    from firmwright.quantize.calibration import (
        CalibrationRecord,
        calibrate,
        stored_distributions,
    )
    from firmwright.quantize.equalisation import equalised
    from firmwright.quantize.graph import INT16_OPSET, PER_CHANNEL_OPSET, prepared
    from firmwright.quantize.samples import sample_digest
    from firmwright.records import read_record, write_arrays, write_record

    quantize = quantize_options(job)
    interface = read_record(job.folder("model") / "model.json", ModelInterface)
    data = float_network(job, interface)
    opset = INT16_OPSET if quantize.sixteen_bit else PER_CHANNEL_OPSET
    model = prepared(data, interface.inputs, opset)
    if quantize.equalize:
        model = equalised(model)
    calibration = quantize.calibration
    samples = read_samples(job, interface.inputs, calibration.inputs, calibration.samples)
    if len(samples) == 1:
        print("   calibration: a single sample: what it does not show is clamped")
    found = calibrate(model, samples)
    (folder / "prepared.onnx").write_bytes(model.SerializeToString(deterministic=True))
    write_arrays(folder / "distributions.npz", stored_distributions(found))
    digests = tuple(sample_digest(s) for s in samples)
    write_record(folder / "calibration.json", CalibrationRecord(digests, tuple(sorted(found))))


STAGE = Stage(
    name="calibration",
    sentence="see how far each tensor's values reach",
    needs=("model",),
    code=(
        "quantize/graph.py",
        "quantize/calibration.py",
        "quantize/equalisation.py",
        "quantize/export.py",
        "transforms",
        "quantize/samples.py",
        "verify/samples.py",
        "data",
        "user_code.py",
        "records.py",
    ),
    options=options,
    inputs=inputs,
    run=run,
)
