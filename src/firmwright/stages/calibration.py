"""Runs the stage ``calibration``: measures each tensor's range of values on real samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from firmwright.compile import prepare_module
from firmwright.data.samples import sample_digest
from firmwright.errors import UserError
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.models.onnx.export import NEWER_TYPES_OPSET, PER_CHANNEL_OPSET
from firmwright.models.onnx.float_export import export_onnx
from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.pipeline.recipe_samples import read_real_samples
from firmwright.pipeline.stage_options import require
from firmwright.quantize.calibration import CalibrationRecord, calibrate, pack_distributions
from firmwright.quantize.channel_factors import convolve_factors
from firmwright.quantize.equalization import equalize_layers
from firmwright.quantize.float_graph import prepare
from firmwright.quantize.masks import bound_masks
from firmwright.quantize.param_choice import Interval
from firmwright.quantize.restore import infer_distributions, is_quantized, restore_float


@dataclass(frozen=True)
class FloatModel:
    """The network as ONNX, and the range of each tensor if the model is quantized."""

    data: bytes
    inputs: Sequence[Tensor]
    ranges: Mapping[str, Interval] | None


def export_float_model(job: Job, interface: ModelInterface) -> FloatModel:
    """Return the model as ONNX: the ONNX file, or an export of an imported model.

    A quantized model is first converted to a float model.
    """
    module = artifacts.MODEL_MODULE.read(job)
    again = require(job.recipe.quantize).accepts_quantized and is_quantized(module)
    if interface.format == "onnx" and not again:
        return FloatModel((job.folder("model") / "model.onnx").read_bytes(), interface.inputs, None)
    module = prepare_module(module, {"FoldBatchNorm"})
    if not again:
        return FloatModel(export_onnx(module, interface), interface.inputs, None)
    restored = restore_float(module, interface)
    return FloatModel(
        export_onnx(restored.module, restored.interface), restored.interface.inputs, restored.ranges
    )


def run(job: Job, folder: Path) -> None:
    """Write ``prepared.onnx``, ``calibration.json`` and ``distributions.npz``."""
    quantize = require(job.recipe.quantize)
    calibration = quantize.calibration
    interface = artifacts.MODEL_INTERFACE.read(job)
    if interface.states:
        raise UserError(
            f"quantize: the network keeps a state ('{interface.states[0].tensor.name}'), and "
            "calibration needs independent samples; quantize the model first"
        )
    network = export_float_model(job, interface)
    opset = NEWER_TYPES_OPSET if quantize.has_newer_types else PER_CHANNEL_OPSET
    model = prepare(network.data, network.inputs, opset)
    if quantize.per_channel:  # a scale per tensor would lose the small factors
        model = convolve_factors(model)
    samples = []
    if calibration.inputs is not None:
        given = calibration.inputs, calibration.samples
        samples = read_real_samples(job, interface.inputs, *given)
    model = bound_masks(model, samples)
    if quantize.equalize:
        model = equalize_layers(model)
    if calibration.inputs is None:
        if network.ranges is None:
            raise UserError(
                "quantize: calibration.method: model: the model is not quantized, so it states no "
                "ranges; add samples (`calibration: {inputs: …}`)"
            )
        distributions = infer_distributions(model, network.ranges)
    else:
        distributions = calibrate(model, samples)
    if len(samples) == 1:
        job.note(
            "calibration: the only sample defines all ranges, and the firmware clamps values "
            "outside of these ranges; add samples"
        )
    if network.ranges is not None:
        job.note("calibration: the model is quantized; its weights are quantized again")
    (folder / artifacts.PREPARED_MODEL.file).write_bytes(
        model.SerializeToString(deterministic=True)
    )
    artifacts.DISTRIBUTIONS.write(folder, pack_distributions(distributions))
    digests = tuple(sample_digest(s) for s in samples)
    artifacts.CALIBRATION.write(folder, CalibrationRecord(digests, tuple(sorted(distributions))))
