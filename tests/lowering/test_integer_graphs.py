"""Graphs of the builder: C and reference equal numpy, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.builder import Graph, random_array
from firmwright.models.relax.importer import run_reference
from firmwright.models.relax.python_call import portable_json
from tests.networks.firmware import run_generated

Array = npt.NDArray[Any]


def int8(x: Array, shift_bits: int) -> Array:
    return np.asarray(np.clip(x >> shift_bits, -128, 127), "int8")


def convolved(x: Array, weights: Array, pads: tuple[int, int], strides: tuple[int, int]) -> Array:
    """Convolve (N, C, H, W) with (O, C, height, width), in int64."""
    padded = np.pad(x.astype("int64"), ((0, 0), (0, 0), (pads[0],) * 2, (pads[1],) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[2:], (2, 3))
    chosen = windows[:, :, :: strides[0], :: strides[1]]
    return np.asarray(np.einsum("nchwij,ocij->nohw", chosen, weights.astype("int64")))


def test_every_layer_equals_numpy(tmp_path: Path) -> None:
    weights = [random_array(s, seed=i) for i, s in enumerate([(6, 4, 3, 5), (6, 1, 3, 3), (3, 6)])]
    bias = random_array((6,), "int32", seed=9, low=-9999, high=9999)
    graph = Graph()
    start = graph.input("input", (2, 4, 9, 8))
    x = graph.conv2d(start, "conv", weights[0], bias, strides=(2, 1), act=True, shift_bits=7)
    y = graph.depthwise_conv2d(x, "depthwise", weights[1], padding=(1, 1), shift_bits=5)
    total = graph.add(x, y, "sum", act=True, shift_bits=1)
    mean = graph.sum_pool2d(graph.max_pool2d(total, "pool", (2, 2), (1, 2)), "mean", shift_bits=4)
    graph.output(graph.dense(mean, "dense", weights[2], shift_bits=6), y)
    data = portable_json(graph.module())

    image = random_array((2, 4, 9, 8), seed=5)
    a = convolved(image, weights[0], (1, 2), (2, 1)) + bias.reshape(-1, 1, 1)
    a = np.maximum(int8(a, 7), 0)
    b = np.concatenate(
        [convolved(a[:, c : c + 1], weights[1][c : c + 1], (1, 1), (1, 1)) for c in range(6)], 1
    )
    b = int8(b, 5)
    c = np.maximum(int8(a.astype("int32") + b, 1), 0)
    pooled = np.lib.stride_tricks.sliding_window_view(c, (2, 2), (2, 3))[:, :, :, ::2].max((4, 5))
    d = int8(pooled.astype("int32").sum((2, 3)), 4)
    e = int8(d.astype("int32") @ weights[2].T.astype("int32"), 6)

    samples = [{"input": image}]
    for outputs in (run_generated(data, samples, tmp_path, format_name="relax"),
                    run_reference(data, samples).outputs):  # fmt: skip
        np.testing.assert_array_equal(outputs[0][0], e)
        np.testing.assert_array_equal(outputs[0][1], b)
    assert len(np.unique(e)) > 1
    assert len(np.unique(b)) > 50
