"""The scales that tensors share, and how large they become, if layers shift."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from firmwright.ir.quant_params import QuantParams
from firmwright.quantize.chosen_layers import choose_layers
from firmwright.quantize.shift_scales import coarsen_scales
from firmwright.quantize.weights import find_weights

from .networks import graph_of, options, ready


def model() -> onnx.ModelProto:
    """Return two added convolutions, their ReLU, and a third convolution of its maxima."""
    node = helper.make_node
    weights = {name: np.full((3, 3, 1, 1), 0.5, "float32") for name in ("w1", "w2", "w3")}
    nodes = [
        node("Conv", ["x", "w1"], ["a"], "first"),
        node("Conv", ["x", "w2"], ["b"], "second"),
        node("Add", ["a", "b"], ["sum"], "add"),
        node("Relu", ["sum"], ["shown"], "relu"),
        node("MaxPool", ["shown"], ["pooled"], "pool", kernel_shape=[8, 8]),
        node("Conv", ["pooled", "w3"], ["c"], "third"),
        node("Flatten", ["c"], ["y"], "flatten"),
    ]
    return ready(graph_of(nodes, weights, 3))


def exponents(**given: int) -> dict[str, int]:
    network = model()
    names = {"x": -4, "a": -4, "b": -4, "sum": -4, "shown": -4, "pooled": -4, "c": -4, "y": -4}
    grids = {n: QuantParams("int8", 2.0**e, 0) for n, e in {**names, **given}.items()}
    weights = list(find_weights(network, choose_layers(network, options())))
    found = coarsen_scales(network, grids, weights)
    return {name: int(np.log2(grid.scale)) for name, grid in found.items()}


def test_tensors_of_an_addition_share_the_coarsest_grid() -> None:
    found = exponents(a=-6, b=-3, sum=-5)
    assert {found[n] for n in ("a", "b", "sum", "shown", "pooled")} == {-3}
    assert found["x"] == -4


def test_no_result_is_finer_than_its_sums() -> None:
    # 0.5 is 64 steps of 2 ** -7, so sums count steps of 2 ** (-4 - 7).
    assert exponents(c=-12, y=-12)["c"] == -11
    assert exponents(c=-10, y=-10)["c"] == -10


def test_a_coarser_result_makes_the_next_ones_coarser() -> None:
    # The first sums count steps of 2 ** (-2 - 7), the sums of their maxima of 2 ** (-9 - 7).
    tied = dict.fromkeys(("a", "b", "sum", "shown", "pooled"), -12)
    found = exponents(x=-2, c=-30, y=-30, **tied)
    assert (found["a"], found["c"], found["y"]) == (-9, -16, -16)
