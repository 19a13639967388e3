"""The four int8 networks of MLPerf Tiny equal LiteRT's reference kernels.

`tests.benchmarks.exactness` compares all 200 inputs of each network.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firmwright.models.tflite import importer as tflite
from tests.networks.firmware import Sample, lowered, random_samples, run_generated

pytestmark = pytest.mark.needs("gcc")

COUNT = 200

STEP = 4
"""A test compares every fourth input, because LiteRT's reference kernels are slow."""

NETWORKS = {
    "resnet8": "pretrainedResnet_quant.tflite",
    "kws": "kws_ref_model.tflite",
    "vww": "vww_96_int8.tflite",
    "ad": "ad01_int8.tflite",
}


def mirrored(name: str) -> Path:
    """Return a file of the folders with downloaded models; skip the test if it is missing."""
    folders = os.environ.get("FIRMWRIGHT_MIRROR", "").split(os.pathsep)
    found = [path for folder in folders if folder and (path := Path(folder) / name).is_file()]
    if not found:
        pytest.skip(f"FIRMWRIGHT_MIRROR names no folder with {name}")
    return found[0]


def real_inputs(network: str) -> list[npt.NDArray[Any]]:
    """Return the recorded inputs of two of the models."""
    if network == "resnet8":
        with np.load(mirrored("ic_160.npz")) as archive:
            return list((archive["images_u8"].astype("int16") - 128).astype("int8"))
    if network == "kws":
        with np.load(mirrored("kws_200.npz")) as archive:
            return list(archive["mfcc_i8"])
    return []


def samples(network: str, data: bytes) -> list[Sample]:
    """Return all recorded real inputs, and random inputs for the rest."""
    chosen = random_samples(data, COUNT, seed=1)
    for sample, real in zip(chosen, real_inputs(network), strict=False):
        (name,) = sample
        sample[name] = real.reshape(sample[name].shape)
    return chosen


@pytest.mark.parametrize("network", NETWORKS)
def test_the_network_is_exact(network: str, tmp_path: Path) -> None:
    data = mirrored(NETWORKS[network]).read_bytes()
    inputs = samples(network, data)[::STEP]
    found = run_generated(data, inputs, tmp_path)
    expected = tflite.run_reference(data, inputs).outputs
    exact = sum(
        np.array_equal(mine, theirs) for (mine,), (theirs,) in zip(found, expected, strict=True)
    )
    assert exact == len(inputs), f"{len(inputs) - exact} of {len(inputs)} samples differ"


@pytest.mark.parametrize("network", NETWORKS)
def test_no_float_is_left(network: str) -> None:
    kernels = lowered(mirrored(NETWORKS[network]).read_bytes()).kernels.kernels
    code = {k.region: f"{k.definitions}{k.body}" for k in kernels}
    assert [region for region, text in code.items() if "float" in text] == []
