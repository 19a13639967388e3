"""Which operators need no code because a pointer into another tensor is enough."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relax

from firmwright.partition.views import find_joints, find_picks
from tests.partition.graphs import build_main

SHAPE = ((4, 2, 3), "int16")


def take(x: relax.Expr, index: int, axis: int) -> relax.Expr:
    return relax.op.take(x, relax.const(index, "int64"), axis=axis)


def emit(value: relax.Expr) -> relax.Var:
    return relax.BlockBuilder.current().emit(value)


@pytest.mark.parametrize(("index", "begin"), [(0, 0), (2, 24), (3, 36)])
def test_a_pick_begins_at_a_byte(index: int, begin: int) -> None:
    """A row of 2 x 3 elements of 2 bytes are 12 bytes."""
    _, bindings = build_main(lambda x: take(x, index, 0), SHAPE)
    assert list(find_picks(bindings, ()).values()) == [begin]


@pytest.mark.parametrize(("begin", "end", "byte"), [(1, 3, 12), (-3, -1, 12), (-9, 2, 0)])
def test_a_slice_of_rows_is_a_pick(begin: int, end: int, byte: int) -> None:
    _, bindings = build_main(lambda x: relax.op.strided_slice(x, [0], [begin], [end]), SHAPE)
    assert list(find_picks(bindings, ()).values()) == [byte]


APART_READS: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "an element of the last axis": lambda x: take(x, 1, 2),
    "columns": lambda x: relax.op.strided_slice(x, [1], [0], [1]),
    "every second row": lambda x: relax.op.strided_slice(x, [0], [0], [4], [2]),
    "rows and columns": lambda x: relax.op.strided_slice(x, [0, 1], [1, 0], [3, 1]),
}


@pytest.mark.parametrize("name", APART_READS)
def test_elements_that_are_apart_are_no_pick(name: str) -> None:
    _, bindings = build_main(APART_READS[name], SHAPE)
    assert find_picks(bindings, ()) == {}


def test_neither_a_fixed_pick_nor_one_of_a_fixed_tensor_is_a_view() -> None:
    module, bindings = build_main(lambda x: take(x, 1, 0), SHAPE)
    (pick,) = find_picks(bindings, ())
    assert find_picks(bindings, {pick}) == {}
    assert find_picks(bindings, {module["main"].params[0]}) == {}


Write = Callable[[relax.Expr], relax.Expr]

JOINED: dict[str, Write] = {
    "results of two operators": lambda x: relax.op.concat(
        [emit(relax.op.exp(x)), emit(relax.op.abs(x))], axis=0
    ),
    "other shapes of results": lambda x: relax.op.concat(
        [emit(relax.op.reshape(emit(f(x)), (2, 12))) for f in (relax.op.exp, relax.op.abs)], axis=0
    ),
}
APART: dict[str, Write] = {
    "an input": lambda x: relax.op.concat([emit(relax.op.exp(x)), x], axis=0),
    "a result twice": lambda x: relax.op.concat([emit(relax.op.exp(x))] * 2, axis=0),
    "parts along an inner axis": lambda x: relax.op.concat(
        [emit(relax.op.exp(x)), emit(relax.op.abs(x))], axis=1
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_results_written_side_by_side_are_joined(name: str) -> None:
    _, bindings = build_main(JOINED[name], ((4, 2, 3), "float32"))
    joints = find_joints(bindings, ())
    assert bindings[-1].var in joints or bindings[-2].var in joints
    computed = {b.var for b in bindings if b.value.op.name in ("relax.exp", "relax.abs")}
    assert computed.isdisjoint(joints)
    assert find_joints(bindings, computed) == set()


@pytest.mark.parametrize("name", APART)
def test_tensors_that_cannot_lie_side_by_side_are_not_joined(name: str) -> None:
    _, bindings = build_main(APART[name], ((4, 2, 3), "float32"))
    assert find_joints(bindings, ()) == set()


def test_a_result_is_joined_once() -> None:
    def write(x: relax.Expr) -> relax.Expr:
        parts = [emit(f(x)) for f in (relax.op.exp, relax.op.abs, relax.op.sqrt)]
        first = emit(relax.op.concat(parts[:2], axis=0))
        second = emit(relax.op.concat(parts[1:], axis=0))
        return relax.op.add(first, second)

    _, bindings = build_main(write, ((4, 3), "float32"))
    (joint,) = find_joints(bindings, ())
    concats = [b.var for b in bindings if b.value.op.name == "relax.concat"]
    assert joint.same_as(concats[0])
