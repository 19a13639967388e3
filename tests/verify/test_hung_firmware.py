"""The number of instructions above which a firmware counts as hung."""

from __future__ import annotations

from dataclasses import replace

from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import Tensor
from firmwright.stages.run import MIN_LIMIT, limit_instructions

REGION = Region("conv", "c", "", "conv", (), ("conv",), ("x",), ("y",), 5_000, False, ())
PARTITION = Partition(
    ("x",), ("y",), (Tensor("x", (2, 3), "int8"), Tensor("y", (4,), "int8")), (REGION,)
)


def test_the_limit_grows_with_the_work_of_all_networks_and_runs() -> None:
    work = 2_000 * 5_000 + 20_000 * (2 * 3 + 4)
    assert limit_instructions([PARTITION], 3) == MIN_LIMIT + 3 * work
    assert limit_instructions([PARTITION, PARTITION], 3) == MIN_LIMIT + 6 * work


def test_a_sort_needs_instructions_per_pair_of_elements() -> None:
    """A sort of 8,000 floats needs more than 20,000 instructions per element on a Cortex-M0."""
    sorts = replace(PARTITION, regions=(replace(REGION, operators=("multiply", "topk")),))
    more = limit_instructions([sorts], 2) - limit_instructions([PARTITION], 2)
    assert more == 2 * 500 * (2 * 3) * 3
