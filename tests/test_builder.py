"""The builder: random weights, regions, and invalid arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from firmwright.builder import Graph, random_array
from firmwright.errors import UserError
from firmwright.models.relax.importer import import_model
from firmwright.models.relax.python_call import portable_json
from firmwright.partition.outline import partition_module
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize

MIX = load_mix(parse_target("c"), load_platform("host"), "onnx")


def test_random_array_is_the_documented_stream() -> None:
    drawn = [int(r) for r in np.random.PCG64(7).random_raw(6)]
    expected = [-10 + r % 21 for r in drawn]
    assert random_array((2, 3), seed=7, low=-10, high=10).ravel().tolist() == expected
    # These values are frozen: a change would change every example's weights.
    assert random_array((4,), seed=1).tolist() == [127, -26, 77, 82]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_random_array_reaches_both_ends(dtype: str) -> None:
    limits = np.iinfo(dtype)
    low, high = int(limits.max) - 1, int(limits.max)
    assert set(random_array((64,), dtype, seed=0, low=low, high=high).tolist()) == {low, high}
    if dtype != "int64":
        whole = random_array((4096,), dtype, seed=0)
        assert whole.dtype == dtype
        assert whole.astype("int64").mean() == pytest.approx(
            (int(limits.min) + int(limits.max)) / 2, abs=(limits.max - limits.min) / 20
        )


def regions(graph: Graph) -> list[Any]:
    module, interface = import_model(portable_json(graph.module()), "graph", {})
    _, partition = partition_module(canonicalize(module), interface, MIX)
    return list(partition.regions)


def test_a_layer_is_one_region_and_no_int32_tensor_leaves_it() -> None:
    graph = Graph()
    x = graph.input("input", (1, 4, 8, 8))
    x = graph.conv2d(
        x, "conv", random_array((6, 4, 3, 3), seed=1), np.ones(6, "int32"), act=True, shift_bits=7
    )
    y = graph.depthwise_conv2d(x, "depthwise", random_array((6, 1, 3, 3), seed=2), shift_bits=5)
    x = graph.max_pool2d(graph.add(x, y, "sum", shift_bits=1), "pool", (2, 2))
    x = graph.dense(x, "dense", random_array((3, 96), seed=3), np.ones(3, "int32"), shift_bits=9)
    found = regions(graph.output(x))
    assert [(r.sources, r.operators[0]) for r in found] == [
        (("conv",), "conv2d"),
        (("depthwise",), "conv2d"),
        (("sum",), "astype"),
        (("pool",), "max_pool2d"),
        (("dense", "dense_flat"), "reshape"),
    ]
    computed = tuple(o for o in found[0].operators if o != "astype")  # to wrap around unsigned
    assert computed == ("conv2d", "add", "right_shift", "clip", "clip")
    assert "add" in found[2].name


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda g, x: g.conv2d(x, "c", np.zeros((5, 4, 3, 3), "int8")), "c: .*channel"),
        (lambda g, x: g.conv2d(x, "c", np.zeros((5, 3, 3, 3))), "c: weights: expected int8 with 4"),
        (
            lambda g, x: g.conv2d(x, "c", np.zeros((5, 3, 3, 3), "int8"), np.zeros(5)),
            "c: bias: expected int32 with 1 axes, found float64 with 1 axes",
        ),
        (
            lambda g, x: g.conv2d(x, "c", np.zeros((5, 3, 3, 3), "int8"), np.zeros(3, "int32")),
            "c: 3 biases for 5 outputs",
        ),
        (
            lambda g, x: g.conv2d(x, "c", np.zeros((5, 3, 3, 3), "int8"), shift_bits=32),
            "c: shift_bits is 32; expected 0 to 31",
        ),
        (lambda g, x: g.add(x, x, "input"), "two layers or inputs are named 'input'"),
        (lambda g, x: g.add(x, 1, "s"), "expected an array or a tensor of the graph, found int"),
        (
            lambda g, x: g.conv2d(
                x, "c", np.full((1, 3, 1, 1), 127, "int8"), np.full(1, 2**31 - 1, "int32")
            ),
            "c: a sum can reach 2147532415, which does not fit int32",
        ),
        (lambda g, _: g.module(), "the graph has no output"),
    ],
)
def test_arguments_that_do_not_fit(build: Any, message: str) -> None:
    graph = Graph()
    x = graph.input("input", (1, 3, 8, 8))
    with pytest.raises(UserError, match=message):
        build(graph, x)
