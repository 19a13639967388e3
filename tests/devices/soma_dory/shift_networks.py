"""MLPerf Tiny's int8 networks in shift arithmetic, made once per session."""

from __future__ import annotations

import functools

import numpy as np
import tvm

from firmwright.data.arrays import dequantize_array, quantize_array
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.models.onnx import importer as onnx_importer
from firmwright.models.onnx.export import PER_CHANNEL_OPSET
from firmwright.models.onnx.float_export import export_onnx
from firmwright.models.tflite import importer as tflite
from firmwright.quantize.float_graph import prepare
from firmwright.quantize.integer_io import remove_float_io
from firmwright.quantize.qdq_graph import quantize
from firmwright.quantize.restore import infer_distributions, restore_float
from firmwright.quantize.shift_arithmetic import make_shift_network
from firmwright.transforms import canonicalize
from tests.lowering.test_tflite_networks import NETWORKS, mirrored, real_inputs
from tests.networks.firmware import Sample

from ...quantize.networks import options

OPTIONS = options(
    scheme="pow2", arithmetic="shift", per_channel=False, calibration={"method": "model"}
)


@functools.cache
def shifted_network(name: str) -> tuple[tvm.IRModule, ModelInterface, Tensor]:
    """Return one of NETWORKS, quantized by its own ranges, and the input of the original."""
    data = mirrored(NETWORKS[name]).read_bytes()
    module, interface = tflite.import_model(data, name, {})
    found = restore_float(canonicalize(module), interface)
    model = prepare(
        export_onnx(found.module, found.interface), found.interface.inputs, PER_CHANNEL_OPSET
    )
    quantized = quantize(model, infer_distributions(model, found.ranges), OPTIONS)
    remove_float_io(quantized)
    module, described = onnx_importer.import_model(quantized.SerializeToString(), name, {})
    return *make_shift_network(module, described), interface.inputs[0]


def network_samples(name: str, count: int) -> list[Sample]:
    """Return real inputs, quantized for the network, or random inputs if there are no recorded
    ones."""
    _, interface, original = shifted_network(name)
    (tensor,) = interface.inputs
    real = real_inputs(name)[:count]
    if real:
        given = [dequantize_array(array.reshape(tensor.shape), original) for array in real]
        return [{tensor.name: quantize_array(array, tensor)} for array in given]
    make = np.random.default_rng(1)
    return [{tensor.name: make.integers(-128, 128, tensor.shape, "int8")} for _ in range(count)]
