"""From a float graph to a QDQ graph: scales, types, lists of layers, and results."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from firmwright.errors import UserError
from firmwright.quantize.bias_correction import compute_channel_means
from firmwright.quantize.calibration import calibrate
from firmwright.quantize.chosen_layers import choose_layers
from firmwright.quantize.float_graph import evaluate
from firmwright.quantize.integer_io import remove_float_io
from firmwright.quantize.qdq_graph import quantize
from firmwright.recipe.quantize_keys import QuantizeOptions

from .networks import Array, graph_of, options, ready, residual_network, samples


def quantized(chosen: QuantizeOptions, data: bytes | None = None) -> onnx.ModelProto:
    model = ready(data or residual_network(), chosen.has_newer_types)
    given = samples(24)
    return quantize(model, calibrate(model, given), chosen, given)


def results(model: onnx.ModelProto, count: int = 16) -> Array:
    return np.stack([found["y"] for found in evaluate(model, samples(count, seed=7))])


def snr(found: Array, wanted: Array) -> float:
    return float(10 * np.log10(np.square(wanted).sum() / np.square(found - wanted).sum()))


def constants(model: onnx.ModelProto) -> dict[str, Array]:
    return {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}


def kinds(model: onnx.ModelProto, name: str) -> tuple[str, list[str]]:
    """Return a node's type, and the types of the readers of its result."""
    node = next(n for n in model.graph.node if n.name == name)
    return node.op_type, [n.op_type for n in model.graph.node if node.output[0] in n.input]


CASES: list[tuple[dict[str, Any], float]] = [
    ({}, 30),
    ({"per_channel": False}, 28),
    ({"activations": "uint8"}, 30),
    ({"symmetric": True}, 27),
    ({"calibration": {"method": "mse"}}, 28),
    ({"calibration": {"method": "percentile"}}, 28),
    ({"scheme": "pow2"}, 22),
    ({"scheme": "pow2", "per_channel": False, "calibration": {"method": "mse"}}, 20),
    ({"weights": "int4"}, 24),
    ({"weights": "int4", "scheme": "pow2"}, 20),
    ({"weights": "int4", "compensate_rounding": True, "bias_correction": True}, 30),
    ({"activations": "int16"}, 36),
    ({"activations": "int16", "weights": "int16"}, 50),
    ({"scheme": "pow2", "activations": "int16", "weights": "int16"}, 50),
]


@pytest.mark.parametrize(("changes", "least"), CASES, ids=[str(c) for c, _ in CASES])
def test_quantized_network_is_near_the_float_one(changes: dict[str, Any], least: float) -> None:
    model = quantized(options(**changes))
    onnx.checker.check_model(model, full_check=True)
    assert snr(results(model), results(ready(residual_network()))) > least


def test_every_layer_is_quantized_and_nothing_between_sum_and_activation() -> None:
    model = quantized(options())
    for name in ("stem", "dw", "join", "pool", "flatten", "dense"):
        assert kinds(model, name)[1] == ["QuantizeLinear"], name
    assert not {"Relu", "Clip"} & {n.op_type for n in model.graph.node}


def test_activations_stay_where_the_grid_reaches_further() -> None:
    model = quantized(options(scheme="pow2"))
    assert kinds(model, "stem")[1] == ["Relu"]
    assert kinds(model, "stem_relu")[1] == ["QuantizeLinear"]
    assert kinds(model, "dw_clip") == ("Relu", ["QuantizeLinear"])  # 6 is out of range


@pytest.mark.parametrize("changes", [{}, {"scheme": "pow2"}, {"symmetric": True}], ids=str)
def test_left_out_activations_change_nothing(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    simplified = quantized(options(**changes))
    monkeypatch.setattr("firmwright.quantize.qdq_graph.simplify_activations", lambda _: None)
    whole = quantized(options(**changes))
    assert len(whole.graph.node) > len(simplified.graph.node)
    # Twice the range of the calibration, so that values are clamped.
    given = [{"x": 2 * s["x"]} for s in samples(32, seed=9)]
    for ours, theirs in zip(evaluate(simplified, given), evaluate(whole, given), strict=True):
        assert np.array_equal(ours["y"], theirs["y"])


def test_average_has_a_grid_of_its_own() -> None:
    model = quantized(options())
    arrays = constants(model)
    assert arrays["pooled_scale"] < arrays["joined_scale"] / 1.9


def test_powers_of_two_throughout() -> None:
    arrays = constants(quantized(options(scheme="pow2")))
    scales = [v for n, a in arrays.items() if n.endswith("_scale") for v in a.reshape(-1)]
    assert len(scales) > 30
    assert all(log2(v) == int(log2(v)) for v in scales)
    zero_points = [a for n, a in arrays.items() if n.endswith("_zero_point")]
    assert not any(z.any() for z in zero_points)
    biases = [n for n in arrays if n.endswith("_b_quantized")]
    assert len(biases) == 3
    for name in biases:
        assert arrays[name].dtype == np.int32


@pytest.mark.parametrize("named", ["stem", "stem_sum", "stem_relu", "stem_o*"])
def test_type_of_a_layer_is_that_of_the_activation_behind_it(named: str) -> None:
    layers = [{"match": named, "activations": "int16"}]
    arrays = constants(quantized(options(layers=layers)))
    assert arrays["stem_out_zero_point"].dtype == np.int16
    assert arrays["dw_out_zero_point"].dtype == np.int8


def test_types_of_single_layers() -> None:
    layers = [{"match": "d*_out", "activations": "int16"}, {"match": "pw", "weights": "int16"}]
    arrays = constants(quantized(options(layers=layers)))
    assert arrays["dw_out_zero_point"].dtype == np.int16
    assert arrays["stem_out_zero_point"].dtype == np.int8
    assert {a.dtype.name for n, a in arrays.items() if n.endswith("_quantized")} == {
        "int8", "int16", "int32",
    }  # fmt: skip


def test_weights_of_4_bits_use_all_integers_of_onnx_int4() -> None:
    layers = [{"match": "pw", "weights": "int4"}]
    arrays = constants(quantized(options(layers=layers, scheme="pow2")))
    (narrow,) = (a for a in arrays.values() if a.dtype.name == "int4" and a.ndim == 4)
    assert -8 <= narrow.astype("int8").min() <= -7
    assert narrow.astype("int8").max() == 7


@pytest.mark.parametrize(
    "kept", [{"layers": ["dense"]}, {"operators": ["Gemm"]}, {"layers": ["y"]}]
)
def test_kept_float(kept: dict[str, list[str]]) -> None:
    model = quantized(options(keep_float=kept))
    assert kinds(model, "dense") == ("Gemm", [])
    assert constants(model)["dense_w"].dtype == np.float32
    assert kinds(model, "join")[1] == ["QuantizeLinear"]


def test_lists_that_match_nothing_are_all_told() -> None:
    wrong = options(
        layers=[
            {"match": "stm", "activations": "int16"},
            {"match": "poo?", "weights": "int16"},
            {"match": "*", "weights": "int16"},
        ],
        keep_float={"layers": ["head*"], "operators": ["Gem"]},
    )
    with pytest.raises(UserError) as raised:
        choose_layers(ready(residual_network()), wrong)
    text = str(raised.value)
    assert "quantize: layers: no layer named 'stm'; did you mean 'stem'?" in text
    assert "quantize: keep_float.layers: no layer named 'head*'; known: " in text
    assert "quantize: layers: 'poo?' has no weights; only Conv, " in text
    assert "'*'" not in text
    assert (
        "quantize: keep_float.operators: no operator of the type 'Gem'; did you mean 'Gemm'" in text
    )


def test_brackets_of_a_name_are_no_pattern() -> None:
    model = ready(residual_network())
    model.graph.node[0].name = "block[0]/conv"
    choice = choose_layers(model, options(keep_float={"layers": ["block[0]/*"]}))
    assert choice.kept_float == ("block[0]/conv",)


def test_bias_correction_brings_the_mean_back() -> None:
    wanted = results(ready(residual_network()), 64).mean(axis=0)
    apart = [
        np.abs(
            results(quantized(options(scheme="pow2", bias_correction=c)), 64).mean(axis=0) - wanted
        )
        for c in (False, True)
    ]
    assert apart[1].sum() < apart[0].sum() / 2


def test_every_corrected_layer_has_the_mean_of_the_float_network() -> None:
    data = residual_network()
    model, given = quantized(options(bias_correction=True), data), samples(24)
    layers = {n.name: n for n in model.graph.node}
    steps = constants(model)
    for node in ready(data).graph.node:
        if node.op_type not in ("Conv", "Gemm"):
            continue
        result = layers[node.name].output[0]
        found = compute_channel_means(model, given, [result])[result]
        wanted = compute_channel_means(ready(data), given, [node.output[0]])[node.output[0]]
        assert (np.abs(found - wanted) <= steps[f"{node.input[2]}_quantized_scale"]).all()


def test_integer_io_computes_the_same() -> None:
    model = quantized(options(io="integer"))
    wanted = results(model)
    grids = remove_float_io(model)
    assert set(grids) == {"x", "y"}
    onnx.checker.check_model(model, full_check=True)
    steps = [
        {"x": np.clip(np.rint(s["x"] / np.float32(grids["x"].scale)) + grids["x"].zero_point,
                      -128, 127).astype("int8")}
        for s in samples(16, seed=7)
    ]  # fmt: skip
    found = np.stack([out["y"] for out in evaluate(model, steps)])
    assert found.dtype == np.int8
    real = np.float32(grids["y"].scale) * (found.astype("float32") - grids["y"].zero_point)
    assert np.array_equal(real, wanted)


def test_weights_without_channels_are_quantized_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = helper.make_node
    nodes = [
        node("LayerNormalization", ["x", "scale"], ["normal"], "normalize"),
        node("Conv", ["normal", "w"], ["sums"], "conv"),
        node("Flatten", ["sums"], ["y"], "flatten"),
    ]
    make = np.random.default_rng(1)
    stated = {
        "scale": make.uniform(0.5, 2, 8).astype("float32"),
        "w": make.normal(0, 1, (2, 3, 8, 8)).astype("float32"),
    }
    data = graph_of(nodes, stated, 2)
    assert constants(quantized(options(), data))["scale_scale"].ndim == 0
    narrow = constants(quantized(options(weights="int4"), data))
    assert narrow["w_quantized"].dtype.name == "int4"
    assert narrow["scale_quantized"].dtype == "int8"  # a normalization has no packed weights
    assert caplog.text == ""


def test_quantized_model_is_refused() -> None:
    data = quantized(options()).SerializeToString()
    with pytest.raises(UserError, match="is already quantized: it has DequantizeLinear and Quant"):
        ready(data)


def test_same_bytes_every_time() -> None:
    first, second = (quantized(options(bias_correction=True)) for _ in range(2))
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(
        deterministic=True
    )


def test_grids_reach_the_interface() -> None:
    from firmwright.models.onnx.importer import import_model

    model = quantized(options(io="integer"))
    grids = remove_float_io(model)
    _, interface = import_model(model.SerializeToString(), "m", {})
    assert (interface.inputs[0].dtype, interface.inputs[0].scale) == ("int8", grids["x"].scale)
    assert interface.outputs[0].zero_point == grids["y"].zero_point


def test_inputs_and_outputs_that_are_only_moved_are_integers_too() -> None:
    node = helper.make_node
    nodes = [
        node("Transpose", ["x"], ["last"], "to_last", perm=[0, 2, 3, 1]),
        node("Transpose", ["last"], ["first"], "to_first", perm=[0, 3, 1, 2]),
        node("Conv", ["first", "w"], ["sums"], "conv"),
        node("Flatten", ["sums"], ["y"], "flatten"),
    ]
    weights = np.random.default_rng(1).normal(0, 1, (2, 3, 8, 8)).astype("float32")
    model = quantized(options(), graph_of(nodes, {"w": weights}, 2))
    wanted = results(model)
    grids = remove_float_io(model)
    assert set(grids) == {"x", "y"}
    x, y = grids["x"], grids["y"]
    given = [(np.rint(s["x"] / x.scale) + x.zero_point).clip(-128, 127) for s in samples(16, 7)]
    found = evaluate(model, [{"x": g.astype("int8")} for g in given])
    real = np.stack([(f["y"].astype("float32") - y.zero_point) * y.scale for f in found])
    np.testing.assert_allclose(real, wanted, rtol=1e-5)


def test_a_transposed_convolution_in_groups_has_one_scale() -> None:
    random = np.random.default_rng(0)
    arrays = {
        "w": random.normal(0, 0.3, (3, 2, 3, 3)).astype("float32"),
        "b": random.normal(0, 1, 6).astype("float32"),
        "shape": np.array([1, -1]),
    }
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w", "b"], ["wide"], "up", group=3, strides=[2, 2]),
        helper.make_node("Reshape", ["wide", "shape"], ["y"], "flat"),
    ]
    data = graph_of(nodes, arrays, 6 * 17 * 17)
    model = quantized(options(), data)
    assert constants(model)["w_scale"].shape == ()
    assert snr(results(model), results(ready(data))) > 30


def test_a_prelu_is_quantized_between_its_neighbors() -> None:
    arrays = {
        "slopes": np.array([0.1, -0.2, 0.7], "float32").reshape(3, 1, 1),
        "shape": np.array([1, -1]),
    }
    nodes = [
        helper.make_node("PRelu", ["x", "slopes"], ["sloped"], "slope"),
        helper.make_node("MaxPool", ["sloped"], ["small"], "pool", kernel_shape=[2, 2]),
        helper.make_node("Reshape", ["small", "shape"], ["y"], "flat"),
    ]
    data = graph_of(nodes, arrays, 3 * 7 * 7)
    model = quantized(options(), data)
    assert kinds(model, "slope") == ("PRelu", ["QuantizeLinear"])
    assert snr(results(model), results(ready(data))) > 30
