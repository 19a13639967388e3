"""MLPerf Tiny's networks in shift arithmetic: the CPU's C equals numpy bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm

from firmwright.ir.relax import main_bindings, operator_name
from tests.lowering.test_tflite_networks import NETWORKS
from tests.networks.firmware import run_generated

from .reference import evaluated
from .shift_networks import network_samples, shifted_network

COUNT = 12


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("network", NETWORKS)
def test_c_equals_numpy(network: str, tmp_path: Path) -> None:
    module, _, _ = shifted_network(network)
    samples = network_samples(network, COUNT)
    found = run_generated(tvm.ir.save_json(module).encode(), samples, tmp_path, (), "relax")
    for sample, outputs in zip(samples, found, strict=True):
        np.testing.assert_array_equal(outputs[0], evaluated(module, sample)[0])
    assert len({outputs[0].tobytes() for outputs in found}) > 2


@pytest.mark.parametrize("network", NETWORKS)
def test_every_layer_shifts(network: str) -> None:
    module, _, _ = shifted_network(network)
    float_operators = [
        operator_name(b.value)
        for b in main_bindings(module)
        if "float" in str(getattr(b.var.ty, "dtype", ""))
    ]
    assert float_operators in ([], ["relax.dequantize", "relax.nn.softmax"])
