"""Tilings: the search finds the best one each time, or states why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from firmwright.devices.soma_dory import cost, tiling
from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.cost import Accelerator, estimate_cycles
from firmwright.devices.soma_dory.tiles import Tile, flatten_addition, footprint, is_channel_sum
from firmwright.devices.soma_dory.tiling import explain_no_tiling, find_best_tiling
from firmwright.errors import UserError
from firmwright.ir.layer import LayerKind
from tests.benchmarks.dory_tiles import dory_tile
from tests.devices.soma_dory.layers import DIANA, any_layer, conv2d, dense, depthwise, like_diana

SIZES = st.sampled_from([1500, 4000, 9000, 20000, 64000])
ACCELERATORS = st.builds(
    like_diana,
    l1=SIZES,
    weights=SIZES,
    double_buffering=st.booleans(),
    analog_columns=st.sampled_from([16, 32, 512]),
    bytes_per_cycle=st.sampled_from([4, 16]),
)


SMALL = like_diana(l1=9000, weights=9000)


def is_stored_in_whole_copies(rows: int, layer: AcceleratorLayer) -> bool:
    """Return whether copies of 32 bytes store tiles of so many rows without the next rows."""
    pitch = -(-layer.out_width // 16) * 16
    return rows == layer.out_height or not (rows * pitch % 32 or layer.out_height * pitch % 32)


def every_tile(layer: AcceleratorLayer, accelerator: Accelerator) -> Iterator[Tile]:
    """Yield all tiles that fit: blocks of weights, and rows that are stored in whole copies."""

    def multiples(length: int, of: int = 16) -> list[int]:
        return [*range(of, length, of), length]

    channels = multiples(layer.out_channels)
    if not is_channel_sum(layer):
        channels = [*range(4, layer.out_channels, 4), layer.out_channels]
    rows = [n for n in range(1, layer.out_height) if is_stored_in_whole_copies(n, layer)]
    widths = multiples(layer.out_width, 32) if layer.kind is LayerKind.ADD else [layer.out_width]
    l1 = accelerator.l1 // (2 if accelerator.double_buffering else 1)
    for numbers in product(channels, [*rows, layer.out_height], widths):
        needed = footprint(layer, Tile(*numbers))
        fits = needed.weights <= accelerator.weights
        if layer.kind is LayerKind.ANALOG_CONV2D:
            fits = numbers[0] <= accelerator.analog_columns
        if needed.l1 <= l1 and fits:
            yield Tile(*numbers)


@settings(deadline=None, max_examples=60)
@given(any_layer(), ACCELERATORS)
def test_no_tile_is_faster_than_the_one_found(
    layer: AcceleratorLayer, accelerator: Accelerator
) -> None:
    stored = flatten_addition(layer)
    fastest = min(
        (
            estimate_cycles(stored, tile, accelerator).total
            for tile in every_tile(stored, accelerator)
        ),
        default=None,
    )
    reason = explain_no_tiling(layer, accelerator)
    if fastest is None:
        assert reason is not None
        with pytest.raises(UserError, match="no tiling: its smallest tile"):
            find_best_tiling(layer, accelerator)
        return
    assert reason is None
    found = find_best_tiling(layer, accelerator)
    assert found.tile in list(every_tile(stored, accelerator))
    assert found.cycles.total == fastest


@settings(deadline=None, max_examples=60)
@example(conv2d((37, 5, 33), 1, (3, 1), padding=(0, 0, 0, 0)), SMALL)
@given(any_layer(), st.sampled_from([DIANA, SMALL]))
def test_dorys_tile_is_never_faster(layer: AcceleratorLayer, accelerator: Accelerator) -> None:
    assume(layer.kind is not LayerKind.ANALOG_CONV2D)  # its cycles are an assumption
    theirs = dory_tile(layer, accelerator)
    assume(theirs is not None)  # DORY does not check a fit with blocks of 16 channels
    assert theirs is not None
    # A tile of channels begins at a block of weights; a block has four depthwise channels.
    whole = theirs.channels == layer.out_channels
    assume(whole or layer.kind is not LayerKind.DEPTHWISE_CONV2D or theirs.channels % 4 == 0)
    assume(is_stored_in_whole_copies(theirs.rows, layer))
    needed = footprint(layer, theirs)
    assume(needed.l1 <= accelerator.l1 and needed.weights <= accelerator.weights)
    ours = find_best_tiling(layer, accelerator).cycles
    assert ours.total <= estimate_cycles(layer, theirs, accelerator).total


def test_a_layer_that_fits_is_one_tile() -> None:
    found = find_best_tiling(conv2d((16, 32, 32), 32), DIANA)
    assert found.tile == Tile(32, 32, 32)


def test_of_equally_fast_tilings_the_first_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    tied = [Tile(n, 1, 1) for n in (64, 80, 96, 112)]
    for options in (tied, tied[::-1]):
        monkeypatch.setattr(tiling, "list_tiles", lambda *_, found=options: found)
        assert find_best_tiling(dense(640, 128), DIANA).tile is options[0]


def test_equal_jobs_are_estimated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The possible tilings of the layer have 43,340 jobs in total."""
    estimated, found = [0], cost.job_cycles

    def job_cycles(*arguments: Any) -> int:
        estimated[0] += 1
        return found(*arguments)

    monkeypatch.setattr(cost, "job_cycles", job_cycles)
    assert find_best_tiling(depthwise((128, 96, 128)), DIANA).jobs == 64
    assert estimated[0] < 5_000


def test_tiles_of_channels_are_even() -> None:
    layer = dense(640, 128)
    assert find_best_tiling(layer, DIANA).tile == Tile(64, 1, 1)
    even = estimate_cycles(layer, Tile(64, 1, 1), DIANA)
    assert estimate_cycles(layer, Tile(80, 1, 1), DIANA) == even, "as fast, with more memory used"


def test_the_batch_changes_no_tile() -> None:
    layer = conv2d((64, 64, 64), 64)
    one, four = find_best_tiling(layer, DIANA), find_best_tiling(replace(layer, batch=4), DIANA)
    assert one.tile == four.tile
    assert four.cycles.total == 4 * one.cycles.total


REASONS = {
    "its smallest tile (10 x 1 x 1 results of 5000 input channels) needs 80,384 B of the weight "
    "memory, which has 64,000 B": (dense(5000, 10), DIANA),
    "its smallest tile (16 x 2 x 40 results of 64 input channels) needs 13,824 B of L1, "
    "which has 4,000 B": (conv2d((64, 10, 40), 32), like_diana(l1=4000)),
    "its smallest tile (16 x 9 x 40 results of 64 input channels) needs 34,560 B of L1, "
    "which has 4,000 B": (conv2d((64, 9, 40), 32), like_diana(l1=4000)),
    "its smallest tile (4 x 1 x 30 results) needs 992 B of L1, which has 400 B": (
        depthwise((8, 9, 30)),
        like_diana(l1=800, double_buffering=True),
    ),
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_layer_without_tiling_says_which_memory_is_too_small(reason: str) -> None:
    layer, accelerator = REASONS[reason]
    assert explain_no_tiling(layer, accelerator) == reason
