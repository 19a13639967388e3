"""A complete network as ONNX Runtime's optimizer of transformers writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import quantize_dynamic

from firmwright.models.onnx.importer import run_reference
from tests.networks.encoders import make_encoder, make_fused_encoder, make_samples
from tests.networks.firmware import run_generated

pytestmark = pytest.mark.needs("gcc")

FUSED = {"Attention", "BiasGelu", "SkipLayerNormalization"}


def test_an_optimized_network_is_the_one_before(tmp_path: Path) -> None:
    model, samples = make_fused_encoder(tmp_path), make_samples(3)
    assert {n.op_type for n in model.graph.node if n.domain == "com.microsoft"} == FUSED
    data = model.SerializeToString()
    plain = run_reference(make_encoder().SerializeToString(), samples).outputs
    expected = run_reference(data, samples)
    assert expected.runtime.startswith("onnxruntime")
    found = run_generated(data, samples, tmp_path)
    np.testing.assert_allclose(np.stack(found), np.stack(expected.outputs), 0, 1e-5)
    np.testing.assert_allclose(np.stack(found), np.stack(plain), 0, 1e-5)


def test_what_the_dynamic_quantizer_makes_of_it_is_within_a_step(tmp_path: Path) -> None:
    make_fused_encoder(tmp_path)
    quantize_dynamic(
        tmp_path / "encoder.onnx", tmp_path / "q.onnx", extra_options={"DefaultTensorType": 1}
    )
    data = (tmp_path / "q.onnx").read_bytes()
    assert b"QAttention" in data
    samples = make_samples(3)
    found = run_generated(data, samples, tmp_path)
    expected = run_reference(data, samples).outputs
    np.testing.assert_allclose(np.stack(found), np.stack(expected), 0, 1e-3)
