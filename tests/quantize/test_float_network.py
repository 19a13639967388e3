"""The layers of the quantized network are compared with the float network."""

from __future__ import annotations

import numpy as np
import pytest

from firmwright.models.onnx.importer import import_model
from firmwright.quantize.calibration import calibrate
from firmwright.quantize.float_network import compare_with_float
from firmwright.quantize.integer_io import remove_float_io
from firmwright.quantize.qdq_graph import quantize

from .networks import options, ready, residual_network, samples


@pytest.mark.parametrize("io", ["integer", "float32"])
def test_what_a_layer_loses_is_against_its_inputs_also_the_network_s(io: str) -> None:
    float_model, given, wanted = ready(residual_network()), samples(8), options(io=io)
    quantized = quantize(float_model, calibrate(float_model, given), wanted, given)
    if io == "integer":
        remove_float_io(quantized)
    _, interface = import_model(quantized.SerializeToString(), "m", {})
    found = compare_with_float(float_model, quantized, interface, given, []).layers
    layers = {layer.layer: layer for layer in found}
    assert set(layers) == {"stem_relu", "dw_clip", "pw", "join", "pool", "flatten", "dense"}
    scale = (max(s["x"].max() for s in given) - min(s["x"].min() for s in given)) / 255
    energy = np.mean([np.square(s["x"]).mean() for s in given])
    input_snr = 10 * np.log10(energy / (scale**2 / 12))  # the noise of rounding
    first = layers["stem_relu"]
    assert first.signal.snr is not None
    assert first.lost == pytest.approx(input_snr - first.signal.snr, abs=0.5)
