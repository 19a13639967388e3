"""Weights whose rounding errors compensate each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from firmwright.errors import UserError
from firmwright.ir.quant_params import QuantParams
from firmwright.quantize.calibration import calibrate
from firmwright.quantize.clusters import choose_clusters, round_to_values
from firmwright.quantize.float_graph import evaluate
from firmwright.quantize.qdq_graph import quantize
from firmwright.quantize.weight_rounding import (
    im2col,
    round_weights,
    round_with_compensation,
    rows_to_weights,
    weights_to_rows,
)

from .networks import Array, graph_of, options, ready, residual_network, samples

RANDOM = np.random.default_rng(5)
LAYERS: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("Conv", {"pads": [1, 0, 2, 1]}, (4, 3, 3, 2)),
    ("Conv", {"strides": [2, 3], "dilations": [2, 1]}, (4, 3, 3, 3)),
    ("Conv", {"group": 3, "auto_pad": "SAME_UPPER", "strides": [2, 2]}, (6, 1, 3, 3)),
    ("Conv", {"auto_pad": "SAME_LOWER", "strides": [3, 1]}, (4, 3, 4, 2)),
    ("Conv", {"auto_pad": "VALID"}, (4, 3, 8, 8)),
    ("Gemm", {}, (192, 4)),
    ("Gemm", {"transB": 1}, (4, 192)),
    ("MatMul", {}, (192, 4)),
]


@pytest.mark.parametrize(("kind", "attributes", "shape"), LAYERS, ids=lambda v: str(v))
def test_a_result_is_a_row_of_weights_times_its_inputs(
    kind: str, attributes: dict[str, Any], shape: tuple[int, ...]
) -> None:
    weights = RANDOM.normal(0, 1, shape).astype("float32")
    layer = helper.make_node(kind, ["x" if kind == "Conv" else "flat", "w"], ["y"], **attributes)
    nodes = [layer] if kind == "Conv" else [helper.make_node("Flatten", ["x"], ["flat"]), layer]
    model = onnx.load_model_from_string(graph_of(nodes, {"w": weights}, 4))
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    (found,) = evaluate(model, samples(1), [layer.input[0], "y"])
    rows = weights_to_rows(layer, weights)
    computed = rows @ im2col(layer, found[layer.input[0]], shape)
    results = np.moveaxis(found["y"], 1, 0).reshape(len(rows), rows.shape[1], -1)
    np.testing.assert_allclose(computed, results, rtol=1e-3, atol=1e-4)
    assert np.array_equal(rows_to_weights(layer, rows, shape), weights)


def test_errors_are_taken_back_where_inputs_go_together() -> None:
    shared = RANDOM.normal(0, 1, (1, 500))
    inputs = shared + RANDOM.normal(0, 0.1, (12, 500))
    weights, grid = RANDOM.normal(0, 1, (5, 12)), QuantParams("int8", 0.25, 0)
    found = round_with_compensation(weights, inputs @ inputs.T, [grid] * 5)
    assert np.array_equal(found, grid.fake_quantize(found))

    def error(rows: Array) -> float:
        return float(np.square((rows - weights) @ inputs).sum())

    assert error(found) < error(grid.fake_quantize(weights)) / 4


def test_a_constant_input_and_a_weight_at_the_end_of_its_grid() -> None:
    grid = QuantParams("int8", 0.01, 0)
    found = round_with_compensation(np.array([[5.0, 0.014]]), np.zeros((2, 2)), [grid])
    np.testing.assert_allclose(found, [[1.27, 0.01]])


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("compensate", [True, False])
def test_clustered_weights_have_few_values(per_channel: bool, compensate: bool) -> None:
    model, given = ready(residual_network()), samples(24)
    errors = []
    for weights, count in (("cluster4", 4), ("cluster8", 8), ("cluster16", 16)):
        chosen = options(weights=weights, per_channel=per_channel, compensate_rounding=compensate)
        quantized = quantize(model, calibrate(model, given), chosen, given)
        stored = {i.name: onnx.numpy_helper.to_array(i) for i in quantized.graph.initializer}
        for name in ("stem_w", "dense_w"):
            values = stored[f"{name}_quantized"]
            assert values.dtype == np.int8 and 2 < len(np.unique(values)) <= count
        found, wanted = (np.stack([f["y"] for f in evaluate(m, given)]) for m in (quantized, model))
        errors.append(float(np.square(found - wanted).sum()))
    assert errors[0] > errors[1] > errors[2]


def test_clusters_need_less_error_than_equal_steps() -> None:
    """Few of these weights are large, as in most networks."""
    weights = np.random.default_rng(0).laplace(0, 10, 4000).clip(-127, 127)
    clusters = choose_clusters(weights, "cluster16")
    assert clusters is not None and len(clusters) == 16
    params = QuantParams("int8", 1.0, 0)
    equal = np.rint(weights / 8.5).clip(-8, 7) * 8.5
    error = np.square(round_to_values(weights, params, clusters) - weights).sum()
    assert error < 0.6 * np.square(equal - weights).sum()
    assert list(choose_clusters(np.full(9, 3.2), "cluster4")) == [3]  # type: ignore[arg-type]


@pytest.mark.parametrize("per_channel", [True, False])
def test_the_integers_of_the_network_are_the_rounded_weights(per_channel: bool) -> None:
    model, given = ready(residual_network()), samples(24)
    chosen = options(scheme="pow2", per_channel=per_channel, compensate_rounding=True)
    quantized = quantize(model, calibrate(model, given), chosen, given)
    stored = {i.name: onnx.numpy_helper.to_array(i) for i in quantized.graph.initializer}
    integers, scales = stored["stem_w_quantized"], stored["stem_w_scale"].reshape(-1)
    grids = {"stem_w": [QuantParams("int8", float(s), 0) for s in scales]}
    kept = {
        i.name: onnx.numpy_helper.to_array(i)
        for i in round_weights(model, given, grids).graph.initializer
    }
    steps = kept["stem_w"] / scales.reshape(-1, 1, 1, 1)
    assert np.array_equal(integers, steps.astype("int8"))


def test_network_is_nearer_to_the_float_one() -> None:
    model, given, unseen = ready(residual_network()), samples(24), samples(64, seed=9)
    wanted = np.stack([found["y"] for found in evaluate(model, unseen)])
    errors = []
    for compensate in (False, True):
        chosen = options(
            scheme="pow2", per_channel=False, activations="int16", compensate_rounding=compensate
        )
        network = ready(residual_network(), newer_types=True)
        quantized = quantize(network, calibrate(network, given), chosen, given)
        found = np.stack([found["y"] for found in evaluate(quantized, unseen)])
        errors.append(np.square(found - wanted).sum())
    assert errors[1] < errors[0] / 2


def make_product(weights: Array) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["y"], "product"),
    ]
    return ready(graph_of(nodes, {"w": weights.astype("float32")}, 4), newer_types=True)


@pytest.mark.parametrize("compensated", [False, True])
def test_weights_in_blocks_are_multiples_of_factors(compensated: bool) -> None:
    """The ranges of the blocks differ, so one scale per channel has larger errors."""
    random = np.random.default_rng(0)
    ranges = np.full((12, 4), 0.1)
    ranges[0] = 1.0
    model = make_product(random.normal(0, 1, (192, 4)) * np.repeat(ranges, 16, axis=0))
    drawn, errors = samples(8), list[float]()
    for block in (None, 16):
        chosen = options(weights="int4", block=block, compensate_rounding=compensated)
        made = quantize(model, calibrate(model, drawn), chosen, drawn)
        pairs = zip(*(evaluate(each, drawn, ["y"]) for each in (model, made)), strict=True)
        errors.append(sum(float(np.square(a["y"] - b["y"]).sum()) for a, b in pairs))
    assert errors[1] < 0.8 * errors[0]
    stored = next(i for i in made.graph.initializer if i.name == "w_quantized")
    assert stored.data_type == onnx.TensorProto.INT8
    blocks = onnx.numpy_helper.to_array(stored).astype("int64").reshape(12, 16, 4)
    factors = np.maximum(np.gcd.reduce(blocks, axis=1), 1)
    assert (blocks.min(1) >= -8 * factors).all() and (blocks.max(1) <= 7 * factors).all()


def test_input_channels_that_are_not_a_multiple_of_the_block_are_rejected() -> None:
    model = make_product(RANDOM.normal(0, 1, (192, 4)))
    chosen = options(weights="int4", block=40)
    with pytest.raises(UserError, match="layer 'product' has 192 input channels, which are not a"):
        quantize(model, calibrate(model, samples(2)), chosen)
