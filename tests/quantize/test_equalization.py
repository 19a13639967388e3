"""Cross-layer equalization changes weights, not results."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from firmwright.quantize.calibration import calibrate
from firmwright.quantize.equalization import equalize_layers, find_pairs
from firmwright.quantize.float_graph import evaluate
from firmwright.quantize.qdq_graph import quantize

from .networks import graph_of, options, ready, residual_network, samples


def uneven_network(seed: int = 3) -> bytes:
    """Three convolutions, the second one depthwise, with channels of very different size."""
    make = np.random.default_rng(seed)
    spread = 10.0 ** make.uniform(-2, 2, (8, 1, 1, 1))
    constants = {
        "a_w": (make.normal(0, 1, (8, 3, 3, 3)) * spread).astype("float32"),
        "a_b": make.normal(0, 1, 8).astype("float32"),
        "b_w": (make.normal(0, 1, (8, 1, 3, 3)) / spread).astype("float32"),
        "c_w": make.normal(0, 1, (5, 8, 8, 8)).astype("float32"),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "a_w", "a_b"], ["a_sum"], "a", pads=[1] * 4),
        node("Relu", ["a_sum"], ["a_out"], "a_relu"),
        node("Conv", ["a_out", "b_w"], ["b_out"], "b", pads=[1] * 4, group=8),
        node("Conv", ["b_out", "c_w"], ["c_out"], "c"),
        node("Flatten", ["c_out"], ["y"], "flatten"),
    ]
    return graph_of(nodes, constants, 5)


def reach(model: onnx.ModelProto, name: str, axis: int) -> np.ndarray:
    array = next(onnx.numpy_helper.to_array(i) for i in model.graph.initializer if i.name == name)
    rows = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
    return np.asarray(np.abs(rows).max(axis=1))


def test_results_stay_and_ranges_meet() -> None:
    model = ready(uneven_network())
    even = equalize_layers(model)
    for before, after in zip(evaluate(model, samples(4)), evaluate(even, samples(4)), strict=True):
        assert np.allclose(
            before["y"], after["y"], rtol=1e-4, atol=1e-4 * np.abs(before["y"]).max()
        )
    assert np.ptp(np.log10(reach(model, "a_w", 0))) > 1
    assert np.allclose(reach(even, "a_w", 0), reach(even, "b_w", 0), rtol=0.05)
    assert np.allclose(reach(even, "b_w", 0), reach(even, "c_w", 1), rtol=0.05)


def test_what_others_read_is_no_pair() -> None:
    # The sum also reads stem_out, and a factor cannot move past ReLU6.
    assert list(find_pairs(ready(residual_network()))) == []


def test_weights_of_4_bits_are_equalized_and_their_biases_corrected() -> None:
    """Channels of very different size need more than 4 bits if they share a scale."""
    model = ready(uneven_network(), True)
    wanted = np.stack([found["y"] for found in evaluate(model, samples(8, seed=7))])

    def measure(network: onnx.ModelProto, correct: bool) -> float:
        chosen = options(
            weights="int4", per_channel=False, compensate_rounding=True, bias_correction=correct
        )
        narrow = quantize(network, calibrate(network, samples(24)), chosen, samples(24))
        found = np.stack([each["y"] for each in evaluate(narrow, samples(8, seed=7))])
        return float(np.square(found - wanted).mean())

    plain, even = measure(model, False), measure(equalize_layers(model), False)
    corrected = measure(equalize_layers(model), True)
    assert even < plain / 4 and corrected < even
