"""The notes about a quantization."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto, helper

from firmwright.errors import UserError
from firmwright.quantize.calibration import CalibrationRecord, calibrate
from firmwright.quantize.description import describe_quantization
from firmwright.quantize.float_graph import evaluate
from firmwright.quantize.qdq_graph import quantize

from .networks import options, ready, residual_network, samples


def remarks(given: list[dict[str, Any]], **changes: Any) -> str:
    model, wanted = ready(residual_network()), options(**changes)
    seen = calibrate(model, given)
    quantized = quantize(model, seen, wanted)
    record = describe_quantization(
        quantized, seen, CalibrationRecord((), tuple(sorted(seen))), wanted
    )
    return "\n".join(record.notes)


def test_signs_that_a_type_has_no_room_for() -> None:
    given = samples(4)
    lowest = min(s["x"].min() for s in given)
    said = remarks(given, scheme="pow2", activations="uint8")
    assert f"tensor 'x' reaches down to {lowest:g}: uint8 with zero point 0" in said
    assert "stem_out" not in said  # a ReLU's result
    assert remarks(given, scheme="pow2") == ""
    assert remarks(given, activations="uint8") == ""


def test_network_of_which_nothing_is_quantized() -> None:
    assert "the network stays float32" in remarks(samples(4), keep_float={"layers": ["*"]})


def test_sample_that_the_network_cannot_compute() -> None:
    model = ready(residual_network())
    table = helper.make_tensor("table", TensorProto.FLOAT, [2], [0.5, 1.5])
    model.graph.initializer.append(table)
    number = helper.make_node("Cast", ["y"], ["number"], "cast", to=TensorProto.INT64)
    model.graph.node.extend(
        [number, helper.make_node("Gather", ["table", "number"], ["z"], "pick")]
    )
    far = [{"x": s["x"] * 1000} for s in samples(1)]
    with pytest.raises(UserError, match=r"rejects sample 0: .*Gather node.*out of data bounds"):
        list(evaluate(model, far, ["z"]))
