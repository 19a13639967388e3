"""Regions count the regions that are equal except for scales."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from firmwright.ir.regions import Region
from firmwright.partition.repeats import count_repeats


def make_function(weights: list[int], scale: float, width: int = 3) -> relax.Function:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, width), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            scaled = builder.emit(relax.op.multiply(x, relax.const(scale, "float32")))
            array = relax.const(np.array(weights, "float32"))
            result = builder.emit_output(relax.op.add(scaled, array))
        builder.emit_func_output(relax.Tuple([result]))
    return builder.get()["main"]


def make_region(name: str, operators: tuple[str, ...] = ("multiply", "add")) -> Region:
    return Region(name, "c", "", "add", (), operators, ("x",), ("y",), 0, False, ())


@pytest.mark.parametrize(
    ("second", "operators", "count"),
    [
        (make_function([1, 2, 3], 0.5), ("multiply", "add"), 2),
        (make_function([1, 2, 4], 0.25), ("multiply", "add"), 1),
        (make_function([1], 0.25, width=4), ("multiply", "add"), 1),
        (make_function([1, 2, 3], 0.25), ("add",), 1),
    ],
    ids=["equal", "other weights", "other shape", "other operators"],
)
def test_regions_with_equal_arrays_repeat(
    second: relax.Function, operators: tuple[str, ...], count: int
) -> None:
    functions = {"a": make_function([1, 2, 3], 0.25), "b": second}
    regions = count_repeats([make_region("a"), make_region("b", operators)], functions)
    assert [region.repeats for region in regions] == [count, count]
