"""A lock that several platforms of a recipe share."""

from __future__ import annotations

from firmwright.pipeline.lock import merge_locks
from firmwright.recipe.lock import LOCK_VERSION, Lock, compare_locks


def make_lock(tool: str, run: tuple[str, ...], model: str = "a") -> Lock:
    return Lock(LOCK_VERSION, {"net.onnx": model}, {"run": run}, {tool: "1"}, {tool: tool})


def test_a_lock_holds_for_platforms_with_and_without_an_emulator() -> None:
    ours, theirs = make_lock("gcc", ("x", "y")), make_lock("zig", ())
    for lock in (merge_locks(ours, theirs), merge_locks(theirs, ours)):
        for each in (ours, theirs):
            assert compare_locks(lock, each, {"gcc", "zig"}) == []


def test_samples_of_other_files_are_not_kept() -> None:
    assert merge_locks(make_lock("gcc", ("x",)), make_lock("gcc", (), "b")).samples["run"] == ()
