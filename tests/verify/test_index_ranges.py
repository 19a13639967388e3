"""Random integers are indices that the model's runtime accepts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from firmwright.data.samples import random_samples
from firmwright.models import FORMATS
from firmwright.verify.network_values import describe_values
from tests.conformance.case import cases
from tests.hammer.networks import MADE
from tests.networks.onnx_models import graph, node, value

INT64 = TensorProto.INT64
SAMPLES = 20


def assert_accepted(data: bytes, format_name: str = "onnx") -> dict[str, Any]:
    """Run the reference on random samples; return the ranges from which they were drawn."""
    importer = FORMATS[format_name].load()
    module, interface = importer.import_model(data, "test model", {})
    ranges = dict(describe_values(module, interface).ranges)
    samples = [dict(s) for s in random_samples(interface.inputs, SAMPLES, 0, ranges)]
    assert importer.run_reference(data, samples).outputs
    return ranges


EXPECTED = {
    "gather": (0, 2),
    "gather_elements": (0, 4),
    "gather_nd": (0, 2),
    "gather_nd of batches": (0, 2),
    "reverse_sequence": (1, 4),
    "roi_align": (0, 1),
    "roi_align of pixels": (0, 1),
    "scatter_elements": (0, 4),
    "scatter_elements add": (0, 4),
    "scatter_nd": (0, 3),
    "scatter_nd of rows": (0, 4),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_indices_of_onnx(name: str) -> None:
    ranges = assert_accepted(MADE[name].load())
    assert ranges["b" if "roi" in name else "i"] == EXPECTED[name]


def test_floats_that_become_indices() -> None:
    assert assert_accepted(MADE["gather of floats"].load())["x"] == (0, 6)


@pytest.mark.parametrize("name", [n for n in MADE if n.startswith("tflite") and "_" in n])
def test_indices_of_tflite(name: str) -> None:
    assert set(assert_accepted(MADE[name].load(), "tflite").values()) <= {(0, 2), (0, 4), (1, 4)}


CASES = {
    "test_ai_onnx_ml_array_feature_extractor": (0, 3),
    "test_maxunpool_export_without_output_shape": (0, 15),
    "test_tensorscatter": (0, 3),
}


@pytest.mark.parametrize("name", CASES)
def test_indices_behind_other_operators(name: str) -> None:
    model = cases()[name].model
    assert CASES[name] in assert_accepted(model.SerializeToString()).values()


def test_an_index_from_the_end_and_sums_of_indices() -> None:
    nodes = [
        node("Cast", ["i"], ["wide"], to=INT64),
        node("Identity", ["wide"], ["same"]),
        node("Unsqueeze", ["same", "axis"], ["column"]),
        node("Add", ["column", "steps"], ["window"]),
        node("Gather", ["x", "window"], ["y"]),
    ]
    inputs = [value("x", [9]), value("i", [2], TensorProto.INT32)]
    constants = {"axis": np.array([1]), "steps": np.array([[0, 1, 3]])}
    model = graph(nodes, inputs, [value("y", [2, 3])], constants)
    assert assert_accepted(model.SerializeToString())["i"] == (0, 5)


def test_classes_of_a_one_hot_encoding() -> None:
    nodes = [node("OneHot", ["i", "depth", "values"], ["y"])]
    constants = {"depth": np.array(5), "values": np.array([0.0, 1.0], "float32")}
    model = graph(nodes, [value("i", [3], INT64)], [value("y", [3, 5])], constants)
    assert assert_accepted(model.SerializeToString())["i"] == (0, 4)
