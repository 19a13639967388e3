"""The messages about regions of many layers, and about the layer that keeps two regions apart."""

from __future__ import annotations

import tvm
from tvm import relax

from firmwright.ir.operators import FusionKind
from firmwright.ir.regions import RuleViolation
from firmwright.partition.grouping import Group
from firmwright.partition.layer_groups import LayerGraph
from firmwright.partition.layer_regions import (
    find_separating_layer,
    make_layer_kind,
    make_placement,
)
from tests.partition.graphs import build_main

FLOATS = ((2, 3), "float32")


def emit(call: relax.Expr, name: str = "") -> relax.Var:
    return relax.BlockBuilder.current().emit(call, name_hint=name)


def line(x: relax.Expr) -> relax.Expr:
    """Return abs(sqrt(exp(abs(x)))), in which each operator is a layer."""
    y = emit(relax.op.exp(emit(relax.op.abs(x), "first")), "second")
    return relax.op.abs(emit(relax.op.sqrt(y), "third"))


def make_layers(count: int, *arguments: object) -> tuple[tvm.IRModule, LayerGraph]:
    module, bindings = build_main(*arguments)  # type: ignore[arg-type]
    return module, LayerGraph([Group([b]) for b in bindings[:count]], [bindings[count - 1].var])


def test_a_region_says_which_layer_parts_it_from_the_one_before() -> None:
    _, layers = make_layers(4, line, FLOATS)
    broken = {1: [RuleViolation("r", "no exp"), RuleViolation("s", "no floats")]}
    placement = make_placement("npu", "the NPU", [[0], [2, 3]], layers, broken)
    first, second = placement.composites
    assert first.reason == "the NPU runs it"
    assert second.reason == (
        "the NPU runs all 2 layers of it; it is a separate region because of exp ('second') "
        "before it: no exp; no floats"
    )
    assert [len(c.variables) for c in placement.composites] == [1, 2]
    (objected,) = placement.violations.values()
    assert [o.rule for o in objected] == ["r", "s"]


def test_a_region_that_reads_no_other_one_says_so() -> None:
    def write(x: relax.Expr, y: relax.Expr) -> relax.Expr:
        return relax.op.add(emit(relax.op.exp(x)), emit(relax.op.abs(y)))

    _, layers = make_layers(3, write, FLOATS, FLOATS)
    placement = make_placement("npu", "the NPU", [[0], [1]], layers, {2: []})
    assert placement.composites[1].reason.endswith("; it reads no result of another region")
    assert placement.violations == {}


def test_the_nearest_layer_between_two_regions_separates_them() -> None:
    _, layers = make_layers(4, line, FLOATS)
    assert find_separating_layer([3], {0}, layers) == 2
    assert find_separating_layer([2, 3], {0}, layers) == 1
    assert find_separating_layer([1], {0}, layers) is None
    assert find_separating_layer([2, 3], {0, 1}, layers) is None
    assert find_separating_layer([0], {3}, layers) is None


def test_a_rejected_operator_is_alone_unless_it_is_in_quantized_arithmetic() -> None:
    def write(x: relax.Expr) -> relax.Expr:
        scale, zero = relax.const(0.5, "float32"), relax.const(0, "int8")
        stored = emit(relax.op.quantize(emit(relax.op.exp(x)), scale, zero, out_dtype="int8"))
        return relax.op.exp(emit(relax.op.dequantize(stored, scale, zero)))

    module, bindings = build_main(write, FLOATS)
    kind = make_layer_kind(module, bindings, lambda _: True)
    assert [kind(b) is FusionKind.ALONE for b in bindings[:4]] == [True, False, False, False]
    taken = make_layer_kind(module, bindings, lambda _: False)
    assert FusionKind.ALONE not in [taken(b) for b in bindings[:4]]
