"""Networks after the rewrites: equal results in TVM's virtual machine, no needless change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.convolution_rewrites import rewrite_convolutions
from firmwright.devices.soma_dory.matching import read_layer
from firmwright.devices.soma_dory.placing import layers_by_match
from firmwright.devices.soma_dory.rules import check_layer
from firmwright.ir.layer import Array
from firmwright.ir.relax import main_bindings, operator_name, static_shape
from firmwright.models.relax.importer import import_model
from firmwright.partition.outline import partition_module
from firmwright.recipe.target import parse_target
from firmwright.targets import Context
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform

Zeros = Callable[[relax.Expr], relax.Expr]

CONTEXT = Context(load_platform("diana"), "onnx", {})


def network(
    shape: Sequence[int],
    kernel: Sequence[int],
    before: Zeros | None = None,
    **attributes: Any,
) -> tvm.IRModule:
    """One convolution of int8 images by weights (O, I, height, width), and its requantization."""
    values = np.random.default_rng(0).integers(-128, 128, kernel).astype("int8")
    x = relax.Var("x", relax.TensorType(tuple(shape), "int8"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            image = builder.emit(before(x)) if before else x
            weights = relax.const(values, "int8")
            sums = relax.op.nn.conv2d(image, weights, out_dtype="int32", **attributes)
            shifted = relax.op.right_shift(builder.emit(sums), relax.const(6, "int32"))
            clipped = builder.emit(relax.op.clip(builder.emit(shifted), -128, 127))
            result = builder.emit_output(relax.op.astype(clipped, "int8"))
        builder.emit_func_output(result)
    return builder.get()


def zeros(
    top: int, left: int, bottom: int, right: int, value: float = 0
) -> Callable[[relax.Expr], relax.Expr]:
    widths = [0, 0, 0, 0, top, bottom, left, right]
    return lambda x: relax.op.nn.pad(x, widths, "constant", value)


def runs_on_diana(layer: AcceleratorLayer) -> bool:
    return not check_layer(layer, load_platform("diana").accelerators["soma_dory"])


def rewritten(module: tvm.IRModule) -> tvm.IRModule:
    return rewrite_convolutions(module, layers_by_match(module, CONTEXT), runs_on_diana)


def run(module: tvm.IRModule, image: Array) -> Array:
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    return np.array(machine["main"](tvm.runtime.tensor(image)).numpy())


def operators(module: tvm.IRModule) -> list[str]:
    names = [operator_name(b.value) for b in main_bindings(module)]
    return [n.removeprefix("relax.") for n in names if n]


PLAIN = ["nn.conv2d", "right_shift", "clip", "astype"]
PAIRS = ["nn.pad", "reshape", "permute_dims", "reshape", *PLAIN]

REWRITTEN = {
    "TFLite's SAME with stride 2": (
        network((1, 3, 8, 10), (5, 3, 3, 3), strides=[2, 2], padding=[0, 0, 1, 1]),
        PLAIN,
    ),
    "TFLite's SAME with stride 2, depthwise": (
        network((2, 3, 8, 10), (3, 1, 3, 3), strides=[2, 2], padding=[0, 0, 1, 1], groups=3),
        PLAIN,
    ),
    "padding in front": (
        network((1, 2, 8, 8), (4, 2, 3, 3), zeros(1, 1, 1, 1)),
        PLAIN,
    ),
    "uneven padding in front": (
        network((1, 2, 8, 8), (4, 2, 3, 3), zeros(0, 0, 1, 1), strides=[2, 2]),
        PLAIN,
    ),
    "first layer of DS-CNN": (
        network((1, 1, 49, 10), (8, 1, 10, 4), strides=[2, 2], padding=[4, 1, 5, 1]),
        PAIRS,
    ),
    "first layer of DS-CNN, padding in front": (
        network((1, 1, 49, 10), (8, 1, 10, 4), zeros(4, 1, 5, 1), strides=[2, 2]),
        PAIRS,
    ),
    "no padding": (network((1, 2, 8, 9), (4, 2, 3, 3)), PLAIN),
    "no padding and no room for zeros": (
        network((1, 2, 8, 9), (4, 2, 5, 5), strides=[2, 2]),
        [*PLAIN, "strided_slice"],
    ),
}

LEFT_ALONE = {
    "accepted as it is": network((1, 2, 8, 8), (4, 2, 3, 3), padding=[1, 1, 1, 1]),
    "accepted behind padding": network((1, 2, 8, 8), (4, 2, 1, 1), zeros(1, 1, 1, 1)),
    "strides of two sizes": network((1, 2, 8, 8), (4, 2, 3, 3), strides=[1, 2], padding=[1] * 4),
    "no zeros in front": network(
        (1, 2, 8, 8), (2, 1, 7, 7), zeros(3, 3, 3, 3, value=-128), strides=[2, 2], groups=2
    ),
    "too large without padding": network((1, 2, 8, 9), (2, 1, 7, 7), strides=[2, 2], groups=2),
}


@pytest.mark.parametrize("case", REWRITTEN)
def test_a_refused_convolution_becomes_an_accepted_one(case: str) -> None:
    module, expected = REWRITTEN[case]
    after = rewritten(module)
    shape = static_shape(module["main"].params[0])
    image = np.random.default_rng(1).integers(-128, 128, shape).astype("int8")
    assert all(runs_on_diana(layer) for layer in layers_by_match(after, CONTEXT).values())
    assert operators(after) == expected
    assert np.array_equal(run(after, image), run(module, image))


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_what_is_accepted_or_has_no_other_form_stays(case: str) -> None:
    tvm.ir.assert_structural_equal(rewritten(LEFT_ALONE[case]), LEFT_ALONE[case])


def test_multiplications_by_the_new_zeros_are_not_counted() -> None:
    module, _ = REWRITTEN["TFLite's SAME with stride 2"]
    module, interface = import_model(tvm.ir.save_json(module).encode(), "test", {})
    mix = load_mix(parse_target("soma_dory, c"), load_platform("diana"), "onnx")
    outlined, partition = partition_module(module, interface, mix)
    (region,) = (r for r in partition.regions if r.anchor == "conv2d")
    layer = read_layer(outlined[region.name])
    assert region.device == "soma_dory" and layer.kernel == (3, 5)
    assert region.macs == partition.macs == 5 * 4 * 5 * 3 * 3 * 3
