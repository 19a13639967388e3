"""Operators that ONNX Runtime's optimizer fused are quantized as the original operators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import quantize_dynamic

from firmwright.errors import UserError
from firmwright.ir.tensors import Tensor
from firmwright.models.onnx.export import PER_CHANNEL_OPSET
from firmwright.models.onnx.importer import run_reference
from firmwright.quantize.calibration import calibrate
from firmwright.quantize.float_graph import prepare
from firmwright.quantize.qdq_graph import quantize
from tests.networks.encoders import HIDDEN, LENGTH, make_fused_encoder, make_samples
from tests.networks.firmware import SANITIZED, run_generated

from .networks import options

INPUTS = [Tensor("x", (1, LENGTH, HIDDEN), "float32"), Tensor("mask", (1, LENGTH), "int64")]


def test_the_prepared_graph_is_of_onnx_alone(tmp_path: Path) -> None:
    data = make_fused_encoder(tmp_path).SerializeToString()
    model, samples = prepare(data, INPUTS, PER_CHANNEL_OPSET), make_samples(4)
    assert {n.domain for n in model.graph.node} <= {"", "ai.onnx"}
    names = [n.name for n in model.graph.node]
    assert len(names) == len(set(names))
    found = run_reference(model.SerializeToString(), samples).outputs
    expected = run_reference(data, samples).outputs
    np.testing.assert_allclose(np.stack(found), np.stack(expected), 0, 1e-5)


@pytest.mark.needs("gcc")
def test_the_quantized_network_is_exact_and_near(tmp_path: Path) -> None:
    data = make_fused_encoder(tmp_path).SerializeToString()
    samples = make_samples(8)
    model = prepare(data, INPUTS, PER_CHANNEL_OPSET)
    quantized = quantize(model, calibrate(model, samples), options(), samples)
    written = quantized.SerializeToString()
    found = np.stack(run_generated(written, samples[:2], tmp_path, SANITIZED))
    expected = np.stack(run_reference(written, samples[:2]).outputs)
    np.testing.assert_allclose(found, expected, 0, 1e-5)
    exact = np.stack(run_reference(data, samples[:2]).outputs)
    assert np.square(exact).sum() / np.square(found - exact).sum() > 10**2.5  # 25 dB


def test_what_is_quantized_already_is_refused(tmp_path: Path) -> None:
    make_fused_encoder(tmp_path)
    quantize_dynamic(
        tmp_path / "encoder.onnx", tmp_path / "q.onnx", extra_options={"DefaultTensorType": 1}
    )
    with pytest.raises(UserError, match="the model is already quantized: it has Dequantize"):
        prepare((tmp_path / "q.onnx").read_bytes(), INPUTS, PER_CHANNEL_OPSET)


def test_a_model_that_cannot_be_taken_to_a_later_operator_set_says_so(tmp_path: Path) -> None:
    model = make_fused_encoder(tmp_path)
    model.graph.node[0].op_type = "Nonsense"
    with pytest.raises(UserError, match="cannot be converted to operator set 20"):
        prepare(model.SerializeToString(), INPUTS, PER_CHANNEL_OPSET)
