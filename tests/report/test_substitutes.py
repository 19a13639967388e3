"""Substitutes for operators that a device lacks follow the advice, and save the stated time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from firmwright.compile import partition_network, prepare_module
from firmwright.ir.regions import Remedy
from firmwright.models.onnx import importer
from firmwright.recipe.target import parse_target
from firmwright.report.advice import Advice
from firmwright.report.advising import advise, find_substitute, merge_alike
from firmwright.targets import find_rewrites
from firmwright.targets.load_devices import load_mix
from firmwright.targets.timing import estimate_work_us
from firmwright.toolchain import load_platform
from tests.networks.onnx_models import graph, node, value

PICKED = np.arange(0, 8, 2)
CONSTANTS: dict[str, np.ndarray[Any, Any] | np.generic] = {
    "w": np.random.default_rng(1).normal(size=(8, 8, 3, 3)).astype("float32"),
    "zero": np.float32(0),
    "six": np.float32(6),
    "ends": np.array([8, 8]),
    "axes": np.array([1, 2]),
    "starts": np.array([0, 0]),
    "steps": np.array([2, 1]),
    "even": PICKED,
    "pick": np.eye(8, dtype="float32")[PICKED].reshape(4, 8, 1, 1),
    "narrow": np.random.default_rng(2).normal(size=(8, 4, 3, 3)).astype("float32"),
    "wide": np.random.default_rng(3).normal(size=(8, 8, 3, 3)).astype("float32"),
}


def convolve(read: str, made: str, weights: str = "w") -> onnx.NodeProto:
    return node("Conv", [read, weights], [made], name=made, pads=[1, 1, 1, 1])


def between(*nodes: onnx.NodeProto, weights: str = "wide") -> onnx.ModelProto:
    """Return a network of nodes between two convolutions, from "a" to "b"."""
    return graph(
        [convolve("x", "a"), *nodes, convolve("b", "y", weights)],
        [value("x", [1, 8, 8, 8])],
        [value("y", [1, 8, 8, 8])],
        CONSTANTS,
    )


TANH = between(node("Tanh", ["a"], ["b"], name="odd"))
RELU6 = between(node("Clip", ["a", "zero", "six"], ["b"]))
CEIL = between(node("Ceil", ["a"], ["b"], name="odd"))
FLOOR = between(
    node("Neg", ["a"], ["below"]), node("Floor", ["below"], ["low"]), node("Neg", ["low"], ["b"])
)
GATHER = between(node("Gather", ["a", "even"], ["b"], name="odd", axis=1), weights="narrow")
PICK = between(node("Conv", ["a", "pick"], ["b"]), weights="narrow")
LOG_SOFTMAX = between(node("LogSoftmax", ["a"], ["b"], name="odd", axis=-1))
LOG = between(node("Softmax", ["a"], ["shares"], axis=-1), node("Log", ["shares"], ["b"]))
POOL = between(node("MaxPool", ["a"], ["b"], name="odd", kernel_shape=[3, 3], pads=[1] * 4))
SLICE = between(
    node("Slice", ["a", "starts", "ends", "axes", "steps"], ["b"], name="odd"), weights="narrow"
)


@dataclass(frozen=True)
class Placed:
    """The advice for a network, the devices of its layers, and the microseconds of each device."""

    advice: Sequence[Advice]
    devices: set[str]
    spent: dict[str, float]


def place(model: onnx.ModelProto, target: str = "tidl, c", platform_name: str = "am62a") -> Placed:
    module, interface = importer.import_model(model.SerializeToString(), "net", {})
    platform = load_platform(platform_name)
    mix = load_mix(parse_target(target), platform, "onnx")
    regions, _, partition = partition_network(
        prepare_module(module, find_rewrites(mix)), interface, mix
    )
    sizes = {tensor.name: tensor for tensor in partition.tensors}
    spent: dict[str, float] = {}
    for region in partition.regions:
        engine = platform.timing and platform.timing.engines[region.device]
        ports = [sizes[name] for name in (*region.inputs, *region.outputs)]
        if engine:
            time = estimate_work_us(region.macs, ports, 0, engine)
            spent[region.device] = spent.get(region.device, 0) + time
    found = advise(partition, regions, mix, platform.timing)
    fallen = {next(iter(r.sources), r.name) for r in partition.regions if r.refusals and not r.view}
    assert fallen <= {layer for advice in found for layer in advice.layers}
    return Placed(found, {region.device for region in partition.regions}, spent)


def about_odd(placed: Placed) -> Advice:
    """Return the advice for the layer that fell back; it may be part of the first layer's."""
    (found,) = (
        advice
        for advice in placed.advice
        if "odd" in advice.layers or (advice.moves and "a" in advice.layers)
    )
    return found


def test_a_rule_that_is_lifted_in_words_saves_what_it_promised() -> None:
    before, after = place(TANH), place(RELU6)
    advice = about_odd(before)
    assert advice.change == "train with relu6 in place of tanh"
    assert_gain(before, after, advice)


def test_an_option_that_lifts_a_rule_saves_what_it_promised() -> None:
    before, after = place(POOL, "tidl -deny_list:layer_type=MaxPool, c"), place(POOL)
    advice = about_odd(before)
    assert advice.change == "target: tidl: remove 'MaxPool' from deny_list:layer_type"
    assert_gain(before, after, advice)


def assert_gain(before: Placed, after: Placed, advice: Advice) -> None:
    """No layer remains on the processor, and the accelerator needs hardly more time."""
    assert (advice.device, advice.moves, after.devices) == ("tidl", True, {"tidl"})
    assert advice.saves is not None
    assert before.spent["c"] * 0.8 < advice.saves < before.spent["c"]


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (LOG_SOFTMAX, LOG, "log(softmax(x)) in place of log_softmax (the same result)"),
        (CEIL, FLOOR, "-floor(-x) in place of ceil (the same result)"),
        (
            GATHER,
            PICK,
            "pick the channels by a 1 x 1 convolution with weights 0 and 1 (the same result)",
        ),
    ],
    ids=["log of softmax", "ceil", "gather"],
)
def test_the_same_result_comes_from_the_accelerator_alone(
    before: onnx.ModelProto, after: onnx.ModelProto, change: str
) -> None:
    advice = about_odd(place(before))
    assert advice.change == change
    assert "the saving is unknown (no cost model)" in advice.gain
    assert place(after).devices == {"tidl"}
    image = np.random.default_rng(0).normal(size=(1, 8, 8, 8)).astype("float32")
    expected, found = (
        onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": image})[0]
        for model in (before, after)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_a_rule_that_nothing_lifts_is_told_with_time_and_crossings() -> None:
    placed = place(SLICE)
    (advice,) = (advice for advice in placed.advice if advice.device == "c")
    assert advice.change == "tidl rejects the layer (rule 'slice'), and no accepted form is known"
    assert advice.costs == pytest.approx(placed.spent["c"])
    assert advice.gain == f"needs about {advice.costs:.1f} us and 2 crossings"
    assert advice.layers == ("odd",)


def test_a_substitute_needs_what_the_device_has() -> None:
    def find(*operators: str) -> Remedy | None:
        return find_substitute({"kind": "sigmoid"}, operators, set())

    assert find("relu6") == Remedy("train with relu6 in place of sigmoid", "same")
    assert find("relu") == Remedy("train with relu in place of sigmoid", "same")
    assert find("add") is None
    at_end = find_substitute({"kind": "sigmoid"}, ["relu6"], {"end"})
    assert at_end
    assert at_end.work == "none"


def test_what_a_layer_saves_is_not_promised_of_another() -> None:
    saving = Advice("do", ("a",), "npu", moves=True, saves=5, unit="cycles")
    unknown = Advice("do", ("b",), "npu", moves=True, saves=None, unit="cycles", costs=7)
    merged = merge_alike([saving, unknown, saving, unknown])
    assert {(advice.layers, advice.gain) for advice in merged} == {
        (("a", "a"), "saves about 10 modeled cycles"),
        (("b", "b"), "needs about 14 modeled cycles now; the saving is unknown (no cost model)"),
    }
