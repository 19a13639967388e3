"""The ONNX graph of a region computes, in ONNX Runtime, the region's results in TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from tvm import relax

from firmwright.devices.tidl.options import tidl_rules
from firmwright.devices.tidl.submodel import SubModel, export_sub_model
from firmwright.errors import UserError
from firmwright.quantize.float_graph import session_options

from .networks import network, region_of, values, vm_outputs

op = relax.op
Build = Callable[[relax.Var], relax.Expr]


def run(model: SubModel, *inputs: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    onnx.checker.check_model(model.data, full_check=True)
    session = onnxruntime.InferenceSession(model.data, session_options())
    names = [t.name for t in model.inputs]
    found: list[np.ndarray[Any, Any]] = session.run(None, dict(zip(names, inputs, strict=True)))
    return found


def by_channel(name: str) -> Build:
    return lambda x: getattr(op, name)(x, values(1, 4, 1, 1))


IMAGE = (1, 4, 8, 8)
NORM = (values(8), values(8))
FORMS: dict[str, Build] = {
    **{
        name: getattr(op, name)
        for name in "abs acos asin asinh atan cos cosh erf exp floor log negative sigmoid sin sinh "
        "sqrt tan tanh".split()
    },
    **{name: by_channel(name) for name in ("add", "subtract", "multiply", "maximum", "minimum")},
    "divide": lambda x: op.divide(x, relax.const(np.float32(3))),
    "power": lambda x: op.power(x, relax.const(np.float32(2))),
    "adaptive_avg_pool2d": lambda x: op.nn.adaptive_avg_pool2d(x, (1, 1)),
    "argmax": lambda x: op.argmax(x, 1, keepdims=True),
    "argmin": lambda x: op.argmin(x, 1, keepdims=True),
    "avg_pool2d": lambda x: op.nn.avg_pool2d(x, (2, 2), (2, 2), (1, 1, 0, 0)),
    "broadcast_to": lambda x: op.broadcast_to(op.mean(x, [1], keepdims=True), IMAGE),
    "clip": lambda x: op.clip(x, -0.25, 0.5),
    "concat": lambda x: op.concat([x, op.nn.relu(x)], 1),
    "conv2d": lambda x: op.nn.conv2d(x, values(6, 4, 3, 3), strides=2, padding=(1, 0, 0, 1)),
    "conv2d_transpose": lambda x: op.nn.conv2d_transpose(x, values(4, 6, 4, 4), 2, 1),
    "depthwise_conv2d": lambda x: op.nn.conv2d(x, values(4, 1, 3, 3), groups=4, dilation=2),
    "expand_dims": lambda x: op.expand_dims(x, 0),
    "flatten": op.flatten,
    "gelu": op.nn.gelu,
    "instance_norm": lambda x: op.nn.instance_norm(x, values(4), values(4), 1, [2, 3], 0.01),
    "layer_norm": lambda x: op.nn.layer_norm(x, *NORM, axes=[-1], epsilon=0.01),
    "leakyrelu": lambda x: op.nn.leakyrelu(x, 0.2),
    "matmul": lambda x: op.matmul(x, values(8, 5)),
    "max": lambda x: op.max(x, 2, keepdims=True),
    "max_pool2d": lambda x: op.nn.max_pool2d(x, (3, 3), (2, 2), 1),
    "mean": lambda x: op.mean(x, [2, 3]),
    "min": lambda x: op.min(x, 2, keepdims=True),
    "pad": lambda x: op.nn.pad(x, [0, 0, 0, 0, 1, 1, 2, 2], pad_value=0.5),
    "permute_dims": lambda x: op.permute_dims(x, [0, 2, 3, 1]),
    "prelu": lambda x: op.nn.prelu(op.subtract(x, relax.const(np.float32(0.5))), values(4), 1),
    "relu": op.nn.relu,
    "reshape": lambda x: op.reshape(x, (1, 8, 32)),
    "resize2d": lambda x: op.image.resize2d(x, (16, 16), layout="NCHW", method="linear"),
    "scatter_elements": lambda x: op.scatter_elements(
        relax.const(np.zeros(IMAGE, "float32")),
        relax.const(np.broadcast_to(np.arange(8)[::-1], IMAGE)),
        x,
        axis=3,
    ),
    "silu": op.nn.silu,
    "softmax": lambda x: op.nn.softmax(x, -1),
    "squeeze": lambda x: op.squeeze(x, [0]),
    "strided_slice": lambda x: op.strided_slice(x, [1], [1], [3]),
    "sum": lambda x: op.sum(x, [1], keepdims=True),
    "take": lambda x: op.take(x, relax.const(np.array([5, 0, 2])), 2),
    "topk": lambda x: relax.TupleGetItem(op.topk(x, 3, 2), 0),
}  # fmt: skip
IMPORTED_AS_CLIP = {"relu6"}


def test_every_operator_of_tidl_has_a_form() -> None:
    assert {*FORMS, *IMPORTED_AS_CLIP} == {*tidl_rules().operators}


@pytest.mark.parametrize("name", FORMS)
def test_an_operator_computes_the_same(name: str) -> None:
    module = network(lambda _, x: [FORMS[name](x)], IMAGE)
    given = np.random.default_rng(1).uniform(0.05, 0.95, IMAGE).astype("float32")
    found = run(export_sub_model(region_of(module), 0), given)
    for ours, theirs in zip(found, vm_outputs(module, given), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("indices", ["int32", "int64"])
@pytest.mark.parametrize("largest", [True, False])
def test_both_results_of_topk_are_outputs(largest: bool, indices: str) -> None:
    def build(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        both = builder.emit(op.topk(x, 3, 2, largest=largest, dtype=indices))
        return [relax.TupleGetItem(both, i) for i in (1, 0)]

    module = network(build, IMAGE)
    given = np.random.default_rng(1).permutation(256).reshape(IMAGE).astype("float32")
    found = run(export_sub_model(region_of(module), 0), given)
    places = np.argsort(-given if largest else given, axis=2)[:, :, :3]
    np.testing.assert_array_equal(found[0], places.astype(indices), strict=True)
    np.testing.assert_array_equal(found[1], np.take_along_axis(given, places, 2), strict=True)


@pytest.mark.parametrize("method", ["nearest_neighbor", "linear"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners"])
def test_a_resize_keeps_its_coordinates(method: str, coordinates: str) -> None:
    def build(_: Any, x: relax.Var) -> list[relax.Expr]:
        how = {"method": method, "coordinate_transformation_mode": coordinates}
        return [op.image.resize2d(x, (12, 24), layout="NCHW", **how)]

    module = network(build, IMAGE)
    given = np.random.default_rng(1).random(IMAGE).astype("float32")
    (found,) = run(export_sub_model(region_of(module), 0), given)
    np.testing.assert_allclose(found, vm_outputs(module, given)[0], rtol=1e-5, atol=1e-6)


def quantized(dtype: str, scale: float, zero_point: int) -> Any:
    """Return a convolution with a scale for each channel, between integers."""

    def build(_: Any, x: relax.Var) -> list[relax.Expr]:
        grid = relax.const(np.float32(scale)), relax.const(np.array(zero_point, dtype))
        weights = np.random.default_rng(2).integers(-127, 128, (6, 4, 3, 3)).astype("int8")
        scales = relax.const(np.linspace(0.002, 0.01, 6).astype("float32"))
        zeros = relax.const(np.zeros(6, "int8"))
        kernel = op.dequantize(relax.const(weights), scales, zeros, axis=0)
        result = op.nn.conv2d(op.dequantize(x, *grid), kernel, padding=1)
        larger = relax.const(np.float32(8 * scale)), grid[1]
        return [op.quantize(op.nn.relu(result), *larger, out_dtype=dtype)]

    return network(build, IMAGE, dtype)


@pytest.mark.parametrize(
    ("dtype", "scale", "zero_point"),
    [("int8", 0.02, -7), ("uint8", 0.02, 128), ("int16", 1e-4, 0), ("uint16", 1e-4, 32768)],
)
def test_a_quantized_region_stays_quantized(dtype: str, scale: float, zero_point: int) -> None:
    module = quantized(dtype, scale, zero_point)
    limits = np.iinfo(dtype)
    given = np.random.default_rng(3).integers(limits.min, limits.max, IMAGE).astype(dtype)
    model = export_sub_model(region_of(module), 2)
    kinds = [n.op_type for n in onnx.load_model_from_string(model.data).graph.node]
    assert kinds.count("DequantizeLinear") == 2
    assert kinds.count("QuantizeLinear") == 1
    assert [t.name for t in (*model.inputs, *model.outputs)] == ["tidl_2_i0", "tidl_2_o0"]
    (found,) = run(model, given)
    (expected,) = vm_outputs(module, given)
    assert found.dtype == dtype
    assert np.abs(found.astype("int64") - expected).max() <= (1 if "16" in dtype else 0)


def channels_last(bias: tuple[int, ...]) -> Any:
    """Return two quantized convolutions with a bias, as TFLite writes them."""

    def stored(shape: tuple[int, ...], dtype: str, axis: int) -> relax.Expr:
        array = np.random.default_rng(4).integers(-90, 90, shape).astype(dtype)
        scales = relax.const(np.linspace(0.002, 0.01, shape[axis]).astype("float32"))
        zeros = relax.const(np.zeros(shape[axis], dtype))
        return op.dequantize(relax.const(array), scales, zeros, axis=axis)

    def build(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        for name in ("first", "second"):
            real = op.dequantize(x, relax.const(np.float32(0.05)), relax.const(np.int8(3)))
            layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI", "out_layout": "NHWC"}
            kernel = stored((8, 3, 3, 8), "int8", 0)
            sums = builder.emit(op.nn.conv2d(real, kernel, padding=1, **layouts), name)
            total = op.nn.relu(op.add(stored(bias, "int32", len(bias) - 1), sums))
            grid = relax.const(np.float32(0.05)), relax.const(np.int8(-128))
            x = builder.emit(op.quantize(total, *grid, out_dtype="int8"))
        return [x]

    return network(build, IMAGE, "int8")


@pytest.mark.parametrize("bias", [(8,), (1, 1, 8), (1, 1, 1, 8)])
def test_images_with_the_channels_last_are_transposed_only_at_the_ends(bias: Any) -> None:
    module = channels_last(bias)
    given = np.random.default_rng(3).integers(-128, 128, IMAGE).astype("int8")
    model = export_sub_model(region_of(module), 0)
    nodes = onnx.load_model_from_string(model.data).graph.node
    kinds = [n.op_type for n in nodes]
    assert {n.name for n in nodes if n.op_type == "Conv"} == {"first", "second"}
    assert kinds.count("Transpose") == 2
    assert kinds.count("DequantizeLinear") == 6
    assert [len(n.input) for n in nodes if n.op_type == "Conv"] == [3, 3]  # the bias is the third
    assert "Add" not in kinds
    (found,) = run(model, given)
    (expected,) = vm_outputs(module, given)
    assert len(np.unique(expected)) > 50
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("bias", "inputs"),
    [
        (values(4, 1, 1), 3),
        (values(1, 4, 1, 1), 3),
        (values(8), 2),  # by column
        (relax.const(np.float32(2)), 2),  # one for all channels
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_constant_by_channel_is_a_convolutions_third_input(
    bias: relax.Expr, inputs: int, transposed: bool
) -> None:
    convolve = op.nn.conv2d_transpose if transposed else op.nn.conv2d
    module = network(
        lambda b, x: [op.add(bias, b.emit(convolve(x, values(4, 4, 3, 3), padding=1)))], IMAGE
    )
    given = np.random.default_rng(3).random(IMAGE).astype("float32")
    model = export_sub_model(region_of(module), 0)
    (node,) = (n for n in onnx.load_model_from_string(model.data).graph.node if "Conv" in n.op_type)
    assert len(node.input) == inputs
    (found,) = run(model, given)
    np.testing.assert_allclose(found, vm_outputs(module, given)[0], rtol=1e-5, atol=1e-5)


def test_a_sum_that_another_operator_reads_keeps_its_convolution_without_bias() -> None:
    def build(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        sums = builder.emit(op.nn.conv2d(x, values(4, 4, 3, 3), padding=1))
        return [op.add(sums, values(4, 1, 1)), op.nn.relu(sums)]

    module = network(build, IMAGE)
    given = np.random.default_rng(3).random(IMAGE).astype("float32")
    found = run(export_sub_model(region_of(module), 0), given)
    for ours, theirs in zip(found, vm_outputs(module, given), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_what_has_no_form_is_named() -> None:
    module = network(lambda builder, x: [builder.emit(op.sign(x), "odd")], IMAGE)
    with pytest.raises(UserError, match=r"no form in a sub-model:\n  sign \('odd'\)"):
        export_sub_model(region_of(module), 0)
