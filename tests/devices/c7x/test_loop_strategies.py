"""The C7x's loops for single-element pools and resizes equal TVM's loops in every bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.devices.c7x.loop_strategies import is_exact_resize, is_subsampling
from tests.networks.firmware import SANITIZED, lowered, run_generated

op = relax.op

SIZES = [((7, 5), (14, 20)), ((6, 6), (6, 24)), ((12, 20), (4, 10)), ((5, 9), (5, 9)),
         ((12, 10), (9, 5)), ((1, 3), (8, 12)), ((20, 12), (5, 32))]  # fmt: skip
METHODS = [("linear", "")] + [
    ("nearest_neighbor", r) for r in ("floor", "round_prefer_floor", "round_prefer_ceil")
]


def resize(x: relax.Expr, size: tuple[int, int], **options: str) -> relax.Expr:
    given = {"layout": "NCHW", "coordinate_transformation_mode": "half_pixel", **options}
    return op.image.resize2d(x, size, **given)


def resizes(sizes: list[tuple[tuple[int, int], tuple[int, int]]], layout: str) -> bytes:
    """Return a network that resizes an input of each size in every mode."""
    builder = relax.BlockBuilder()
    inputs = []
    for n, (size, _) in enumerate(sizes):
        shape = (1, 3, *size) if layout == "NCHW" else (1, *size, 3)
        inputs.append(relax.Var(f"x{n}", relax.TensorType(shape, "float32")))
    with builder.function("main", inputs):
        with builder.dataflow():
            made = [
                builder.emit_output(
                    resize(x, size, method=method, rounding_method=rounding, layout=layout)
                )
                for x, (_, size) in zip(inputs, sizes, strict=True)
                for method, rounding in METHODS
            ]
        builder.emit_func_output(made)
    return str(tvm.ir.save_json(builder.get())).encode()


def normal(data: bytes) -> list[dict[str, Any]]:
    parameters = tvm.ir.load_json(data.decode())["main"].params
    random = np.random.default_rng(5)
    return [
        {
            str(p.name): random.normal(0, 1, [int(d) for d in p.ty.shape]).astype("float32")
            for p in parameters
        }
    ]


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(("layout", "sizes"), [("NCHW", SIZES), ("NHWC", SIZES[:2])])
def test_a_resize_is_that_of_the_cpu(layout: str, sizes: Any, tmp_path: Path) -> None:
    data = resizes(sizes, layout)
    samples = normal(data)
    found, expected = (
        run_generated(data, samples, tmp_path / target, SANITIZED, "relax", target=target)
        for target in ("c7x", "c")
    )
    kernels = lowered(data, "relax", target="c7x").kernels.kernels
    taken = [k for k in kernels if "floor" not in k.body and "ceil" not in k.body]
    # From 12 to 9 elements the positions are thirds, which are not exact.
    assert len(taken) == len(METHODS) * sum(size != (9, 5) for _, size in sizes)
    for ours, theirs in zip(found[0], expected[0], strict=True):
        np.testing.assert_array_equal(ours.view("int32"), theirs.view("int32"))


def pool(shape: tuple[int, ...], strides: list[int], **options: Any) -> bytes:
    builder = relax.BlockBuilder()
    x = relax.Var("x0", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            made = builder.emit_output(op.nn.max_pool2d(x, strides=strides, **options))
        builder.emit_func_output(made)
    return str(tvm.ir.save_json(builder.get())).encode()


def call_of(data: bytes) -> tvm.ir.Call:
    return tvm.ir.load_json(data.decode())["main"].body.blocks[0].bindings[0].value


@pytest.mark.needs("gcc")
def test_a_pool_of_single_elements_is_that_of_the_cpu(tmp_path: Path) -> None:
    data = pool((2, 3, 9, 14), [2, 3], pool_size=[1, 1])
    samples = normal(data)
    found = run_generated(data, samples, tmp_path, SANITIZED, "relax", target="c7x")
    np.testing.assert_array_equal(found[0][0], samples[0]["x0"][:, :, ::2, ::3])
    (kernel,) = lowered(data, "relax", target="c7x").kernels.kernels
    (default,) = lowered(data, "relax", target="c").kernels.kernels
    assert "?" not in kernel.body  # without a comparison
    assert "?" in default.body


@pytest.mark.needs("gcc")
def test_a_pool_of_single_elements_makes_whole_vectors(tmp_path: Path) -> None:
    data = pool((2, 3, 64, 128), [2, 2], pool_size=[1, 1])
    samples = normal(data)
    found = run_generated(data, samples, tmp_path, SANITIZED, "relax", target="c7x")
    np.testing.assert_array_equal(found[0][0], samples[0]["x0"][:, :, ::2, ::2])
    (kernel,) = lowered(data, "relax", target="c7x").kernels.kernels
    assert kernel.note == (
        "No blocks: no input with several axes moves with the blocks. The innermost loop is one "
        "vector. Streams deliver 0 of 1 inputs; others: not adjacent in a vector (1)."
    )


@pytest.mark.parametrize(
    ("options", "taken"),
    [
        ({"pool_size": [1, 1]}, True),
        ({"pool_size": [1, 2]}, False),
        ({"pool_size": [1, 1], "padding": [0, 0, 1, 0]}, False),
        ({"pool_size": [1, 1], "dilation": [2, 1]}, False),
        ({"pool_size": [1, 1], "layout": "NHWC"}, False),
    ],
)
def test_which_pools_only_pick(options: dict[str, Any], taken: bool) -> None:
    assert is_subsampling(call_of(pool((1, 4, 8, 8), [2, 2], **options))) == taken


@pytest.mark.parametrize(
    ("options", "taken"),
    [
        ({"method": "linear"}, True),
        ({"method": "cubic"}, False),
        ({"method": "nearest_neighbor", "rounding_method": "ceil"}, False),
        ({"method": "linear", "coordinate_transformation_mode": "align_corners"}, False),
        ({"method": "linear", "size": (6, 8)}, False),
        ({"method": "linear", "shape": (1, 1, 3, 2**21)}, False),
    ],
)
def test_which_resizes_are_exact(options: dict[str, Any], taken: bool) -> None:
    given = dict(options)
    shape, size = given.pop("shape", (1, 1, 4, 4)), given.pop("size", (8, 16))
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        call = builder.normalize(resize(x, size, **given))
        builder.emit_func_output(builder.emit(call))
    assert is_exact_resize(call) == taken
