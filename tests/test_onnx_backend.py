"""ONNX's runner of backend tests runs generated C."""

from __future__ import annotations

import unittest

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.backend.test import BackendTest

from firmwright.errors import UserError
from firmwright.onnx_backend import FirmwrightBackend

CASES = ("add", "conv_with_strides_padding", "qlinearconv", "argmax_keepdims_example")


def test_the_runner_of_onnx_takes_the_backend() -> None:
    tests = BackendTest(FirmwrightBackend, __name__)
    for name in CASES:
        tests.include(f"^test_{name}_c")
    result = unittest.TestResult()
    tests.test_suite.run(result)
    assert not result.errors
    assert not result.failures
    assert result.testsRun - len(result.skipped) == len(CASES)


def test_one_operator_runs_on_arrays() -> None:
    node = helper.make_node("Mul", ["a", "b"], ["c"])
    (product,) = FirmwrightBackend.run_node(node, [np.array([1, 2], "f4"), np.array([3, 4], "f4")])
    np.testing.assert_array_equal(product, np.array([3, 8], "f4"))


def test_what_cannot_be_compiled_is_told() -> None:
    graph = helper.make_graph(
        [helper.make_node("NonZero", ["x"], ["y"])],
        "places",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [1, "n"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    assert not FirmwrightBackend.is_compatible(model)
    with pytest.raises(UserError, match="output 'y' of NonZero"):
        FirmwrightBackend.prepare(model)
    assert not FirmwrightBackend.supports_device("CUDA")
