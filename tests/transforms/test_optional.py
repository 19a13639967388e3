"""Every optional rewrite does what its name states, with equal results in TVM's virtual machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.ir.relax import main_bindings, operator_name
from firmwright.models.relax.importer import run_reference
from firmwright.transforms.identities import remove_multiply_by_one
from firmwright.transforms.optional import OPTIONAL, apply_transforms

RANDOM = np.random.default_rng(7)
Build = Callable[[relax.Var], relax.Expr]


def constant(*shape: int, dtype: str = "float32") -> relax.Expr:
    return relax.const(RANDOM.normal(0, 1, shape).astype(dtype))


def network(
    build: Build, shape: tuple[int, ...] = (1, 4, 9, 8), dtype: str = "float32"
) -> tvm.IRModule:
    """Return the module of ``build`` on an input; calls inside calls get variables."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(build(x)))
        builder.emit_func_output(result)
    return builder.get()


def operators(module: tvm.IRModule) -> list[str]:
    names = [operator_name(b.value).removeprefix("relax.") for b in main_bindings(module)]
    return [name for name in names if name]


def evaluated(module: tvm.IRModule) -> np.ndarray[Any, Any]:
    (x,) = module["main"].params
    generator = np.random.default_rng(1)
    shape = tuple(int(d) for d in x.ty.shape)
    dtype = str(x.ty.dtype)
    if "float" in dtype:
        given = generator.normal(0, 4, shape).astype(dtype)
    else:
        given = generator.integers(-128, 128, shape).astype(dtype)
    sample = {str(x.name): given}
    ((output,),) = run_reference(tvm.ir.save_json(module).encode(), [sample]).outputs
    return output


def assert_becomes(name: str, module: tvm.IRModule, expected: list[str]) -> tvm.IRModule:
    """Check the operators after a rewrite, and that every output bit is unchanged."""
    after = apply_transforms(module, {name})
    assert operators(after) == expected
    np.testing.assert_array_equal(evaluated(after), evaluated(module))
    return after


def conv(x: relax.Expr, **attributes: Any) -> relax.Expr:
    return relax.op.nn.conv2d(x, constant(6, 4, 3, 3), **attributes)


def clip(x: relax.Expr, low: float, high: float) -> relax.Expr:
    return relax.op.minimum(relax.const(high), relax.op.maximum(x, relax.const(low)))


def resize(x: relax.Expr, size: tuple[int, int], method: str, mode: str) -> relax.Expr:
    return relax.op.image.resize2d(
        x, size, method=method, coordinate_transformation_mode=mode, layout="NCHW"
    )


IDENTITIES: dict[str, list[Build]] = {
    "RemoveMultiplyByOne": [
        lambda x: relax.op.multiply(x, relax.const(1.0)),
        lambda x: relax.op.multiply(relax.const(np.ones((4, 1, 1), "float32")), x),
    ],
    "RemovePadByZero": [lambda x: relax.op.nn.pad(x, [0] * 8)],
    "RemoveCopy": [lambda x: relax.op.astype(x, "float32")],
    "RemoveIdentityReshape": [lambda x: relax.op.reshape(x, (1, 4, 9, 8))],
    "RemoveTrainingOperators": [lambda x: relax.TupleGetItem(relax.op.nn.dropout(x, 0.5), 0)],
    "RemoveIdentityResize": [
        partial(resize, size=(9, 8), method=method, mode=mode)
        for method in ("nearest_neighbor", "linear")
        for mode in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    ],
}


@pytest.mark.parametrize(
    ("name", "build"), [(name, build) for name, builds in IDENTITIES.items() for build in builds]
)
def test_an_identity_is_removed(name: str, build: Build) -> None:
    assert_becomes(name, network(lambda x: relax.op.abs(build(x))), ["abs"])


NOT_IDENTITIES: dict[str, list[Build]] = {
    "RemoveMultiplyByOne": [
        lambda x: relax.op.multiply(x, relax.const(1.5)),
        lambda x: relax.op.multiply(x, relax.const(np.linspace(1, 2, 8, dtype="float32"))),
        lambda x: relax.op.multiply(x, relax.const(np.ones((2, 4, 1, 1), "float32"))),
    ],
    "RemovePadByZero": [lambda x: relax.op.nn.pad(x, [0, 0, 0, 0, 0, 0, 0, 1])],
    "RemoveCopy": [lambda x: relax.op.astype(x, "float64")],
    "RemoveIdentityReshape": [lambda x: relax.op.reshape(x, (1, 4, 8, 9))],
    "RemoveIdentityResize": [lambda x: resize(x, (9, 9), "linear", "half_pixel")],
    "ConvertConvStride": [lambda x: conv(x, strides=[2, 2])],
}


@pytest.mark.parametrize(
    ("name", "build"),
    [(name, build) for name, builds in NOT_IDENTITIES.items() for build in builds],
)
def test_what_computes_stays(name: str, build: Build) -> None:
    module = network(build)
    assert operators(apply_transforms(module, {name})) == operators(module) != []


def test_maximum_and_minimum_become_a_clip() -> None:
    assert_becomes("ConvertMaxMinToClip", network(lambda x: clip(x, -1.5, 2.25)), ["clip"])


def test_limits_in_the_wrong_order_are_no_clip() -> None:
    module = network(lambda x: clip(x, 2.0, 1.0))
    assert_becomes("ConvertMaxMinToClip", module, ["maximum", "minimum"])
    assert np.unique(evaluated(module)).tolist() == [1.0]


@pytest.mark.parametrize("strides", [[1, 2], [2, 1], [2, 4]])
@pytest.mark.parametrize("padding", [[1, 1, 1, 1], [0, 1, 1, 0]])
def test_unequal_strides_become_a_pool(strides: list[int], padding: list[int]) -> None:
    module = network(lambda x: conv(x, strides=strides, padding=padding))
    after = assert_becomes("ConvertConvStride", module, ["nn.conv2d", "nn.max_pool2d"])
    first = main_bindings(after)[0].value
    assert [int(s) for s in first.attrs.strides] == [gcd(*strides)] * 2


def nhwc(x: relax.Expr, **attributes: Any) -> relax.Expr:
    weights = constant(3, 3, 8, 5)
    return relax.op.nn.conv2d(
        x, weights, data_layout="NHWC", kernel_layout="HWIO", out_layout="NHWC", **attributes
    )


def test_unequal_strides_in_another_layout() -> None:
    module = network(lambda x: nhwc(x, strides=[1, 2]))
    assert_becomes("ConvertConvStride", module, ["nn.conv2d", "nn.max_pool2d"])


def test_padding_is_added_to_the_convolutions_own() -> None:
    module = network(
        lambda x: conv(relax.op.nn.pad(x, [0, 0, 0, 0, 1, 2, 0, 3]), padding=[1, 0, 0, 2])
    )
    after = assert_becomes("MergePadLayer", module, ["nn.conv2d"])
    assert [int(p) for p in main_bindings(after)[0].value.attrs.padding] == [2, 0, 2, 5]


def test_padding_is_found_by_the_layout() -> None:
    module = network(lambda x: nhwc(relax.op.nn.pad(x, [0, 0, 1, 2, 3, 0, 0, 0])))
    after = assert_becomes("MergePadLayer", module, ["nn.conv2d"])
    assert [int(p) for p in main_bindings(after)[0].value.attrs.padding] == [1, 3, 2, 0]


@pytest.mark.parametrize(
    ("kind", "shape", "widths", "padding"),
    [
        ("conv1d", (1, 4, 9), [0, 0, 0, 0, 4, 0], [5, 1]),
        ("conv3d", (1, 4, 5, 6, 7), [0, 0, 0, 0, 1, 2, 0, 3, 4, 0], [2, 1, 5, 3, 4, 1]),
    ],
)
def test_padding_is_merged_in_other_dimensions(
    kind: str, shape: tuple[int, ...], widths: list[int], padding: list[int]
) -> None:
    def build(x: relax.Var) -> relax.Expr:
        weights = constant(6, 4, *[3] * (len(shape) - 2))
        return getattr(relax.op.nn, kind)(relax.op.nn.pad(x, widths), weights, padding=1)

    after = assert_becomes("MergePadLayer", network(build, shape), [f"nn.{kind}"])
    assert [int(p) for p in main_bindings(after)[0].value.attrs.padding] == padding


@pytest.mark.parametrize(
    "pad",
    [
        lambda x: relax.op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1], pad_value=1.0),
        lambda x: relax.op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1], "reflect"),
        lambda x: relax.op.nn.pad(x, [1, 0, 0, 0, 1, 1, 1, 1]),
        lambda x: relax.op.nn.pad(x, [0, 0, 0, 0, -1, 0, 0, 1]),
    ],
)
def test_other_padding_is_not_merged(pad: Build) -> None:
    module = network(lambda x: conv(pad(x), padding=1))
    assert_becomes("MergePadLayer", module, ["nn.pad", "nn.conv2d"])


@pytest.mark.parametrize(
    ("dtype", "low", "high", "left"),
    [("int8", -128, 127, []), ("uint8", 0, 255, []), ("int8", -128, 126, ["clip"])],
)
def test_a_clip_to_all_values_is_removed(dtype: str, low: int, high: int, left: list[str]) -> None:
    module = network(lambda x: relax.op.abs(relax.op.clip(x, low, high)), (1, 4), dtype)
    assert_becomes("RemoveIdentityClip", module, [*left, "abs"])


def test_what_is_computed_twice_is_computed_once() -> None:
    module = network(lambda x: relax.op.add(relax.op.exp(x), relax.op.exp(x)))
    assert operators(module) == ["exp", "exp", "add"]
    assert_becomes("EliminateCommonSubexpr", module, ["exp", "add"])


def normalized(
    x: relax.Expr, channels: int, axis: int = 1, training: bool = False, **attributes: bool
) -> relax.Expr:
    gamma, beta, mean = (constant(channels) for _ in range(3))
    variance = relax.const(RANDOM.uniform(0.5, 2, channels).astype("float32"))
    numbers = gamma, beta, mean, variance
    normal = relax.op.nn.batch_norm(x, *numbers, axis, training=training, **attributes)
    return relax.TupleGetItem(normal, 0)


BATCH_NORMS: list[Build] = [
    lambda x: normalized(conv(x), 6),
    lambda x: normalized(relax.op.add(conv(x), constant(1, 6, 1, 1)), 6),
    lambda x: normalized(relax.op.add(constant(6, 1, 1), conv(x)), 6),
    lambda x: normalized(relax.op.nn.conv2d(x, constant(8, 1, 3, 3), groups=4), 8),
    lambda x: normalized(nhwc(x), 5, axis=3),
    lambda x: normalized(conv(x), 6, scale=False),
    lambda x: normalized(conv(x), 6, center=False),
]


@pytest.mark.parametrize("build", BATCH_NORMS)
def test_batch_normalization_goes_into_weights_and_bias(build: Build) -> None:
    module = network(build)
    after = apply_transforms(module, {"FoldBatchNorm"})
    assert operators(after) == ["nn.conv2d", "add"]
    np.testing.assert_allclose(evaluated(after), evaluated(module), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("operator", "shape", "weights"),
    [
        (relax.op.nn.conv1d, (1, 4, 9), (6, 2, 3)),
        (relax.op.nn.conv3d, (1, 4, 5, 6, 3), (6, 2, 3, 3, 2)),
        (relax.op.nn.conv1d_transpose, (1, 4, 9), (4, 6, 3)),
        (relax.op.nn.conv2d_transpose, (1, 4, 9, 8), (4, 6, 3, 2)),
        (relax.op.nn.conv3d_transpose, (1, 4, 5, 3, 2), (4, 6, 1, 2, 2)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_batch_normalization_goes_into_convolutions_of_all_kinds(
    operator: Callable[..., relax.Expr], shape: tuple[int, ...], weights: tuple[int, ...]
) -> None:
    kind = operator.__name__
    options = {"output_padding": 1} if kind == "conv2d_transpose" else {}
    groups = shape[1] // weights[1] if not kind.endswith("transpose") else 1

    def build(x: relax.Var) -> relax.Expr:
        value = operator(x, constant(*weights), strides=2, groups=groups, **options)
        return normalized(value, 6)

    module = network(build, shape)
    after = apply_transforms(module, {"FoldBatchNorm"})
    assert operators(after) == [f"nn.{kind}", "add"]
    np.testing.assert_allclose(evaluated(after), evaluated(module), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda x: normalized(conv(x), 6, training=True),
        lambda x: normalized(relax.op.nn.conv2d_transpose(x, constant(4, 3, 2, 2), groups=2), 6),
        lambda x: normalized(conv(x), 6, axis=3),
        lambda x: normalized(relax.op.nn.relu(conv(x)), 6),
        lambda x: normalized(relax.op.add(conv(x), constant(1, 1, 7, 6)), 6),
    ],
)
def test_other_batch_normalization_stays(build: Build) -> None:
    after = apply_transforms(network(build), {"FoldBatchNorm"})
    assert "nn.batch_norm" in operators(after)


def test_a_convolution_that_others_read_keeps_its_weights() -> None:
    def twice(x: relax.Var) -> relax.Expr:
        shared = relax.BlockBuilder.current().emit(conv(x))
        return relax.op.add(shared, normalized(shared, 6))

    assert "nn.batch_norm" in operators(apply_transforms(network(twice), {"FoldBatchNorm"}))


JOINED, LAST = ["reshape", "strided_slice"], ["strided_slice", "reshape"]


@pytest.mark.parametrize(
    ("index", "axis", "shape", "expected"),
    [
        (0, 0, (3, 1, 4, 5, 2), JOINED),
        (2, 0, (3, 1, 4, 5, 2), JOINED),
        (1, 2, (1, 3, 2, 4, 5), JOINED),  # from ONNX Runtime, for a channel shuffle
        (1, 2, (2, 3, 2, 4), JOINED),
        (2, -1, (2, 3, 4), LAST),
        (1, 1, (2, 3), LAST),
    ],
)
def test_an_element_that_is_taken_of_an_axis_is_a_slice(
    index: int, axis: int, shape: tuple[int, ...], expected: list[str]
) -> None:
    module = network(lambda x: relax.op.take(x, relax.const(index, "int64"), axis), shape)
    after = assert_becomes("ConvertTakeToSlice", module, expected)
    assert str(after["main"].ret_ty) == str(module["main"].ret_ty)


@pytest.mark.parametrize(
    ("index", "axis", "shape"),
    [
        (relax.const(4, "int64"), 2, (3, 1, 4, 5)),  # clipped to the last
        (relax.const(1, "int64"), 0, (3, 2, 4, 5)),  # samples
        (relax.const(1, "int64"), 0, (3,)),
        (relax.const(np.array([1, 0], "int64")), 0, (3, 1, 4, 5)),
    ],
)
def test_other_takes_stay(index: relax.Expr, axis: int, shape: tuple[int, ...]) -> None:
    module = network(lambda x: relax.op.take(x, index, axis, "clip"), shape)
    assert_becomes("ConvertTakeToSlice", module, ["take"])


def test_nothing_is_rewritten_that_was_not_asked_for() -> None:
    module = network(lambda x: relax.op.multiply(clip(x, 0.0, 6.0), relax.const(1.0)))
    for transform in OPTIONAL:
        if transform.name not in ("RemoveMultiplyByOne", "ConvertMaxMinToClip"):
            assert operators(apply_transforms(module, {transform.name})) == operators(module)
    assert operators(apply_transforms(module, {t.name for t in OPTIONAL})) == ["clip"]


def test_a_rewrite_with_nothing_to_do_returns_the_module_itself() -> None:
    module = network(lambda x: relax.op.multiply(x, relax.const(2.0)))
    assert remove_multiply_by_one(module) is module


@pytest.mark.parametrize("name", ["RemoveCopy", "EliminateCommonSubexpr"])
def test_nothing_unread_is_left_where_no_call_is_rewritten(name: str) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            builder.emit(relax.op.exp(x))
            twice = [builder.emit(relax.op.abs(x)) for _ in range(2)]
            result = builder.emit_output(relax.op.add(*twice))
        builder.emit_func_output(result)
    module = apply_transforms(builder.get(), {name})
    assert "exp" not in operators(module)
    assert len(main_bindings(module)) == len(operators(module))  # no mere renaming


def test_every_rewrite_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "tidl.md").read_text("utf-8")
    rows = [f"| `{transform.name}` | {transform.postcondition} |" for transform in OPTIONAL]
    assert "\n".join(rows) in page
