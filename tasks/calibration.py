"""calibration: how far the values of each tensor of a float network reach on real samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.errors import UserError
from firmwright.pipeline.artifacts import (
    CALIBRATION,
    DISTRIBUTIONS,
    MODEL_INTERFACE,
    MODEL_MODULE,
    PREPARED_MODEL,
)
from firmwright.pipeline.job import Job
from firmwright.pipeline.samples import read_real_samples
from firmwright.pipeline.stage import Scope, Stage
from firmwright.recipe.quantization import QuantizeOptions

if TYPE_CHECKING:
    from firmwright.ir.tensors import ModelInterface, Tensor
    from firmwright.quantize.ranges import Interval


@dataclass(frozen=True)
class FloatModel:
    """The network as ONNX, and the ranges by tensor that it stated if it was quantized before."""

    data: bytes
    inputs: Sequence[Tensor]
    ranges: Mapping[str, Interval] | None


def quantize_options(job: Job) -> QuantizeOptions:
    options = job.recipe.quantize
    assert options is not None  # the stage is left out of other recipes
    return options


def options(job: Job) -> Any:
    quantize = quantize_options(job)
    return {
        "inputs": job.recipe.canonical["quantize"]["calibration"]["inputs"],
        "samples": quantize.calibration.samples,
        "equalize": quantize.equalize,
        "restore": quantize.arithmetic == "shift",
        "sixteen_bit": quantize.sixteen_bit,
    }


def inputs(job: Job) -> list[Path]:
    return job.recipe.list_files("quantize")


def export_float_model(job: Job, interface: ModelInterface) -> FloatModel:
    """Return the model as ONNX: the file itself, or what was imported from another format.

    A quantized model is made a float one first.
    """
    import tvm

    from firmwright.compile import prepare_module
    from firmwright.models.onnx.export import export_onnx
    from firmwright.quantize.restore import is_quantized, restore_float

    stage = job.folder("model")
    module = tvm.ir.load_json((stage / "module.json").read_text(encoding="utf-8"))
    again = quantize_options(job).arithmetic == "shift" and is_quantized(module)
    if interface.format == "onnx" and not again:
        return FloatModel((stage / "model.onnx").read_bytes(), interface.inputs, None)
    module = prepare_module(module, {"FoldBatchNorm"})
    if not again:
        return FloatModel(export_onnx(module, interface), interface.inputs, None)
    found = restore_float(module, interface)
    return FloatModel(
        export_onnx(found.module, found.interface), found.interface.inputs, found.ranges
    )


def run(job: Job, folder: Path) -> None:
    """Write ``prepared.onnx``, ``calibration.json`` and ``distributions.npz``."""
    from firmwright.ir.records import read_record, write_arrays, write_record
    from firmwright.ir.tensors import ModelInterface
    from firmwright.models.onnx.export import INT16_OPSET, PER_CHANNEL_OPSET
    from firmwright.quantize.calibration import (
        CalibrationRecord,
        calibrate,
        pack_distributions,
    )
    from firmwright.quantize.equalization import equalize_layers
    from firmwright.quantize.graph import prepare
    from firmwright.quantize.model_ranges import infer_distributions
    from firmwright.quantize.samples import sample_digest

    quantize = quantize_options(job)
    interface = read_record(job.folder("model") / "model.json", ModelInterface)
    network = export_float_model(job, interface)
    opset = INT16_OPSET if quantize.sixteen_bit else PER_CHANNEL_OPSET
    model = prepare(network.data, network.inputs, opset)
    if quantize.equalize:
        model = equalize_layers(model)
    calibration = quantize.calibration
    samples = []
    if calibration.inputs is None:
        if network.ranges is None:
            raise UserError(
                "quantize: calibration.method: model: the model is not quantized, so it states no "
                "ranges; give samples (`calibration: {inputs: …}`)"
            )
        found = infer_distributions(model, network.ranges)
    else:
        given = calibration.inputs, calibration.samples
        samples = read_real_samples(job, interface.inputs, *given)
        found = calibrate(model, samples)
    if len(samples) == 1:
        print("   calibration: a single sample: what it does not show is clamped")
    if network.ranges is not None:
        print("   calibration: the model is quantized; its weights are put on other grids")
    (folder / "prepared.onnx").write_bytes(model.SerializeToString(deterministic=True))
    write_arrays(folder / "distributions.npz", pack_distributions(found))
    digests = tuple(sample_digest(s) for s in samples)
    write_record(folder / "calibration.json", CalibrationRecord(digests, tuple(sorted(found))))


STAGE = Stage(
    name="calibration",
    sentence="see how far each tensor's values reach",
    run="firmwright.tasks.calibration:run",
    reads=(MODEL_INTERFACE, MODEL_MODULE),
    writes=(CALIBRATION, DISTRIBUTIONS, PREPARED_MODEL),
    options=options,
    inputs=inputs,
    applies=lambda job: job.recipe.quantize,
    scope=Scope.MODEL,
)
