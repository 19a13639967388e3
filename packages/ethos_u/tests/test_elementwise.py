"""Elementwise operators and poolings are bit-exact to LiteRT's reference kernels."""

import numpy as np
import pytest
from single import SAME, VALID, binary, compare, pooling, unary

WHOLE, ROW, SCALAR = (1, 5, 6, 20), (1, 1, 1, 20), (1, 1, 1, 1)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
@pytest.mark.parametrize(
    ("shapes", "scales"),
    [
        ((WHOLE, WHOLE), (0.04, 0.04, 0.08)),
        ((WHOLE, ROW), (0.04, 0.013, 0.061)),
        ((SCALAR, WHOLE), (0.0007, 0.05, 0.033)),
        ((WHOLE, WHOLE), (0.05, 0.04, 0.08)),  # many sums are ties
    ],
)
def test_binary(
    kind: str,
    dtype: str,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    scales: tuple[float, float, float],
) -> None:
    if kind == "MUL":
        scales = (scales[0], scales[1], scales[0] * scales[1] * (2000 if dtype == "int16" else 90))
    compare(*binary(np.random.default_rng(3), kind, shapes, dtype, scales))


@pytest.mark.parametrize("kind", ["MINIMUM", "MAXIMUM"])
def test_choice(kind: str) -> None:
    shapes = (WHOLE, ROW)
    rng = np.random.default_rng(4)
    network, inputs = binary(rng, kind, shapes, "int16", (0.04, 0.04, 0.04))
    compare(network, inputs)


@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize(
    "options",
    [
        {"filter": 2, "stride": 2, "padding": VALID},
        {"filter": 3, "stride": 1, "padding": SAME},
        {"filter": 8, "stride": 1, "padding": VALID},
    ],
)
def test_pooling(kind: str, dtype: str, options: dict[str, int]) -> None:
    compare(*pooling(np.random.default_rng(5), kind, (8, 8, 18), dtype, **options))


@pytest.mark.parametrize(
    ("kind", "dtype", "ports", "options"),
    [
        ("SOFTMAX", "int8", ((0.3, 4), (1 / 256, -128)), {"beta": 1.0}),
        ("SOFTMAX", "int16", ((0.0004, 0), (1 / 32768, 0)), {"beta": 1.0}),
        ("LOGISTIC", "int8", ((0.05, 4), (1 / 256, -128)), {}),
        ("TANH", "int8", ((0.05, 4), (1 / 128, 0)), {}),
        ("LEAKY_RELU", "int8", ((0.05, 4), (0.04, -3)), {"alpha": 0.1}),
        ("LEAKY_RELU", "int16", ((0.001, 0), (0.001, 0)), {"alpha": 0.1}),
        ("ABS", "int8", ((0.05, 4), (0.06, -100)), {}),
        ("RELU", "int8", ((0.05, 4), (0.04, -128)), {}),
        ("HARD_SWISH", "int8", ((0.05, 4), (0.04, -120)), {}),
    ],
)
def test_unary(
    kind: str,
    dtype: str,
    ports: tuple[tuple[float, int], tuple[float, int]],
    options: dict[str, float],
) -> None:
    compare(*unary(np.random.default_rng(6), kind, dtype, ports, **options))
