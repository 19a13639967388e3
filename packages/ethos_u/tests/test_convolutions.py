"""Convolutions are bit-exact to LiteRT's reference kernels."""

import numpy as np
import pytest
from single import SAME, VALID, compare, convolution


@pytest.mark.parametrize(
    "arguments",
    [
        {"shape": (9, 7, 3), "outputs": 20, "kernel": (3, 3)},
        {"shape": (12, 12, 40), "outputs": 24, "kernel": (3, 3), "stride": 2, "padding": VALID},
        {"shape": (16, 16, 8), "outputs": 9, "kernel": (5, 3), "dilation": 2},
        {"shape": (6, 6, 70), "outputs": 33, "kernel": (1, 1), "padding": SAME},
        {"shape": (20, 18, 2), "outputs": 5, "kernel": (11, 9), "padding": VALID},
        {"shape": (9, 11, 24), "outputs": 24, "kernel": (3, 5), "depthwise": True},
        {"shape": (9, 9, 1), "outputs": 8, "kernel": (3, 3), "depthwise": True},
        {"shape": (7, 7, 5), "outputs": 9, "kernel": (3, 3), "dtype": "int16"},
        {"shape": (7, 7, 20), "outputs": 20, "kernel": (3, 3), "depthwise": True, "dtype": "int16"},
        {
            "shape": (3, 3, 4),
            "outputs": 4,
            "kernel": (1, 1),
            "dtype": "int16",
            "first_scale": 1e-15,
        },
    ],
)
def test_convolution(arguments: dict[str, object]) -> None:
    compare(*convolution(np.random.default_rng(1), **arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize("accelerator", ["ethos-u55-32", "ethos-u55-256", "ethos-u65-512"])
@pytest.mark.parametrize("depthwise", [False, True])
def test_accelerator(accelerator: str, depthwise: bool) -> None:
    network, inputs = convolution(
        np.random.default_rng(2), (10, 10, 24), 24, (3, 3), depthwise=depthwise
    )
    compare(network, inputs, accelerator)
