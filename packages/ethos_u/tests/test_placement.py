"""The device runs the layers that violate no rule, and `c` runs the other operators."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from firmwright_ethos_u.flatbuffer import NetworkWriter
from firmwright_ethos_u.layers import NONE, RELU, RELU6, find_activation
from firmwright_ethos_u.placement import place_layers
from partition import compare_region
from single import SAME, VALID, Array, binary, convolution, pooling, random, unary

from firmwright.device import Context, Placement, StoredTensor
from firmwright.models.tflite.importer import import_model
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize

CONVOLUTION = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}


def place(network: bytes, rounding: str = "tflite") -> Placement:
    module = canonicalize(import_model(network, "network", {})[0])
    return place_layers(module, Context(load_platform("host"), rounding, {}))


def write_chain(connections: Sequence[tuple[int, int]]) -> bytes:
    """Return convolutions. Each convolution has the numbers of its input and output channels."""
    rng = np.random.default_rng(1)
    writer = NetworkWriter()
    tensors = [writer.tensor((1, 5, 5, 8), "int8", [0.05]) for _ in range(len(connections) + 1)]
    for source, target in connections:
        kernel = rng.integers(-127, 128, (8, 1, 1, 8)).astype("int8")
        weights = writer.constant(kernel, [0.01] * 8)
        bias = writer.constant(np.arange(8, dtype=np.int32), [0.0005] * 8)
        operands = [tensors[source], weights, bias]
        writer.operator("CONV_2D", operands, [tensors[target]], "Conv2DOptions", **CONVOLUTION)
    read = {source for source, _ in connections}
    outputs = [tensors[target] for _, target in connections if target not in read]
    return writer.build([tensors[0]], outputs)


@pytest.mark.parametrize(
    ("arguments", "rounding", "rules"),
    [
        ({}, "tflite", []),
        ({"depthwise": True, "stride": 3}, "tflite", []),
        ({"depthwise": True, "stride": 4}, "tflite", ["vela"]),
        ({"stride": 4}, "tflite", []),
        ({"dtype": "int16"}, "tflite", []),
        ({}, "onnx", ["rounding"]),
    ],
)
def test_rules(arguments: dict[str, object], rounding: str, rules: list[str]) -> None:
    rng = np.random.default_rng(1)
    network, _ = convolution(rng, (20, 20, 8), 8, (3, 3), **arguments)  # type: ignore[arg-type]
    placement = place(network, rounding)
    assert list_rules(placement) == rules
    assert len(placement.composites) == (0 if rules else 1)


def test_sentence_of_vela() -> None:
    rng = np.random.default_rng(1)
    network, _ = convolution(rng, (20, 20, 8), 8, (3, 3), depthwise=True, stride=4)
    (broken,) = place(network).violations.values()
    assert broken[0].sentence == (
        "Vela rejects the network: Stride values for both width and height must be between 1 and 3 "
        "(Op has stride WxH as: 4x4)"
    )


def test_rules_of_weights_and_bias() -> None:
    writer = NetworkWriter()
    source, target = (writer.tensor((1, 5, 5, 8), "int8", [0.05]) for _ in range(2))
    weights = writer.tensor((8, 1, 1, 8), "int8", [0.01] * 8)
    bias = writer.constant(np.arange(8, dtype=np.int32), [0.0005] * 8)
    writer.operator("CONV_2D", [source, weights, bias], [target], "Conv2DOptions", **CONVOLUTION)
    network = writer.build([source, weights], [target])
    assert list_rules(place(network)) == ["scale", "constant"]  # the weights are transposed first


@pytest.mark.parametrize(("slope", "rules"), [(0.1, []), (-0.5, ["slope"])])
def test_rule_of_slopes(slope: float, rules: list[str]) -> None:
    ports = ((0.05, 4), (0.04, -3))
    network, _ = unary(np.random.default_rng(1), "LEAKY_RELU", "int8", ports, alpha=slope)
    assert list_rules(place(network)) == rules


@pytest.mark.parametrize(
    ("kind", "shapes", "rules"),
    [
        ("ADD", ((1, 4, 4, 8), (1, 4, 4, 8)), []),
        ("ADD", ((1, 4, 4, 8), (1, 1, 1, 8)), []),
    ],
)
def test_rules_of_sums(kind: str, shapes: Any, rules: list[str]) -> None:
    network, _ = binary(np.random.default_rng(1), kind, shapes, "int8", (0.04, 0.03, 0.08))
    assert list_rules(place(network)) == rules


@pytest.mark.parametrize(
    "options",
    [
        {"filter": 3, "stride": 1, "padding": SAME},
        {"filter": 2, "stride": 2, "padding": VALID},
    ],
)
def test_poolings(options: dict[str, int]) -> None:
    rng = np.random.default_rng(1)
    network, _ = pooling(rng, "AVERAGE_POOL_2D", (8, 8, 8), "int8", **options)
    assert len(place(network).composites) == 1


def list_rules(placement: Placement) -> list[str]:
    return [found.rule for each in placement.violations.values() for found in each]


@pytest.mark.parametrize(
    ("connections", "regions"),
    [
        ([(0, 1), (1, 2)], 1),
        ([(0, 1), (1, 2), (1, 3)], 1),
        ([(0, 1), (0, 2)], 2),
    ],
)
def test_regions(connections: list[tuple[int, int]], regions: int) -> None:
    assert len(place(write_chain(connections)).composites) == regions


def test_residual_block() -> None:
    """A region with two inputs and two outputs is exact if the region reads one of its outputs."""
    layers = compare_region(*write_block())
    assert [layer.kind for layer in layers] == ["conv2d", "add", "avg_pool2d"]


def write_block() -> tuple[bytes, list[Array]]:
    """Return a convolution, its sum with an input, a RELU and a pooling, and random inputs."""
    rng = np.random.default_rng(2)
    writer = NetworkWriter()
    shape = (1, 6, 6, 8)
    grids = ((0.05, 3), (0.04, -5), (0.07, 9), (0.06, -128))
    first, second, product, total = (
        writer.tensor(shape, "int8", [scale], zero) for scale, zero in grids
    )
    pooled = writer.tensor((1, 3, 3, 8), "int8", [0.06], -128)
    weights = writer.constant(rng.integers(-127, 128, (8, 3, 3, 8)).astype("int8"), [0.004] * 8)
    bias = writer.constant(np.arange(8, dtype=np.int32), [0.05 * 0.004] * 8)
    writer.operator("CONV_2D", [first, weights, bias], [product], "Conv2DOptions", **CONVOLUTION)
    writer.operator("ADD", [product, second], [total], "AddOptions", fusedActivationFunction=RELU)
    window = {"strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2}
    writer.operator("AVERAGE_POOL_2D", [total], [pooled], "Pool2DOptions", **window)
    inputs = [random(rng, shape, "int8") for _ in range(2)]
    return writer.build([first, second], [pooled, total]), inputs


@pytest.mark.parametrize(
    ("scale", "bounds", "activation"),
    [
        (0.05, (-128, -8), RELU6),
        (0.05, (-128, 127), NONE),
        (12 / 241, (-128, -7), RELU6),  # 6 / scale is 120.5, a tie
        (0.05, (-100, 127), None),
    ],
)
def test_activations(scale: float, bounds: tuple[int, int], activation: int | None) -> None:
    stored = StoredTensor(None, "int8", np.array(scale), np.array(-128), 0)
    clip = SimpleNamespace(args=[None, *(SimpleNamespace(value=b) for b in bounds)])
    assert find_activation(stored, clip) == activation


def test_activation_of_scales_per_channel() -> None:
    stored = StoredTensor(None, "int8", np.array([0.1, 0.2]), np.array([0, 0]), 3)
    assert find_activation(stored, None) is None
