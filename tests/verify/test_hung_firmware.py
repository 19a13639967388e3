"""The number of instructions above which a firmware counts as hung."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firmwright.ir.kernels import Kernel, Kernels, LibraryFunction
from firmwright.ir.regions import Partition, Region
from firmwright.ir.tensors import Tensor
from firmwright.stages.run import MIN_LIMIT, limit_instructions

REGION = Region("conv", "c", "", "conv", (), ("conv",), ("x",), ("y",), 5_000, False, ())
PARTITION = Partition(
    ("x",), ("y",), (Tensor("x", (2, 3), "int8"), Tensor("y", (4,), "int8")), (REGION,)
)

KERNEL = Kernel("conv", (), (), (), (), "", (), 0, ())
NETWORK = PARTITION, Kernels((KERNEL,))


def test_the_limit_grows_with_the_work_of_all_networks_and_runs() -> None:
    work = 2_000 * 5_000 + 20_000 * (2 * 3 + 4)
    assert limit_instructions([NETWORK], 3) == MIN_LIMIT + 3 * work
    assert limit_instructions([NETWORK, NETWORK], 3) == MIN_LIMIT + 6 * work


def test_a_sort_needs_instructions_per_pair_of_elements() -> None:
    """A sort of 8,000 floats needs more than 20,000 instructions per element on a Cortex-M0."""
    sorts = replace(PARTITION, regions=(replace(REGION, operators=("multiply", "topk")),))
    more = limit_instructions([(sorts, NETWORK[1])], 2) - limit_instructions([NETWORK], 2)
    assert more == 2 * 500 * (2 * 3) * 3


@pytest.mark.parametrize(
    "calls",
    [{"functions": ("non_max_suppression",)}, {"library_functions": (LibraryFunction("f", 2),)}],
)
def test_a_called_function_needs_instructions_per_pair_of_elements(calls: dict[str, Any]) -> None:
    """A suppression of 5,000 boxes needs more than the limit per element on a Cortex-M0."""
    kernels = Kernels((replace(KERNEL, **calls),))
    without = replace(PARTITION, regions=(replace(REGION, macs=0),))
    more = limit_instructions([(without, kernels)], 2) - limit_instructions(
        [(without, NETWORK[1])], 2
    )
    assert more == 2 * 2_000 * ((2 * 3) * 3 + 4 * 4)


def test_the_work_of_a_called_convolution_is_its_multiply_accumulates() -> None:
    kernels = Kernels((replace(KERNEL, library_functions=(LibraryFunction("f", 2),)),))
    assert limit_instructions([(PARTITION, kernels)], 2) == limit_instructions([NETWORK], 2)
