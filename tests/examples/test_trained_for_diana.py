"""The networks of examples/diana/trained produce the outputs that were recorded with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm

from firmwright.custom.code import load_custom_function
from firmwright.models.relax import importer as relax
from tests.lowering.test_tflite_networks import mirrored

FOLDER = Path(__file__).parents[2] / "examples/diana/trained"
COUNT = 40


@pytest.mark.parametrize(
    ("function", "inputs", "outputs", "least"),
    [
        ("resnet8", "image_classification_inputs", "resnet8_expected_outputs", 0.99),
        ("ds_cnn", "keyword_spotting_inputs", "dscnn_expected_outputs", 0.97),
    ],
)
def test_the_float_network_is_near_the_recorded_outputs(
    function: str, inputs: str, outputs: str, least: float
) -> None:
    given = np.load(mirrored(f"diana/{inputs}.npz"))["data"][:COUNT]
    recorded = np.load(mirrored(f"diana/{outputs}.npz"))["data"][:COUNT]
    with load_custom_function(f"networks:{function}", FOLDER) as make:
        data = tvm.ir.save_json(make()).encode()
    found = relax.run_reference(data, [{"data": x[None]} for x in given]).outputs
    scores = np.stack([output[0][0] for output in found])
    assert np.corrcoef(scores.ravel(), recorded.ravel())[0, 1] > least


def test_mobilenet_sees_larger_pictures_than_it_came_with() -> None:
    labels = np.load(mirrored("ic_160.npz"))["labels"][:COUNT]
    mirrored("diana/mobilenetv1_weights.npz")
    with load_custom_function("networks:enlarged_pictures", FOLDER) as make:
        given = make()[:COUNT]
    with load_custom_function("networks:mobilenetv1", FOLDER) as make:
        data = tvm.ir.save_json(make()).encode()
    found = relax.run_reference(data, [{"data": x[None]} for x in given]).outputs
    classes = np.array([output[0].argmax() for output in found])
    assert np.mean(classes == labels) > 0.7
