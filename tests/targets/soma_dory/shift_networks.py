"""MLPerf Tiny's int8 networks in shift arithmetic, made once a session."""

from __future__ import annotations

import functools

import numpy as np
import tvm

from firmwright.data.arrays import dequantised, on_grid
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.models.onnx import importer as onnx_importer
from firmwright.models.onnx.export import PER_CHANNEL_OPSET, exported
from firmwright.models.tflite import importer as tflite
from firmwright.quantize.engine import quantize
from firmwright.quantize.graph import prepared
from firmwright.quantize.integer_io import with_grids, without_float_io
from firmwright.quantize.restore import restored
from firmwright.quantize.shift_arithmetic import shift_network
from firmwright.quantize.stated_ranges import stated_distributions
from firmwright.transforms import CANONICAL

from ...quantize.networks import options
from ..firmware import Sample
from ..test_tflite_networks import NETWORKS, mirrored, real_inputs

OPTIONS = options(
    scheme="pow2", arithmetic="shift", per_channel=False, calibration={"method": "model"}
)


@functools.cache
def shifted_network(name: str) -> tuple[tvm.IRModule, ModelInterface, Tensor]:
    """Return one of NETWORKS, quantised by its own ranges, and the input of the original."""
    data = mirrored(NETWORKS[name]).read_bytes()
    module, interface = tflite.import_model(data, name, {})
    for transform in CANONICAL:
        module = transform.apply(module)
    found = restored(module, interface)
    model = prepared(
        exported(found.module, found.interface), found.interface.inputs, PER_CHANNEL_OPSET
    )
    quantised = quantize(model, stated_distributions(model, found.ranges), OPTIONS)
    grids = without_float_io(quantised)
    module, described = onnx_importer.import_model(quantised.SerializeToString(), name, {})
    return *shift_network(module, with_grids(described, grids)), interface.inputs[0]


def network_samples(name: str, count: int) -> list[Sample]:
    """Return real inputs on the network's grid; random ones where nobody has recorded any."""
    _, interface, original = shifted_network(name)
    (tensor,) = interface.inputs
    real = real_inputs(name)[:count]
    if real:
        given = [dequantised(array.reshape(tensor.shape), original) for array in real]
        return [{tensor.name: on_grid(array, tensor)} for array in given]
    make = np.random.default_rng(1)
    return [{tensor.name: make.integers(-128, 128, tensor.shape, "int8")} for _ in range(count)]
