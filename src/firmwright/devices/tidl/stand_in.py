"""Quantizes float regions with firmwright's quantization, as a stand-in for TIDL's quantization.

TIDL and the stand-in calibrate a region on the tensors at its border. The stand-in uses the bits
and the kind of scales in the options of TIDL. The two results still differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import tvm
from tvm import relax

from firmwright.compile import prepare_module
from firmwright.devices.tidl.artifacts import TidlNetwork
from firmwright.devices.tidl.build_artifacts import read_batch_size, read_regions
from firmwright.devices.tidl.options import SCALE_TYPE, TidlOptions
from firmwright.devices.tidl.region_tensors import Array, compute_tensors, join_regions
from firmwright.devices.tidl.scale_facts import is_float
from firmwright.devices.tidl.submodel import SubModel, export_sub_model
from firmwright.errors import UserError
from firmwright.ir.regions import Region
from firmwright.ir.relax import set_functions
from firmwright.models.onnx import importer
from firmwright.models.onnx.export import NEWER_TYPES_OPSET, PER_CHANNEL_OPSET
from firmwright.partition.grouping import Group
from firmwright.partition.outline import keep_tir, outline, read_graph
from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.quantize.calibration import calibrate
from firmwright.quantize.float_graph import prepare
from firmwright.quantize.qdq_graph import quantize
from firmwright.recipe.quantize_keys import CalibrationOptions, KeepFloat, QuantizeOptions


def run(job: Job, folder: Path) -> None:
    """Write the regions, and the network of these regions if any region is quantized."""
    partition, module = artifacts.PARTITION.read(job), artifacts.REGIONS.read(job)
    floats = [r for r in partition.regions if r.device == "tidl" and is_float(module[r.name])]
    if floats:
        network = read_regions(job, read_batch_size(job) or 1)
        if network.options.number("tensor_bits") != 32:
            module = quantize_regions(network, floats)
            whole = join_regions(module, partition, partition.regions, partition.outputs)
            artifacts.LOWERED_MODEL.write(folder, relax.transform.InlinePrivateFunctions()(whole))
    artifacts.LOWERED.write(folder, module)


def quantize_regions(network: TidlNetwork, regions: Sequence[Region]) -> tvm.IRModule:
    """Return the network with quantized ``regions``, whose border tensors stay floats."""
    wanted = list(dict.fromkeys(tensor for region in regions for tensor in region.inputs))
    frames = list(compute_tensors(network.module, network.partition, network.samples, wanted))
    functions = {}
    for number, region in enumerate(regions):
        model = export_sub_model(network.function(region), number)
        names = [t.name for t in model.inputs]
        given = [
            dict(zip(names, (frame[t] for t in region.inputs), strict=True)) for frame in frames
        ]
        functions[region.name] = quantize_region(model, given, network.options)
    return set_functions(network.module, functions)


def quantize_region(
    model: SubModel, frames: Sequence[dict[str, Array]], options: TidlOptions
) -> relax.Function:
    asked = choose_options(options)
    opset = NEWER_TYPES_OPSET if asked.has_newer_types else PER_CHANNEL_OPSET
    prepared = prepare(model.data, model.inputs, opset)
    made: onnx.ModelProto = quantize(prepared, calibrate(prepared, frames), asked, frames)
    module, _ = importer.import_model(made.SerializeToString(deterministic=True), "tidl", {})
    return make_region(prepare_module(module))


def make_region(module: tvm.IRModule) -> relax.Function:
    """Return ``main`` as the function of a region, which returns a tuple."""
    if keep_tir(module).functions:
        names = ", ".join(sorted(v.name_hint for v in keep_tir(module).functions))
        raise UserError(
            f"target: tidl: no stand-in quantizes {names}; keep floats with tensor_bits=32"
        )
    bindings, outputs = read_graph(module)
    function, outside = outline(Group(bindings, read_outside=outputs))
    order = [outside.index(parameter) for parameter in module["main"].params]
    return relax.Function([function.params[i] for i in order], function.body, function.ret_ty)


def choose_options(options: TidlOptions) -> QuantizeOptions:
    """Return the options of firmwright's quantization that are nearest to the options of TIDL."""
    integers = f"int{options.number('tensor_bits')}"
    scale_type = options.number(SCALE_TYPE)
    level = options.number("accuracy_level")
    corrected = level == 1 or options.number("advanced_options:bias_calibration") == 1
    return QuantizeOptions(
        scheme="pow2" if scale_type == 1 else "affine",
        arithmetic="onnx",
        activations=integers,
        weights=integers,
        per_channel=scale_type == 4,
        symmetric=scale_type != 4,
        equalize=False,
        compensate_rounding=False,
        bias_correction=level != 0 and corrected,
        io="float32",
        calibration=CalibrationOptions("mse" if scale_type == 1 else "minmax", 99.99),
        layers=(),
        keep_float=KeepFloat((), ()),
    )
