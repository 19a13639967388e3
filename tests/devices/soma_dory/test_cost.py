"""The cost model against numbers computed by hand, and tiles against their required coverage."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.cost import Accelerator, estimate_cycles
from firmwright.devices.soma_dory.tiles import (
    Tile,
    TileTransfer,
    count_jobs,
    row_axis,
)
from firmwright.ir.kernels import Cycles
from tests.devices.soma_dory.layers import (
    DIANA,
    add,
    any_layer,
    conv2d,
    dense,
    depthwise,
    like_diana,
)

HAND_COUNTED = {
    # 30 rows of two blocks with 3 kernel rows, and 2 rows of two blocks with 2; one copy each way.
    "conv2d, one tile": (
        conv2d((3, 32, 32), 16),
        Tile(16, 32, 32),
        30 * 2 * (3 * 3 * 3 + 3 * 3 * 2 + 23) + 2 * 2 * (3 * 2 * 3 + 3 * 2 * 2 + 23),
        (70 + 3 * 32 * 32 // 16) + (70 + (3 * 9 * 16 + 64) // 16) + (70 + 16 * 32 * 32 // 16),
    ),
    # Rows 0..16 and 15..31 of three planes, 16 rows of 16 planes, and the weights twice.
    "conv2d, tiles of rows": (
        conv2d((3, 32, 32), 16),
        Tile(16, 16, 32),
        30 * 2 * (3 * 3 * 3 + 3 * 3 * 2 + 23) + 2 * 2 * (3 * 2 * 3 + 3 * 2 * 2 + 23),
        2 * (3 * (70 + 17 * 32 // 16) + (70 + 496 // 16) + 16 * (70 + 16 * 32 // 16)),
    ),
    # The input is loaded once; the last 4 of 20 channels need a block of weights and its time.
    "conv2d, tiles of channels": (
        conv2d((4, 8, 16), 20, kernel=(1, 1), padding=(0, 0, 0, 0)),
        Tile(16, 8, 16),
        2 * 8 * (4 + 4 * 2 + 23),
        (70 + 4 * 8) + 2 * (70 + (4 + 4)) + (70 + 16 * 8) + (70 + 4 * 8),
    ),
    # Each channel fetches a block of weights, although four channels share the block.
    "depthwise, tiles of channels": (
        depthwise((5, 4, 16), kernel=(3, 1), padding=(1, 0, 1, 0)),
        Tile(4, 4, 16),
        5 * (2 * (3 + 6 + 23) + 2 * (2 + 4 + 23)),
        (70 + 16) + 4 * (70 + 7) + (70 + 16) + (70 + 4) + (70 + 7) + (70 + 4),
    ),
    "dense": (
        dense(20, 40),
        Tile(32, 1, 1),
        3 * (32 + 32 * 2 + 23),
        (70 + 2) + (70 + 2 * (32 + 16)) + (70 + 2) + (70 + 32 + 16) + (70 + 1),
    ),
    "add": (
        add((1, 2, 48)),
        Tile(1, 2, 48),
        6 + 23,
        3 * (70 + 6),
    ),
}


@pytest.mark.parametrize("case", HAND_COUNTED)
def test_cycles_are_those_of_the_published_model(case: str) -> None:
    layer, tile, compute, transfer = HAND_COUNTED[case]
    assert estimate_cycles(layer, tile, DIANA) == Cycles(compute, transfer, 0)
    four = replace(layer, batch=4)
    assert estimate_cycles(four, tile, DIANA) == Cycles(4 * compute, 4 * transfer, 0)


def test_with_two_buffers_all_but_the_first_load_hides_behind_equal_jobs() -> None:
    layer, tile = conv2d((3, 32, 32), 16), Tile(16, 8, 32)
    apart, together = (
        estimate_cycles(layer, tile, like_diana(double_buffering=both)) for both in (False, True)
    )
    weights = 4 * (70 + 496 // 16)
    moves = apart.transfer - weights
    assert moves > apart.compute + weights, "jobs hide behind transfers here"
    assert together.total == moves + -(-(apart.compute + weights) // 4)
    whole = Tile(16, 32, 32)
    one, alone = (
        estimate_cycles(layer, whole, like_diana(double_buffering=both)) for both in (True, False)
    )
    assert one == alone, "a single job has nothing beside it"


@pytest.mark.parametrize(
    "copy, pieces",
    [
        (TileTransfer(1, 48, 0), (1, 48)),
        (TileTransfer(3, 32 * 4, 32 * 4), (1, 32 * 4 * 3)),
        (TileTransfer(3, 32 * 4, 32 * 9), (3, 32 * 4)),
    ],
)
def test_pieces_that_touch_are_one(copy: TileTransfer, pieces: tuple[int, int]) -> None:
    assert copy.pieces() == pieces


@given(any_layer(), st.integers(1, 9), st.integers(1, 40))
def test_jobs_cover_every_result_once_and_read_what_it_takes(
    layer: AcceleratorLayer, rows: int, channels: int
) -> None:
    tile, axis = Tile(channels, rows, layer.out_width), row_axis(layer)
    made = Counter[int]()
    for job, times in count_jobs(layer, tile):
        assert job.columns == layer.out_width
        made[job.rows.size] += times * job.channels
    sizes = Counter(span.size for span in axis.make_spans(rows))
    assert made == {n: times * layer.out_channels for n, times in sizes.items()}
    results = [r for s in axis.make_spans(rows) for r in range(s.start, s.start + s.size)]
    assert results == [*range(layer.out_height)]
    for span in axis.make_spans(rows):
        begin = span.start * axis.stride - axis.padding
        end = begin + (span.size - 1) * axis.stride + axis.kernel
        assert span.first >= 0 and span.first + span.read <= axis.elements
        assert span.first <= max(begin, 0) and min(end, axis.elements) <= span.first + span.read
        assert span.before == max(-begin, 0) and span.after == max(end - axis.elements, 0)


def test_numbers_come_from_the_platform() -> None:
    assert Accelerator(256000, 64000, 16, 70, 23, 16, 16, False, 512) == DIANA
