"""Buffers with overlapping lifetimes never overlap, and the arena is close to its lower bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firmwright.planning.arena import (
    ALIGNMENT,
    Arena,
    Buffer,
    Trial,
    align,
    arena_bytes,
    find_neighbors,
    lower_bound,
    place_buffers,
)


@st.composite
def any_buffers(draw: st.DrawFn) -> list[Buffer]:
    count = draw(st.integers(0, 12))
    buffers = []
    for index in range(count):
        first = draw(st.integers(0, 10))
        last = draw(st.integers(first, 12))
        buffers.append(Buffer(f"b{index}", draw(st.integers(1, 5000)), first, last))
    return buffers


def test_a_later_small_buffer_keeps_the_size_of_the_arena() -> None:
    arena = Arena()
    arena.add(Buffer("large", 4096, 0, 0))
    arena.add(Buffer("small", 1, 1, 1))
    assert arena.bytes == 4096


@given(any_buffers())
def test_no_two_that_live_together_overlap(buffers: list[Buffer]) -> None:
    placed = place_buffers(buffers)
    assert sorted(p.name for p in placed) == sorted(b.name for b in buffers)
    for i, one in enumerate(placed):
        assert one.offset % ALIGNMENT == 0
        assert one.end <= arena_bytes(placed)
        for other in placed[i + 1 :]:
            if one.is_alive_with(other):
                assert one.end <= other.offset or other.end <= one.offset


@given(any_buffers())
def test_arena_lies_between_the_bounds(buffers: list[Buffer]) -> None:
    total = sum(b.bytes + ALIGNMENT for b in buffers)
    assert lower_bound(buffers) <= arena_bytes(place_buffers(buffers)) <= total


@given(any_buffers())
def test_order_of_the_buffers_does_not_matter(buffers: list[Buffer]) -> None:
    assert place_buffers(buffers) == place_buffers(buffers[::-1])


@given(any_buffers())
def test_first_choice_moves_what_placing_all_anew_would_move(buffers: list[Buffer]) -> None:
    beside = find_neighbors(buffers)
    trial, order = Trial(buffers, beside), buffers
    for _ in buffers:
        first = trial.find_highest().name
        end = max(b.end for b in trial.placed.values())
        assert first == next(b.name for b in order if trial.placed[b.name].end == end)
        order = [b for b in order if b.name == first] + [b for b in order if b.name != first]
        trial.give_first_choice(first)
        assert trial.placed == Trial(order, beside).placed


def test_chain_needs_its_two_largest_neighbors() -> None:
    sizes = [160, 320, 640, 480, 160]
    chain = [Buffer(f"t{i}", size, i, i + 1) for i, size in enumerate(sizes)]
    assert arena_bytes(place_buffers(chain)) == lower_bound(chain) == 640 + 480


def test_chain_with_a_bottleneck_needs_no_more() -> None:
    sizes = [128, 128, 128, 128, 8, 128, 128, 128, 128]
    chain = [Buffer(f"t{i}", size, i, i + 1) for i, size in enumerate(sizes)]
    assert arena_bytes(place_buffers(chain)) == lower_bound(chain) == 256


def test_residual_reuses_what_is_free() -> None:
    buffers = [
        Buffer("skip", 1024, 0, 3),
        Buffer("a", 2048, 1, 2),
        Buffer("b", 1024, 2, 3),
        Buffer("sum", 2048, 3, 4),
    ]
    assert arena_bytes(place_buffers(buffers)) == lower_bound(buffers) == 4096


def test_an_arena_keeps_its_size_when_a_later_buffer_ends_below() -> None:
    arena = Arena()
    arena.add(Buffer("large", 100, 0, 0))
    arena.add(Buffer("small", 10, 1, 1))
    assert arena.bytes == align(100)
