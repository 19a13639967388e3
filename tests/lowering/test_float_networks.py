"""Float networks agree with LiteRT and ONNX Runtime to single precision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmwright.data.samples import random_samples
from firmwright.models import format_of
from tests.lowering.test_tflite_networks import mirrored
from tests.networks.firmware import run_generated

pytestmark = pytest.mark.needs("gcc")

NETWORKS = (
    "pretrainedResnet_float.tflite",
    "vww_96_float.tflite",
    "ad01_fp32.tflite",
    "resnet8_float.onnx",
    "vww_96_float.onnx",
)


@pytest.mark.parametrize("network", NETWORKS)
def test_the_network_agrees(network: str, tmp_path: Path) -> None:
    data = mirrored(network).read_bytes()
    model_format = format_of(network, None)
    importer = model_format.load()
    given = random_samples(importer.import_model(data, network, {})[1].inputs, 4, seed=1)
    samples = [dict(s) for s in given]
    found = run_generated(data, samples, tmp_path, ("-O1",), model_format.name)
    wanted = importer.run_reference(data, given).outputs
    for ours, theirs in zip(found, wanted, strict=True):
        for mine, reference in zip(ours, theirs, strict=True):
            scale = np.abs(reference).max()
            np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=1e-6 * scale)
