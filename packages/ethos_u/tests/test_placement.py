"""The device runs convolutions that break no rule; `c` runs the other operators."""

from collections.abc import Sequence

import numpy as np
import pytest
from firmwright_ethos_u.flatbuffer import NetworkWriter
from firmwright_ethos_u.placement import place_convolutions
from single import convolution

from firmwright.device import Context, Placement
from firmwright.models.tflite.importer import import_model
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize


def place(network: bytes, rounding: str = "tflite") -> Placement:
    """Return the placement of a network."""
    module = canonicalize(import_model(network, "network", {})[0])
    return place_convolutions(module, Context(load_platform("host"), rounding, {}))


def write_chain(connections: Sequence[tuple[int, int]]) -> bytes:
    """Return convolutions; each has the numbers of its input and its output."""
    rng = np.random.default_rng(1)
    writer = NetworkWriter()
    tensors = [writer.tensor((1, 5, 5, 8), "int8", [0.05]) for _ in range(len(connections) + 1)]
    options = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    for source, target in connections:
        kernel = rng.integers(-127, 128, (8, 1, 1, 8)).astype("int8")
        weights = writer.constant(kernel, [0.01] * 8)
        bias = writer.constant(np.arange(8, dtype=np.int32), [0.0005] * 8)
        operands = [tensors[source], weights, bias]
        writer.operator("CONV_2D", operands, [tensors[target]], "Conv2DOptions", **options)
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
        ({"dtype": "int16"}, "tflite", ["types"]),
        ({}, "onnx", ["rounding"]),
    ],
)
def test_rules(arguments: dict[str, object], rounding: str, rules: list[str]) -> None:
    rng = np.random.default_rng(1)
    network, _ = convolution(rng, (20, 20, 8), 8, (3, 3), **arguments)  # type: ignore[arg-type]
    placement = place(network, rounding=rounding)
    broken = [found.rule for each in placement.violations.values() for found in each]
    assert broken == rules
    assert len(placement.composites) == (0 if rules else 1)


@pytest.mark.parametrize(
    ("connections", "runs"),
    [
        ([(0, 1), (1, 2)], 1),
        ([(0, 1), (1, 2), (1, 3)], 3),
    ],
)
def test_runs(connections: list[tuple[int, int]], runs: int) -> None:
    assert len(place(write_chain(connections)).composites) == runs
