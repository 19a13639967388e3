"""Elementwise regions in blocks: their split, their selection, the C that runs, and its limits."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax

from firmwright.devices.c7x.injective import BLOCK_BYTES, find_split
from firmwright.models.relax.importer import run_reference
from tests.networks.firmware import SANITIZED, lowered, run_generated

from .graphs import Formula, network, numbers, samples

op = relax.op
SHAPES: dict[tuple[int, ...], tuple[int, ...]] = {
    (1, 64, 56, 56): (1, 64, 1, 1),  # a constant for each channel, in blocks of one channel
    (1, 56, 56, 64): (64,),  # channels last
    (1, 3, 97, 61): (1, 3, 97, 61),  # prime lengths
    (2, 6, 40, 50): (1, 1, 40, 50),  # one image for all channels
    (1, 8, 8, 8): (1, 8, 8, 8),  # the tensor fits one block
    (1, 50021): (1, 50021),  # no even split except single elements
    (128, 128): (128, 1),
    (1, 8, 64, 64): (1, 1, 64, 64),  # the same constant for each block
}
"""The input's shape and the constant's."""


OTHER_PLACES = "Default loops: it reads elements at other positions"


def formula(x: relax.Expr, constant: relax.Expr) -> relax.Expr:
    return op.nn.relu(op.subtract(op.multiply(x, constant), x))


def remarks(data: bytes, target: str = "c7x") -> list[str]:
    return [k.note or "" for k in lowered(data, "relax", target=target).kernels.kernels]


@given(
    st.lists(st.integers(1, 97), min_size=1, max_size=4).map(tuple), st.sampled_from([1, 2, 4, 8])
)
def test_a_cut_is_the_fewest_even_parts_of_the_first_axis_that_is_too_long(
    extents: tuple[int, ...], element: int
) -> None:
    cut = find_split(extents, element)
    if cut is None:
        assert prod(extents) * element <= BLOCK_BYTES
        return
    inside = prod(extents[cut.axis + 1 :]) * element
    assert inside <= BLOCK_BYTES < inside * extents[cut.axis]
    smaller = [n for n in range(1, cut.count) if extents[cut.axis] % n == 0]
    assert extents[cut.axis] % cut.count == 0
    assert extents[cut.axis] // cut.count * inside <= BLOCK_BYTES
    assert all(extents[cut.axis] // n * inside > BLOCK_BYTES for n in smaller)


def test_what_was_chosen_is_said() -> None:
    chosen = remarks(network({s: (formula, numbers(1, *c)) for s, c in SHAPES.items()}))
    moves = "during the computation. The innermost loop is one vector."
    none = "Streams deliver 0 of 2 inputs; others: moved by the DMA (2)."
    scale = (
        "Streams deliver 0 of 2 inputs; others: moved by the DMA (1), not adjacent in a vector (1)."
    )
    one = "Streams deliver 1 of 2 inputs; others: moved by the DMA (1)."
    assert chosen == [
        f"The DMA moves 64 blocks of 12,544 bytes {moves} {scale}",
        f"The DMA moves 56 blocks of 14,336 bytes {moves} {one}",
        "The DMA moves 291 blocks of 244 bytes during the computation. No vectors: the inner "
        "loop's 61 steps are not whole vectors of 16.",
        f"The DMA moves 6 blocks of 16,000 bytes {moves} {one}",
        "No blocks: all tensors fit 16,384 bytes. The innermost loop is one vector. Streams "
        "deliver 2 of 2 inputs.",
        "No blocks: equal parts would be smaller than a vector. No vectors: the inner loop's 50021 "
        "steps are not whole vectors of 16.",
        f"The DMA moves 4 blocks of 16,384 bytes {moves} {none}",
        f"The DMA moves 8 blocks of 16,384 bytes {moves} {one}",
    ]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda x, _: op.exp(x), "6 blocks of 16,000 bytes.* No vectors: it calls exp."),
        (
            lambda x, _: op.permute_dims(x, [0, 2, 3, 1]),
            OTHER_PLACES,
        ),
        (
            lambda x, _: op.strided_slice(x, [3], [1], [50]),
            OTHER_PLACES,
        ),
        (lambda x, _: op.concat([x, x], 1), "Default loops: "),
        (lambda x, _: op.sum(x, [1]), "Default loops: it sums or compares along an axis"),
    ],
    ids=["exp", "permute", "slice", "concat", "sum"],
)
def test_what_is_not_elementwise_keeps_the_default_loops(made: Formula, said: str) -> None:
    (found,) = remarks(network({(2, 6, 40, 50): (made, numbers(1, 1))}))
    assert re.search(said, found), found


@pytest.mark.parametrize(
    ("shape", "made", "said"),
    [
        ((64,), lambda x, _: op.broadcast_to(x, (9, 64, 64)), "no input with several axes moves"),
        ((), lambda x, _: op.add(x, x), "Default loops: it does not write an element for"),
    ],
    ids=["broadcast", "scalar"],
)
def test_what_needs_no_blocks(shape: tuple[int, ...], made: Formula, said: str) -> None:
    (found,) = remarks(network({shape: (made, numbers(1, 1))}))
    assert re.search(said, found), found


def test_local_memory_has_to_hold_two_blocks_of_everything() -> None:
    shape = (1, 8, 64, 64)

    def sum_of_seven(x: relax.Expr, _constant: relax.Expr) -> relax.Expr:
        for seed in range(6):
            x = op.add(x, relax.const(numbers(seed, *shape)))
        return x

    data = network({shape: (sum_of_seven, numbers(1, 1))})
    small, large = (
        lowered(data, "relax", target="c7x", platform=name).kernels.kernels[0].note
        for name in ("am62a", "j721e")
    )
    assert small is not None and large is not None
    assert "need 262,144 bytes; local memory has 229,376" in small
    assert large.startswith("The DMA moves 8 blocks of 16,384 bytes")


@pytest.mark.needs("gcc")
def test_blocks_compute_what_the_reference_says(tmp_path: Path) -> None:
    data = network({s: (formula, numbers(1, *c)) for s, c in SHAPES.items()})
    given_samples = samples(list(SHAPES))
    found = run_generated(data, given_samples, tmp_path, SANITIZED, "relax", target="c7x")
    for ours, theirs in zip(found, run_reference(data, given_samples).outputs, strict=True):
        for array, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(array, expected)


@pytest.mark.needs("gcc")
@settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(8, 40), st.integers(8, 64)),
        min_size=4,
        max_size=4,
        unique=True,
    ),
    st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_any_shapes(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[int, ...]], kept: list[bool]
) -> None:
    """Each constant has the ``kept`` axes; the other axes are broadcast."""
    constants = [tuple(d if k else 1 for d, k in zip(s, kept, strict=True)) for s in shapes]
    graph = {s: (formula, numbers(1, *c)) for s, c in zip(shapes, constants, strict=True)}
    data, given_samples = network(graph), samples(shapes, 1)
    folder = tmp_path_factory.mktemp("any")
    found = run_generated(data, given_samples, folder, SANITIZED, "relax", target="c7x")
    for array, expected in zip(
        found[0], run_reference(data, given_samples).outputs[0], strict=True
    ):
        np.testing.assert_array_equal(array, expected)
