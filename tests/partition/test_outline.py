"""Groups become functions, and ``main`` a list of regions over named tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax

from firmwright.ir.operators import FusionKind
from firmwright.ir.regions import Partition
from firmwright.models.onnx.importer import import_model
from firmwright.partition.grouping import Group
from firmwright.partition.outline import (
    find_anchor,
    find_dequantized,
    make_binding_kind,
    outline,
    partition_module,
    region_name,
)
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize
from tests.networks.onnx_models import chain, graph, node, value
from tests.partition.graphs import build_main

FLOATS = ((2, 3), "float32")


def emit(call: relax.Expr, name: str = "") -> relax.Var:
    return relax.BlockBuilder.current().emit(call, name_hint=name)


def partitioned(model: onnx.ModelProto, fuse_layers: bool = True) -> tuple[tvm.IRModule, Partition]:
    mix = load_mix(parse_target("c"), load_platform("host"), "onnx", fuse_layers)
    module, interface = import_model(bytes(model.SerializeToString()), "model", {})
    return partition_module(canonicalize(module), interface, mix)


def dense_model() -> onnx.ModelProto:
    """Flatten, a product of matrices, and a ReLU: 12 x 5 multiply-accumulates."""
    nodes = [
        node("Flatten", ["x"], ["flat"]),
        node("MatMul", ["flat", "w"], ["product"], name="dense"),
        node("Relu", ["product"], ["y"], name="relu"),
    ]
    weights = {"w": np.ones((12, 5), "float32")}
    return graph(nodes, [value("x", [1, 3, 4])], [value("y", [1, 5])], weights)


def test_a_region_is_named_after_the_operator_that_it_is_about() -> None:
    module, partition = partitioned(dense_model())
    (dense,) = partition.regions
    assert dense.operators[0] == "reshape"
    assert (dense.view, dense.anchor, dense.macs) == (False, "matmul", 60)
    assert (dense.name, dense.outputs) == ("region_000_matmul", ("region_000_matmul_result",))
    assert dense.sources[0] == "dense"
    assert partition.outputs == dense.outputs
    assert [v.name_hint for v in module.functions] == [dense.name]


def test_without_fused_layers_each_operator_is_a_region() -> None:
    _, partition = partitioned(dense_model(), fuse_layers=False)
    assert [len(region.operators) for region in partition.regions] == [1, 1, 1]


def test_a_reshape_that_is_an_output_is_copied() -> None:
    """The region fills the buffer of the caller; only within the network it is a view."""
    model = graph([node("Flatten", ["x"], ["y"])], [value("x", [1, 3, 4])], [value("y", [1, 12])])
    (region,) = partitioned(model)[1].regions
    assert not region.view


def test_an_output_that_is_a_constant_is_written() -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("Identity", ["c"], ["z"])]
    constant = {"c": np.array([1, 2], "float32")}
    outputs = [value("y", [2]), value("z", [2])]
    _, partition = partitioned(graph(nodes, [value("x", [2])], outputs, constant))
    assert len(partition.outputs) == 2
    assert {o for r in partition.regions for o in r.outputs} >= set(partition.outputs)


def test_a_part_of_a_result_begins_at_a_byte() -> None:
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("Gather", ["e", "i"], ["row"], axis=0),
        node("Neg", ["row"], ["y"]),
    ]
    index = {"i": np.array(2, "int64")}
    model = graph(nodes, [value("x", [4, 3])], [value("y", [3])], index)
    pick = next(r for r in partitioned(model)[1].regions if r.operators == ("take",))
    assert (pick.view, pick.offset) == (True, 24)


def test_a_region_returns_its_results_alone() -> None:
    """Names inside of a function are free: two regions may read and write one variable."""
    module, partition = partitioned(chain(node("Exp", ["x"], ["e"]), node("Neg", ["e"], ["y"])))
    (region,) = partition.regions
    function = module[region.name]
    assert region.operators == ("exp", "negative")
    assert len(function.params) == 1
    assert len(function.ret_ty.fields) == 1


def test_inputs_come_in_the_order_of_reading() -> None:
    """A variable that is read twice is one parameter; a result read inside is also returned."""

    def write(a: relax.Expr, b: relax.Expr) -> relax.Expr:
        first = emit(relax.op.subtract(b, a))
        return relax.op.add(first, b)

    module, bindings = build_main(write, FLOATS, FLOATS)
    a, b = module["main"].params
    first, last = bindings[:2]
    group = Group([first, last], read_outside=[first.var, last.var])
    function, outside = outline(group)
    assert [v.name for v in outside] == [b.name, a.name]
    assert len(function.ret_ty.fields) == 2


def names_of(bindings: Sequence[relax.VarBinding], found: Any) -> list[str]:
    return [b.value.op.name.removeprefix("relax.") for b in bindings if b.var in found]


def quantize(x: relax.Expr) -> relax.Var:
    scale, zero = relax.const(0.5, "float32"), relax.const(0, "int8")
    return emit(relax.op.quantize(x, scale, zero, out_dtype="int8"))


def dequantize(x: relax.Expr) -> relax.Var:
    scale, zero = relax.const(0.5, "float32"), relax.const(0, "int8")
    return emit(relax.op.dequantize(x, scale, zero))


def mixed(x: relax.Expr, y: relax.Expr) -> relax.Expr:
    """Return exp(y) + abs(dequantize(quantize(x + 1)))."""
    one = emit(relax.op.add(x, relax.const(1, "float32")))
    inside = emit(relax.op.abs(dequantize(quantize(one))))
    return relax.op.add(inside, emit(relax.op.exp(y)))


def test_values_computed_from_quantized_values() -> None:
    _, bindings = build_main(mixed, FLOATS, FLOATS)
    names = names_of(bindings[:6], find_dequantized(bindings))
    assert names == ["dequantize", "abs", "add"]


def test_without_fused_layers_quantized_operators_still_fuse() -> None:
    """The arithmetic between a dequantize and a quantize is one rounding."""
    module, bindings = build_main(mixed, FLOATS, FLOATS)
    kind = make_binding_kind(module, find_dequantized(bindings), fuse_layers=False)
    alone = {b.var for b in bindings[:6] if kind(b) is FusionKind.ALONE}
    assert names_of(bindings[:6], alone) == ["add", "exp"]


def test_the_anchor_is_the_costliest_operator_else_the_last_that_computes() -> None:
    def write(x: relax.Expr, w: relax.Expr) -> relax.Expr:
        product = emit(relax.op.matmul(x, w))
        total = emit(relax.op.sum(product, axis=1, keepdims=True))
        largest = emit(relax.op.max(total, axis=0, keepdims=True))
        return relax.op.clip(emit(relax.op.nn.relu(largest)), 0, 1)

    _, bindings = build_main(write, FLOATS, ((3, 4), "float32"))
    bindings = bindings[:5]
    for first, anchor in enumerate(["matmul", "max", "max", "nn.relu", "clip"]):
        group = Group(bindings[first:])
        assert names_of(bindings, {find_anchor(group).var}) == [anchor]
    assert region_name(7, Group(bindings[3:])) == "region_007_relu"


def test_a_convolution_counts_each_tap_of_each_element() -> None:
    conv = graph(
        [node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        [value("x", [1, 2, 5, 5])],
        [value("y", [1, 3, 5, 5])],
        {"w": np.ones((3, 2, 3, 3), "float32")},
    )
    assert partitioned(conv)[1].macs == 3 * 2 * 9 * 25
