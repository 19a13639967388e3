"""The first strategy whose condition holds makes an operator's loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te
from tvm.s_tir import Schedule

from firmwright.errors import UserError
from firmwright.ir.library_call import library_call
from firmwright.lowering.loop_structure import apply_default_loops
from firmwright.lowering.region import lower_region
from firmwright.lowering.strategies import Strategy
from tests.networks.pooling import POOL, pooling


def body(*strategies: Strategy, pool: int = 1) -> str:
    """Return the C of a max-pooling; these strategies come first."""
    module, region = pooling(pool)
    return lower_region(region, module, "onnx", strategies).kernel.body


def times(factor: float) -> Any:
    """Return a compute that picks every second element, multiplied so that variants differ."""

    def picked(x: te.Tensor) -> te.Tensor:
        shape = (1, 2, 2, 2)
        return te.compute(shape, lambda n, c, h, w: x[n, c, 2 * h, 2 * w] * tvm.tirx.const(factor))

    return lambda builder, call: builder.call_te(picked, call.args[0])


def is_single(call: tvm.ir.Call) -> bool:
    return all(int(n) == 1 for n in call.attrs.pool_size)


def test_the_first_that_applies_is_taken() -> None:
    two, three = Strategy(POOL, times(2.0)), Strategy(POOL, times(3.0))
    assert "* 2.0f" in body(two, three)
    assert "* 3.0f" in body(three, two)


def test_a_condition_that_does_not_hold_leaves_the_operator_to_the_next() -> None:
    special = Strategy(POOL, times(2.0), condition=is_single)
    assert "* 2.0f" in body(special)
    assert body(special, pool=2) == body(pool=2)


def test_a_strategy_of_another_operator_changes_nothing() -> None:
    assert body(Strategy("relax.nn.avg_pool2d", times(2.0))) == body()


def test_a_schedule_alone_changes_the_loops_of_tvms_own_formula() -> None:
    def unroll_columns(schedule: Schedule) -> None:
        apply_default_loops(schedule)
        pooled = schedule.get_sblock("pool_max_update")
        schedule.unroll(schedule.get_loops(pooled)[-1])

    unrolled = body(Strategy(POOL, schedule=unroll_columns), pool=2)
    assert unrolled.count("for (") == body(pool=2).count("for (") - 1


@pytest.mark.parametrize("alone", [True, False])
def test_a_library_s_function_is_called_between_what_it_reads_and_what_reads_it(
    alone: bool,
) -> None:
    """The second formula reads the input of the call, but its loops are still after the call."""

    def called(x: te.Tensor) -> te.Tensor:
        shape = (1, 2, 2, 2)
        if alone:
            return library_call("own", shape, "float32", x)
        lower = te.compute(shape, lambda n, c, h, w: x[n, c, 2 * h, 2 * w] - tvm.tirx.const(0.5))
        higher = library_call("own", shape, "float32", lower)
        return te.compute(shape, lambda *i: higher(*i) + lower(*i))

    found = body(Strategy(POOL, lambda builder, call: builder.call_te(called, call.args[0])))
    before, after = found.split("own(&tensor_0, &tensor_1);")
    assert ("- 0.5f" in before) is not alone
    assert "output[" not in before
    assert ("output[" in after) is not alone


def test_constants_of_library_functions_are_not_packed() -> None:
    """The functions read a byte per number; the loops can read fewer bits."""
    numbers = np.resize(np.arange(-8, 8, dtype="int8"), (2, 512))

    def compute(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        def called(x: te.Tensor, table: te.Tensor, looped: te.Tensor) -> te.Tensor:
            found = library_call("own", (1, 2, 2, 2), "float32", x, table)
            return te.compute(found.shape, lambda *i: found(*i) + looped[i[1], i[2]])

        tables = relax.const(numbers), relax.const(numbers[::-1] + 1)
        return builder.call_te(called, call.args[0], *tables)

    module, region = pooling(1)
    strategies = (Strategy(POOL, compute),)
    weights = lower_region(region, module, "onnx", strategies, packs=True).weights
    assert [a.nbytes for a in weights.values()] == [1024, 512]


def test_what_a_strategy_of_tvms_raises_names_the_operator() -> None:
    def compute(_builder: relax.BlockBuilder, _call: tvm.ir.Call) -> relax.Expr:
        raise ValueError("no such loops")

    with pytest.raises(UserError, match=r"max_pool2d.*no such loops"):
        body(Strategy(POOL, compute))
