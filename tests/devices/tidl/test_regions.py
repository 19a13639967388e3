"""Layers become regions; the user's lists and limits also decide; regions run as a whole."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.devices.tidl import TIDL
from firmwright.devices.tidl.placing import place_regions
from firmwright.errors import UserError
from firmwright.models.onnx import importer as onnx
from firmwright.models.relax.importer import run_reference
from firmwright.models.tflite import importer as tflite
from firmwright.targets import Context, Device
from firmwright.targets.load_devices import load_target
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize
from firmwright.transforms.optional import apply_transforms
from tests.lowering.test_tflite_networks import mirrored
from tests.networks.firmware import lowered, random_samples, run_generated
from tests.networks.onnx_models import graph, node, value

from .networks import names, network, placed, sentences, values

op = relax.op


def named(builder: relax.BlockBuilder, expression: relax.Expr, name: str) -> relax.Var:
    return builder.emit(expression, name)


def branches(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
    """A convolution, an operator that TIDL does not have, and the sum of both; one more branch."""
    a = named(builder, op.nn.conv2d(x, values(4, 4, 3, 3), padding=1), "a")
    odd = named(builder, op.sign(a), "odd")
    b = named(builder, op.nn.max_pool2d(a, [2, 2], [2, 2]), "b")
    c = named(builder, op.nn.max_pool2d(op.nn.relu(op.add(a, odd)), [2, 2], [2, 2]), "c")
    return [op.add(b, c), op.nn.softmax(b, -1)]


def line(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
    a = named(builder, op.nn.conv2d(x, values(8, 4, 3, 3), padding=1), "a")
    odd = named(builder, op.sign(a), "odd")
    b = named(builder, op.nn.max_pool2d(odd, [2, 2], [2, 2]), "b")
    return [op.nn.conv2d(b, values(4, 8, 1, 1))]


def test_neighbors_are_one_region_with_several_results() -> None:
    module = network(branches)
    (first, second) = names(placed(module))
    assert "a" in first
    assert "b" in first
    assert "c" in second
    reasons = [c.reason for c in placed(module).composites]
    assert reasons[0] == "TIDL runs all 3 layers of it"
    assert reasons[1] == (
        "TIDL runs all 2 layers of it; it is a separate region because of sign ('odd') before "
        "it: TIDL has no sign"
    )


@pytest.mark.parametrize("axis", [0, 2])
def test_a_channel_shuffle_separates_no_regions(axis: int) -> None:
    def shuffle(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        a = named(builder, op.nn.conv2d(x, values(4, 4, 1, 1)), "a")
        pairs = op.reshape(a, (1, 2, 2, 8, 8) if axis else (2, 1, 2, 8, 8))
        left, right = (op.take(pairs, relax.const(i, "int64"), axis) for i in (0, 1))
        return [op.add(op.nn.conv2d(left, values(2, 2, 1, 1)), right)]

    module = apply_transforms(network(shuffle), TIDL.rewrites)
    assert len(placed(network(shuffle)).composites) == 2
    assert len(placed(module).composites) == 1


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("target", ["tidl -tensor_bits=32, c", "tidl -tensor_bits=32, c7x"])
def test_an_operator_of_two_results_is_taken_or_left(
    axis: int, target: str, tmp_path: Path
) -> None:
    def build(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        a = named(builder, op.nn.conv2d(x, values(4, 4, 1, 1)), "a")
        both = named(builder, op.topk(a, 2, axis), "both")
        return [relax.TupleGetItem(both, i) for i in (0, 1)]

    module = network(build)
    (taken,) = names(placed(module))
    assert ("both" in taken) == (axis == 2)
    data = tvm.ir.save_json(module).encode()
    given = np.random.default_rng(3).permutation(256).reshape(1, 4, 8, 8).astype("float32")
    found = run_generated(data, [{"x": given}], tmp_path, format_name="relax", target=target)
    expected = run_reference(data, [{"x": given}]).outputs
    for ours, theirs in zip(found[0], expected[0], strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("quantizes", [True, False])
def test_a_region_that_only_dequantizes_is_left(quantizes: bool) -> None:
    grid = relax.const(np.float32(0.25)), relax.const(np.int8(0))

    def build(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        a = builder.emit(op.dequantize(x, *grid))
        if quantizes:
            a = builder.emit(op.quantize(op.nn.relu(a), *grid, out_dtype="int8"))
            a = builder.emit(op.dequantize(a, *grid))
        return [builder.emit(op.argmax(a, 1, True), "largest")]

    placement = placed(network(build, dtype="int8"), tensor_bits="8", min_macs="0")
    assert len(placement.composites) == quantizes
    if not quantizes:
        assert "does not quantize" in sentences(placement)["dequantized region"]


def test_a_layer_without_a_name_goes_by_its_operator() -> None:
    module = network(lambda _, x: [op.nn.relu(op.sign(op.nn.relu(x)))])
    assert "a separate region because of sign before it" in placed(module).composites[1].reason


@pytest.mark.parametrize("build", [branches, line], ids=["branches", "line"])
@pytest.mark.parametrize("target", ["tidl -tensor_bits=32, c", "c"])
def test_the_regions_compute_what_the_network_says(build: Any, target: str, tmp_path: Path) -> None:
    data = tvm.ir.save_json(network(build)).encode()
    # Small whole numbers: every sum is exact, in any order.
    given = np.random.default_rng(3).integers(-4, 5, (1, 4, 8, 8)).astype("float32")
    samples = [{"x": given}]
    found = run_generated(data, samples, tmp_path, format_name="relax", target=target)
    expected = run_reference(data, samples).outputs
    for ours, theirs in zip(found[0], expected[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    kernels = lowered(data, "relax", target=target).kernels.kernels
    stand_ins = [k.region for k in kernels if "TIDL" in (k.stand_in or "")]
    assert len(stand_ins) == (0 if target == "c" else 2)


def test_regions_of_few_multiplications_stay_behind() -> None:
    placement = placed(network(line), max_num_subgraphs="1")
    assert names(placement) == [["a"]]
    assert sentences(placement)["max_num_subgraphs"] == (
        "the maximum is 1, and other regions have at least 512 multiply-accumulates"
    )
    placement = placed(network(line), min_macs="513")
    assert names(placement) == [["a"]]
    assert "512 multiply-accumulates, less than 513" in sentences(placement)["min_macs"]


def test_regions_of_equal_work_are_not_told_to_have_less() -> None:
    def build(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        a = named(builder, op.nn.conv2d(x, values(4, 4, 1, 1)), "a")
        return [op.nn.conv2d(named(builder, op.sign(a), "odd"), values(4, 4, 1, 1))]

    said = sentences(placed(network(build), max_num_subgraphs="1"))["max_num_subgraphs"]
    assert said == "the maximum is 1, and other regions have at least 1,024 multiply-accumulates"


@pytest.mark.parametrize(
    ("platform", "rest", "options", "side", "offloaded"),
    [
        ("am62a", "c", {}, 8, False),
        ("am62a", "c", {"min_macs": "0"}, 8, True),
        ("am62a", "c", {}, 400, True),  # 5 MB at half a byte per cycle
        ("am62a", "c7x", {}, 8, True),  # the C7x calls TIDL itself
        ("host", "c", {}, 8, True),  # without a stated time
    ],
)
def test_a_region_without_products_is_worth_no_long_call(
    platform: str, rest: str, options: dict[str, str], side: int, offloaded: bool
) -> None:
    module = network(lambda _, x: [op.nn.relu(op.sign(x))], (1, 4, side, side))
    chip = load_platform(platform)
    behind = Device(load_target(rest), Context(chip, "onnx", {}))
    placement = place_regions(canonicalize(module), Context(chip, "onnx", options, fallback=behind))
    assert len(placement.composites) == offloaded
    if not offloaded:
        assert sentences(placement)["region without products"] == (
            "its region has no multiply-accumulates: calling TIDL costs 620 us, and c runs all its "
            "layers in an estimated 3 us; min_macs=0 offloads the region anyway"
        )


def fan(count: int) -> Any:
    """Return a network of one region that returns ``count`` results."""

    def build(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        a = named(builder, op.nn.conv2d(x, values(4, 4, 3, 3)), "a")
        return [op.clip(a, -1, 1 + i) for i in range(count)]

    return network(build)


def sum_of(count: int) -> Any:
    """Return a network of one region that reads ``count`` results of operators that TIDL lacks."""

    def build(builder: relax.BlockBuilder, x: relax.Var) -> list[relax.Expr]:
        signs = [named(builder, op.sign(x), "sign")]
        for _ in range(1, count):
            signs.append(named(builder, op.sign(signs[-1]), "sign"))
        return [reduce(op.add, signs)]

    return network(build)


@pytest.mark.parametrize(
    ("build", "rule", "verb"),
    [(fan, "outputs of a region", "hand on"), (sum_of, "inputs of a region", "read")],
)
def test_a_region_has_32_inputs_and_outputs_at_most(build: Any, rule: str, verb: str) -> None:
    most = placed(build(32))
    assert rule not in sentences(most)
    assert len(names(most)) == 1
    one_more = placed(build(33))
    assert sentences(one_more)[rule] == f"its region would {verb} 33 tensors; TIDL supports 32"
    assert not names(one_more)


def test_the_users_lists_decide() -> None:
    for max_pool in ("max_pool2d", "MaxPool", "MAX_POOL_2D"):
        denied = placed(network(line), deny_list__layer_type=max_pool)
        assert names(denied) == [["a"], ["gv"]]
        rule = "deny_list:layer_type"
        assert sentences(denied)[rule] == f"the target's {rule} names '{max_pool}'"
    assert names(placed(network(line), deny_list__layer_type="Conv")) == [["b"]]
    assert names(placed(network(line), deny_list__layer_name="a, b")) == [["gv"]]
    allowed = placed(network(line), allow_list__layer_name="b")
    assert names(allowed) == [["b"]]
    assert "does not name it" in sentences(allowed)["allow_list:layer_name"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deny_list__layer_name": "aa"}, "deny_list:layer_name: the network has no 'aa'"),
        ({"deny_list__layer_type": "max_pol2d"}, "no 'max_pol2d'; did you mean 'max_pool2d'"),
        (
            {"deny_list__layer_name": "a", "allow_list__layer_name": "b"},
            "an allow_list or deny_lists, not both",
        ),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        placed(network(line), **options)


def test_a_convolution_of_stride_1x2_is_taken_after_the_rewrite(tmp_path: Path) -> None:
    module = network(lambda _, x: [op.nn.conv2d(x, values(8, 4, 3, 3), strides=[1, 2], padding=1)])
    assert "its strides are [1, 2]" in sentences(placed(module))["equal strides"]
    after = apply_transforms(module, TIDL.rewrites)
    assert len(placed(after).composites) == 1
    assert "[1, 1] with strides [1, 2]" in sentences(placed(after))["pooling"]
    samples = [{"x": np.random.default_rng(3).normal(0, 1, (1, 4, 8, 8)).astype("float32")}]
    target = "tidl -tensor_bits=32, c"
    data = tvm.ir.save_json(after).encode()
    found = run_generated(data, samples, tmp_path, format_name="relax", target=target)
    expected = run_reference(tvm.ir.save_json(module).encode(), samples).outputs
    np.testing.assert_allclose(found[0][0], expected[0][0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["Elu", "HardSigmoid", "HardSwish", "Mish"])
def test_an_activation_of_several_operators_is_one_region(kind: str) -> None:
    shape = [1, 4, 8, 8]
    made = graph([node(kind, ["x"], ["y"])], [value("x", shape)], [value("y", shape)])
    module, _ = onnx.import_model(made.SerializeToString(), "test", {})
    placement = placed(module, "j784s4")
    assert not placement.violations
    assert len(placement.composites) == 1


def named_model() -> bytes:
    """Return an ONNX model of two convolutions around an operator that TIDL does not have."""
    weights = (np.arange(36) % 5 - 2).reshape(2, 2, 3, 3).astype("float32")
    nodes = [
        node("Conv", ["x", "w"], ["a"], name="first", pads=[1, 1, 1, 1]),
        node("Sign", ["a"], ["b"], name="between"),
        node("Conv", ["b", "w"], ["c"], name="second", pads=[1, 1, 1, 1]),
    ]
    shape = [1, 2, 4, 4]
    made = graph(nodes, [value("x", shape)], [value("c", shape)], {"w": weights})
    return bytes(made.SerializeToString())


def test_an_outputs_layer_goes_by_the_models_name() -> None:
    partition = lowered(named_model(), "onnx", target="tidl -tensor_bits=32, c").partition
    assert [region.sources for region in partition.regions] == [
        ("first",),
        ("between",),
        ("second",),
    ]
    assert "because of sign ('between') before it" in partition.regions[2].reason
    target = "tidl -tensor_bits=32 -deny_list:layer_name=second, c"
    partition = lowered(named_model(), "onnx", target=target).partition
    assert [region.device for region in partition.regions] == ["tidl", "c", "c"]


def test_a_tflite_network_is_one_region(tmp_path: Path) -> None:
    """The channels of its images are last."""
    data = mirrored("pretrainedResnet_quant.tflite").read_bytes()
    samples = random_samples(data, 3, seed=1)
    found = run_generated(data, samples, tmp_path, target="tidl, c")
    for ours, theirs in zip(found, tflite.run_reference(data, samples).outputs, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    (region,) = lowered(data, target="tidl, c").partition.regions
    assert (region.device, region.reason) == ("tidl", "TIDL runs all 15 layers of it")
