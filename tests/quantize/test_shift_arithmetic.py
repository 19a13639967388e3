"""QDQ graphs with powers of two in shift arithmetic: their results, and rejected graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper
from tvm import relax

from firmwright.compile import compile_network
from firmwright.data.samples import random_samples
from firmwright.errors import UserError
from firmwright.ir.relax import main_bindings, operator_name
from firmwright.ir.tensors import ModelInterface
from firmwright.models.onnx import importer
from firmwright.quantize.calibration import calibrate
from firmwright.quantize.float_graph import evaluate
from firmwright.quantize.integer_io import remove_float_io
from firmwright.quantize.qdq_graph import quantize
from firmwright.quantize.shift_arithmetic import make_shift_network, rewrite_to_shifts
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.verify.protocol import decode_outputs
from tests.networks.firmware import executed, run_generated

from ..devices.soma_dory.reference import evaluated
from .networks import Array, graph_of, options, ready, residual_network, samples

SHIFT = {"scheme": "pow2", "arithmetic": "shift", "per_channel": False}


def quantized(data: bytes, **changes: Any) -> tuple[onnx.ModelProto, bytes]:
    """Return the QDQ graph with float32 inputs, and as bytes the graph without them."""
    chosen = options(**{**SHIFT, **changes})
    model = ready(data)
    found = quantize(model, calibrate(model, samples(24)), chosen)
    inner = onnx.ModelProto()
    inner.CopyFrom(found)
    return found, inner.SerializeToString()


def shifted(data: bytes, **changes: Any) -> tuple[tvm.IRModule, ModelInterface]:
    inner = onnx.load_model_from_string(quantized(data, **changes)[1])
    remove_float_io(inner)
    module, interface = importer.import_model(inner.SerializeToString(), "network", {})
    return make_shift_network(module, interface)


def kinds(module: tvm.IRModule) -> list[str]:
    return [operator_name(b.value).removeprefix("relax.") for b in main_bindings(module)]


def test_no_float_is_left_and_the_c_equals_numpy(tmp_path: Path) -> None:
    module, interface = shifted(residual_network())
    assert not {"quantize", "dequantize", "nn.relu"} & set(kinds(module))
    given = [dict(s) for s in random_samples(interface.inputs, 20, 3)]
    data = tvm.ir.save_json(module).encode()
    found = run_generated(data, given, tmp_path, format_name="relax")
    for sample, outputs in zip(given, found, strict=True):
        np.testing.assert_array_equal(outputs[0], evaluated(module, sample)[0])


def test_operators_that_are_not_fused_compute_the_same(tmp_path: Path) -> None:
    module, interface = shifted(residual_network())
    mix = load_mix(parse_target("c"), load_platform("host"), "onnx", fuse_layers=False)
    network = compile_network(module, interface, mix)
    assert () in {t.shape for t in network.partition.tensors}
    given = [dict(s) for s in random_samples(interface.inputs, 3, 3)]
    ran = executed(network, given, tmp_path)
    found = decode_outputs(ran.console, network.interface.outputs, len(given), ran.exit_code)
    for sample, outputs in zip(given, found, strict=True):
        np.testing.assert_array_equal(outputs[0], evaluated(module, sample)[0])


def test_a_device_has_no_layout_for_numbers_that_others_read() -> None:
    module, interface = shifted(residual_network())
    mix = load_mix(parse_target("soma_dory, c"), load_platform("diana"), "onnx", fuse_layers=False)
    partition = compile_network(module, interface, mix).partition
    assert {t.storage for t in partition.tensors if t.shape == ()} == {None}
    assert "soma_dory" in {r.device for r in partition.regions}


def test_results_are_those_of_the_qdq_graph_but_for_halves() -> None:
    fake, _ = quantized(residual_network())
    module, interface = shifted(residual_network())
    (x,), (y,) = interface.inputs, interface.outputs
    assert x.scale is not None
    assert y.scale is not None
    differences = []
    for sample in samples(40, seed=5):
        integers = np.clip(np.rint(sample["x"] / x.scale), -128, 127).astype("int8")
        wanted = next(evaluate(fake, [sample]))["y"] / y.scale
        differences.append(evaluated(module, {"x": integers})[0] - wanted)
    assert np.abs(differences).max() <= 1
    assert np.mean(np.array(differences) == 0) > 0.9


@pytest.mark.parametrize("size", [(8, 8), (25, 5)], ids=str)
@pytest.mark.parametrize("finer", [0, 2])
def test_means_are_rounded_to_the_nearest_step(size: tuple[int, int], finer: int) -> None:
    x = relax.Var("x", relax.TensorType((1, 16, *size), "int8"))
    zero = relax.const(np.array(0, "int8"))
    steps = [relax.const(np.array(2.0**e, "float32")) for e in (-3, -3 - finer)]
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        real = builder.emit(relax.op.dequantize(x, steps[0], zero, axis=1))
        mean = builder.emit(relax.op.mean(real, [2, 3], keepdims=True))
        builder.emit_func_output(builder.emit(relax.op.quantize(mean, steps[1], zero, axis=1)))
    module = rewrite_to_shifts(builder.get())
    assert ("multiply" in kinds(module)) == (size != (8, 8))
    make = np.random.default_rng(1)
    for low, high in ((-128, -127), (-128, 128), (0, 40), (126, 128)):
        image = make.integers(low, high, (1, 16, *size), "int8")
        exact = np.clip(image.mean(axis=(2, 3)) * 2**finer, -128, 127)
        found = evaluated(module, {"x": image})[0].reshape(exact.shape)
        assert np.abs(found - exact).max() <= 0.501


def after_convolution(kind: str, **attributes: Any) -> tuple[tvm.IRModule, ModelInterface]:
    """Return a convolution, a node of that kind, and then the mean of each channel."""
    node = helper.make_node
    weights = np.random.default_rng(2).normal(0, 1, (4, 3, 1, 1)).astype("float32")
    nodes = [
        node("Conv", ["x", "w"], ["sums"], "conv"),
        node(kind, ["sums"], ["last"], "last", **attributes),
        node("GlobalAveragePool", ["last"], ["mean"], "mean"),
        node("Flatten", ["mean"], ["y"], "flat"),
    ]
    return shifted(graph_of(nodes, {"w": weights}, 4))


def test_maxima_are_those_of_the_integers() -> None:
    module, interface = after_convolution("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    pool = next(b.value for b in main_bindings(module) if "max_pool2d" in operator_name(b.value))
    assert str(pool.ty.dtype) == "int8"
    assert not {"dequantize", "quantize"} & set(kinds(module))
    assert evaluated(module, random_samples(interface.inputs, 1, 1)[0])[0].dtype == np.int8


def test_a_softmax_stays_between_dequantize_and_quantize() -> None:
    found = kinds(after_convolution("Softmax", axis=1)[0])
    start = found.index("dequantize")
    assert found[start : start + 3] == ["dequantize", "nn.softmax", "quantize"]


def dense(
    weights: Array,
    exponents: tuple[int, int, int] = (-4, -4, -4),
    scale: float | list[float] | None = None,
) -> tvm.IRModule:
    """Return x (1, inputs) times weights (inputs, outputs); exponents are of x, weights, result."""
    x = relax.Var("x", relax.TensorType((1, len(weights)), "int8"))
    steps = [np.array(2.0**e, "float32") for e in exponents]
    if scale is not None:
        steps[1] = np.asarray(scale, "float32")
    zeros = [np.zeros(s.shape, "int8") for s in steps]
    builder = relax.BlockBuilder()
    grids = [(relax.const(s), relax.const(z)) for s, z in zip(steps, zeros, strict=True)]
    with builder.function("main", [x]):
        real = builder.emit(relax.op.dequantize(x, *grids[0], axis=1))
        factor = builder.emit(relax.op.dequantize(relax.const(weights), *grids[1], axis=1))
        sums = builder.emit(relax.op.matmul(real, factor), "head")
        builder.emit_func_output(builder.emit(relax.op.quantize(sums, *grids[2], axis=1)))
    return builder.get()


ONES = np.ones((3, 2), "int8")


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (dense(ONES, scale=[0.5, 0.25]), "head: its weights have a scale per channel.*per_channel"),
        (dense(ONES, scale=0.3), "head: scale 0.3 and zero point 0: .* powers of two"),
        (dense(ONES, (-4, -4, -9)), "head: needs a shift of -1; expected 0 to 31"),
        (dense(ONES, (-20, -20, -4)), "head: needs a shift of 36; expected 0 to 31"),
        (dense(np.full((140_000, 1), 127, "int8")), "head: a sum can reach 2275840008, which"),
    ],
    ids=["by channel", "no power of two", "left", "too far", "overflow"],
)
def test_what_no_shift_can_say_is_refused(module: tvm.IRModule, message: str) -> None:
    with pytest.raises(UserError, match=message):
        rewrite_to_shifts(module)


def test_halves_are_rounded_upwards() -> None:
    module = rewrite_to_shifts(dense(np.array([[1]], "int8"), (0, 0, 1)))
    found = [evaluated(module, {"x": np.array([[n]], "int8")})[0].item() for n in range(-4, 5)]
    assert found == [-2, -1, -1, 0, 0, 1, 1, 2, 2]
