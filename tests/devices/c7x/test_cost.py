"""Modelled cycles: whole vectors, compiled loops, and transfers during or after the computation."""

from __future__ import annotations

from math import ceil

import pytest
from tvm import relax

from firmwright.ir.kernels import Cycles
from firmwright.toolchain import load_platform
from tests.networks.firmware import lowered

from .graphs import Formula, network, numbers

op = relax.op
SHAPE = (1, 64, 56, 56)
BYTES = 4 * 64 * 56 * 56


def cycles(formula: Formula, platform: str) -> Cycles | None:
    data = network({SHAPE: (formula, numbers(1, *SHAPE))})
    (kernel,) = lowered(data, "relax", target="c7x", platform=platform).kernels.kernels
    return kernel.cycles


@pytest.mark.parametrize(("platform", "vector"), [("am62a", 32), ("j721s2", 64)])
def test_vectors_hide_what_they_can_of_the_transfers(platform: str, vector: int) -> None:
    timing = load_platform(platform).timing
    assert timing is not None
    compute = ceil(BYTES / vector)
    transfer = ceil(3 * BYTES / timing.find_throughput("c7x").bytes_per_cycle)
    assert cycles(op.add, platform) == Cycles(compute, transfer - compute, 0)


def test_other_loops_take_their_steps_and_then_their_bytes() -> None:
    timing = load_platform("am62a").timing
    assert timing is not None
    engine = timing.find_throughput("c7x")
    compute = ceil((64 * 56 * 56 + 64) / engine.macs_per_cycle)  # each sum starts once
    assert cycles(lambda x, _: op.sum(x, [2, 3], keepdims=True), "am62a") == Cycles(
        compute, ceil((BYTES + 4 * 64) / engine.bytes_per_cycle), 0
    )


def test_a_function_makes_no_vectors() -> None:
    found, vectors = cycles(lambda x, _: op.exp(x), "am62a"), cycles(op.add, "am62a")
    assert found is not None and vectors is not None
    assert found.compute > 2 * vectors.compute


def test_a_platform_without_times_has_no_model() -> None:
    assert cycles(op.add, "host") is None
