"""MLPerf Tiny's networks in Deeploy's dialect, compared with their integers in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmwright.compile import compile_network
from firmwright.models.onnx.importer import import_model
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.transforms.integers.stated_ranges import round_inputs
from firmwright.verify.protocol import decode_outputs
from tests.networks.deeploy_models import NETWORKS
from tests.networks.firmware import executed

ACCELERATED = {
    "AnomalyDetection": 10,
    "ImageClassification": 10,
    "KeywordSpotting": 9,
    "VisualWakeWords": 28,
}
"""The layers on DIANA's accelerator, if all factors are 1."""


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("target", ["c", "soma_dory, c"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_firmware_returns_the_integers(name: str, target: str, tmp_path: Path) -> None:
    shifts = target != "c"
    data, sample, expected = NETWORKS[name](shifts)
    module, interface = import_model(data, name, {})
    limits = (-128, 127) if shifts else (0, 255)
    mix = load_mix(parse_target(target), load_platform("host"), "onnx")
    network = compile_network(round_inputs(module, [limits]), interface, mix)
    devices = [region.device for region in network.partition.regions]
    assert devices.count("soma_dory") == (ACCELERATED[name] if shifts else 0)
    assert not any(kernel.float_operators for kernel in network.kernels.kernels)

    ran = executed(network, [{"input": sample.astype("float32")}], tmp_path)
    (found,), *_ = decode_outputs(ran.console, network.interface.outputs, 1, ran.exit_code)
    np.testing.assert_array_equal(found, expected)
