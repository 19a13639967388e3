"""A Relax module as ONNX computes TVM's results, with channels first or last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.models.onnx.float_export import export_onnx
from firmwright.quantize.float_graph import evaluate

SHAPE = (1, 6, 5, 4)
Emit = Callable[[relax.Expr], relax.Var]
Build = Callable[[Emit, relax.Var], relax.Expr]


def constant(*shape: int, seed: int = 0) -> relax.Expr:
    array = np.random.default_rng(seed).normal(0, 1, shape).astype("float32")
    return relax.const(array, "float32")


def module_of(build: Build) -> tuple[tvm.IRModule, ModelInterface]:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(build(builder.emit, x))
        builder.emit_func_output(result)
    module = builder.get()
    shape = tuple(int(d) for d in module["main"].ret_ty.shape)
    ends = (Tensor("x", SHAPE, "float32"),), (Tensor("y", shape, "float32"),)
    return module, ModelInterface("tflite", "0", *ends, ())


def by_tvm(module: tvm.IRModule, x: Any) -> Any:
    compiled = relax.build(module, "llvm")
    return relax.VirtualMachine(compiled, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()


def conv(data: relax.Expr, channels: int = 8, layout: str = "NHWC", **options: Any) -> relax.Expr:
    depth = int(data.ty.shape[layout.index("C")])
    groups = options.get("groups", 1)
    shape = (3, 3, depth // groups, channels)
    if layout == "NCHW":
        shape = (channels, depth // groups, 3, 3)
    return relax.op.nn.conv2d(
        data, constant(*shape), data_layout=layout,
        kernel_layout="HWIO" if layout == "NHWC" else "OIHW", **options,
    )  # fmt: skip


def residual(emit: Emit, x: relax.Var) -> relax.Expr:
    summed = emit(relax.op.add(emit(conv(x, padding=(1, 0, 1, 2))), constant(8, seed=1)))
    first = emit(relax.op.nn.relu(summed))
    second = emit(conv(first, padding=1, groups=8))
    joined = emit(relax.op.add(second, first))
    flat = emit(relax.op.reshape(joined, (1, 6 * 5 * 8)))
    return relax.op.matmul(flat, constant(6 * 5 * 8, 3))


def pooled(emit: Emit, x: relax.Var) -> relax.Expr:
    wide = emit(relax.op.clip(emit(conv(x, padding=1)), 0, 1))
    largest = emit(
        relax.op.nn.max_pool2d(wide, (3, 2), strides=(2, 1), padding=(1, 0, 1, 1), layout="NHWC")
    )
    mean = emit(relax.op.nn.avg_pool2d(largest, (2, 2), padding=(1, 0, 0, 1), layout="NHWC"))
    return relax.op.nn.softmax(emit(relax.op.mean(mean, [1, 2])), axis=-1)


def padded(emit: Emit, x: relax.Var) -> relax.Expr:
    wide = emit(conv(x, padding=1))
    larger = emit(relax.op.nn.pad(wide, [0, 0, 1, 2, 3, 0, 0, 1], "constant", 0.5))
    kept = emit(relax.op.mean(larger, [1], keepdims=True))
    return relax.op.mean(emit(relax.op.multiply(larger, kept)), [3])


def joined(emit: Emit, x: relax.Var) -> relax.Expr:
    left, right = emit(conv(x, padding=1)), emit(relax.op.sigmoid(emit(conv(x, 2, padding=1))))
    both = emit(relax.op.concat([left, right], axis=3))
    small = emit(relax.op.nn.adaptive_avg_pool2d(both, (1, 1), layout="NHWC"))
    return relax.op.squeeze(emit(relax.op.nn.leakyrelu(small, 0.1)), [1, 2])


def channels_first(emit: Emit, x: relax.Var) -> relax.Expr:
    wide = emit(conv(x, 4, "NCHW", strides=2, dilation=(1, 1)))
    scaled = emit(relax.op.divide(wide, emit(relax.op.exp(wide))))
    return relax.op.permute_dims(emit(relax.op.subtract(scaled, constant(4, 1, 1))), [0, 2, 3, 1])


def input_twice(emit: Emit, x: relax.Var) -> relax.Expr:
    # One operand already has its channels first at this point, the other one never had.
    return relax.op.maximum(emit(conv(x, 4, padding=1)), x)


def one_dimension(emit: Emit, x: relax.Var) -> relax.Expr:
    sequence = emit(relax.op.reshape(x, (1, 6, 20)))
    wide = emit(relax.op.nn.conv1d(sequence, constant(8, 3, 3), padding=(2, 0), groups=2))
    gated = emit(relax.op.nn.silu(emit(relax.op.add(wide, constant(1, 8, 1, seed=1)))))
    small = emit(relax.op.nn.max_pool1d(gated, 2, strides=2))
    longer = emit(raise_resolution(relax.op.nn.conv1d_transpose, emit, small, (8, 4, 4)))
    return relax.op.strided_slice(longer, [2], [-9], [2**31 - 1], [2])


def raise_resolution(
    operator: Callable[..., relax.Expr], emit: Emit, x: relax.Expr, weights: tuple[int, ...]
) -> relax.Expr:
    """Return a transposed convolution with a bias."""
    ones = [1] * (len(weights) - 2)
    wide = emit(operator(x, constant(*weights), strides=2, padding=1))
    return relax.op.add(wide, constant(1, weights[1], *ones, seed=2))


def attended(emit: Emit, x: relax.Var) -> relax.Expr:
    rows = emit(relax.op.reshape(x, (1, 30, 4)))
    norm = emit(relax.op.nn.layer_norm(rows, constant(4), constant(4, seed=1), axes=-1))
    weights = emit(relax.op.broadcast_to(emit(relax.op.nn.gelu(norm)), (2, 30, 4)))
    scores = emit(relax.op.matmul(weights, emit(relax.op.permute_dims(norm, [0, 2, 1]))))
    state = emit(relax.op.full((30, 1), relax.const(0.25, "float32"), "float32"))
    found = emit(relax.op.matmul(emit(relax.op.nn.softmax(scores)), state))
    last = emit(relax.op.take(found, relax.const(29, "int64"), axis=1))
    return relax.op.sum(emit(relax.op.cos(last)), axis=[0], keepdims=True)


def compared(emit: Emit, x: relax.Var) -> relax.Expr:
    smooth = emit(relax.op.nn.gelu_tanh(emit(conv(x, 4, padding=1))))
    above = emit(relax.op.greater(smooth, relax.const(0.1, "float32")))
    same = emit(relax.op.logical_not(emit(relax.op.equal(smooth, x))))
    chosen = emit(relax.op.where(emit(relax.op.logical_and(above, same)), smooth, x))
    thirds = emit(relax.op.nn.adaptive_avg_pool2d(chosen, (3, 5), layout="NHWC"))
    return relax.op.nn.log_softmax(thirds, axis=-1)


def transposed(emit: Emit, x: relax.Var) -> relax.Expr:
    return raise_resolution(relax.op.nn.conv2d_transpose, emit, x, (6, 3, 4, 4))


def transposed_read_twice(emit: Emit, x: relax.Var) -> relax.Expr:
    wide = emit(relax.op.nn.conv2d_transpose(x, constant(6, 3, 2, 2), strides=2))
    summed = emit(relax.op.add(wide, constant(1, 3, 1, 1)))
    return relax.op.multiply(wide, summed)


def normalized(emit: Emit, x: relax.Var) -> relax.Expr:
    factors, offsets = emit(relax.op.tile(constant(2), 3)), constant(6, seed=1)
    groups = emit(
        relax.op.nn.group_norm(
            x, factors, offsets, num_groups=3, channel_axis=1, axes=[2, 3], epsilon=1e-3
        )
    )
    # torch's program also normalizes along the batch.
    return relax.op.nn.instance_norm(groups, offsets, factors, channel_axis=1, axes=[0, 2, 3])


@pytest.mark.parametrize(
    "build",
    [
        residual,
        pooled,
        padded,
        joined,
        channels_first,
        input_twice,
        one_dimension,
        attended,
        compared,
        transposed,
        transposed_read_twice,
        normalized,
    ],
    ids=lambda b: b.__name__,
)
def test_same_results_as_tvm(build: Build) -> None:
    module, interface = module_of(build)
    model = onnx.load_model_from_string(export_onnx(module, interface))
    onnx.checker.check_model(model, full_check=True)
    x = np.random.default_rng(5).normal(0, 1, SHAPE).astype("float32")
    (found,) = evaluate(model, [{"x": x}])
    wanted = by_tvm(module, x)
    assert found["y"].shape == wanted.shape
    assert np.allclose(found["y"], wanted, rtol=1e-4, atol=1e-5)


def test_one_transpose_in_front_and_one_behind() -> None:
    model = onnx.load_model_from_string(export_onnx(*module_of(residual)))
    assert [n.op_type for n in model.graph.node].count("Transpose") == 2


def test_a_transposed_convolution_takes_its_bias() -> None:
    graph = onnx.load_model_from_string(export_onnx(*module_of(transposed))).graph
    assert [n.op_type for n in graph.node] == ["ConvTranspose", "Identity"]
    assert len(graph.node[0].input) == 3


def test_limits_of_a_clip_are_scalars() -> None:
    graph = onnx.load_model_from_string(export_onnx(*module_of(pooled))).graph
    (clip,) = [n for n in graph.node if n.op_type == "Clip"]
    assert [list(i.dims) for i in graph.initializer if i.name in clip.input[1:]] == [[], []]


def test_operators_without_a_form_are_all_named() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        return relax.op.cumsum(emit(relax.op.flip(x, 1)), 2)

    with pytest.raises(UserError) as raised:
        export_onnx(*module_of(build))
    assert "operators that cannot be quantized:\n  cumsum (" in str(raised.value)
    assert "  flip (" in str(raised.value)
    assert str(raised.value).endswith("or end it before these operators")


def test_quantized_modules_are_refused() -> None:
    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        scale, zero_point = relax.const(0.5, "float32"), relax.const(0, "int8")
        small = emit(relax.op.quantize(x, scale, zero_point, axis=-1, out_dtype="int8"))
        return relax.op.dequantize(small, scale, zero_point, axis=-1, out_dtype="float32")

    with pytest.raises(UserError, match="is already quantized: it has dequantize and quantize"):
        export_onnx(*module_of(build))
