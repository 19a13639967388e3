"""A lock that several platforms and overlays of a recipe share."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from firmwright.pipeline.recipe_lock import merge_locks
from firmwright.recipe.lock import LOCK_VERSION, Lock, compare_locks


def make_lock(tool: str, run: tuple[str, ...], model: str = "a") -> Lock:
    return Lock(LOCK_VERSION, {"net.onnx": model}, {"run": run}, {tool: "1"}, {tool: tool})


def test_a_lock_holds_for_platforms_with_and_without_an_emulator() -> None:
    ours, theirs = make_lock("gcc", ("x", "y")), make_lock("zig", ())
    for lock in (merge_locks(ours, theirs), merge_locks(theirs, ours)):
        for each in (ours, theirs):
            assert compare_locks(lock, each, {"gcc", "zig"}) == []


def test_the_lock_of_a_recipe_holds_for_the_overlays_of_all_boards() -> None:
    boards = {"m4": "zig", "m7": "gcc", "host": "clang"}
    found = [
        replace(make_lock(tool, ("x",)), bases={board: tool}) for board, tool in boards.items()
    ]
    lock = reduce(merge_locks, found)
    assert [compare_locks(lock, each, {*boards.values()}) for each in found] == [[], [], []]
    changed = replace(found[0], bases={"m4": "other"})
    recorded = ["m4, which the recipe builds on, has changed"]
    assert compare_locks(lock, changed, {*boards.values()}) == recorded


def test_samples_of_other_files_are_not_kept() -> None:
    assert merge_locks(make_lock("gcc", ("x",)), make_lock("gcc", (), "b")).samples["run"] == ()
