"""Locks: names of files, which must not depend on the machine, and the differences of two locks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firmwright.errors import UserError
from firmwright.recipe.lock import (
    Lock,
    compare_locks,
    find_package_versions,
    name_files,
    read_lock,
    write_lock,
)
from firmwright.recipe.recipe import lock_path


def test_files_are_named_from_the_recipes_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = [Path("recipes/a.npy"), Path("recipes/../models/m.onnx"), tmp_path / "recipes/b.npy"]
    for folder in (Path("recipes"), tmp_path / "recipes"):
        named = name_files([*files, folder / "a.npy"], folder)
        assert list(named) == ["a.npy", "../models/m.onnx", "b.npy"]


def test_files_elsewhere_have_no_folder_and_every_one_a_name(tmp_path: Path) -> None:
    files = [tmp_path / "x/1.png", tmp_path / "y/1.png", tmp_path / "recipes/1.png"]
    assert list(name_files(files, tmp_path / "recipes")) == ["1.png", "1.png (2)", "1.png (3)"]


def test_files_of_an_installed_package_have_its_name_in_front(tmp_path: Path) -> None:
    site = tmp_path / "site"
    files = [site / "npu/__init__.py", site / "npu/templates/npu/a.j2", tmp_path / "recipes/a.j2"]
    named = name_files(files, tmp_path / "recipes", {"acme-npu": site / "npu"})
    assert list(named) == ["acme-npu/__init__.py", "acme-npu/templates/npu/a.j2", "a.j2"]


LOCK = Lock(2, {"a.onnx": "1a"}, {"run": ("2b", "3c")}, {"gcc": "12"}, {"gcc": "4d" * 32})


def compare(found: Lock, alternatives: tuple[str, ...] = (), lock: Lock = LOCK) -> list[str]:
    return compare_locks(lock, found, alternatives)


def test_equal_locks_differ_in_nothing() -> None:
    assert compare(LOCK) == []


def test_a_digest_of_equal_length_differs() -> None:
    """All digests have one length, so each digit counts."""
    assert compare(replace(LOCK, files={"a.onnx": "1b"})) == ["a.onnx has changed"]
    other = "4d" * 31 + "4e"
    (line,) = compare(replace(LOCK, programs={"gcc": other}))
    assert line.startswith("the files that gcc opens")
    assert len(compare(replace(LOCK, samples={"run": ("2b", "3d")}))) == 1


def test_a_value_with_another_json_text_differs() -> None:
    lock = replace(LOCK, values={"require_offload": 50})
    found = replace(LOCK, values={"require_offload": 50.0})
    assert compare(lock, lock=lock) == []
    assert compare(found, lock=lock) == ["require_offload is 50.0; the lock has 50"]


def test_facts_of_a_release_are_not_locked() -> None:
    lock = replace(LOCK, values={"release.time": "2026-11-28T12:00:00Z", "c_prefix": "kws"})
    found = replace(LOCK, values={"release.version": "1.2.0", "c_prefix": "kws"})
    assert compare(found, lock=lock) == []
    assert compare(LOCK, lock=lock) == ['c_prefix is null; the lock has "kws"']


def test_files_that_are_new_or_no_longer_read() -> None:
    found = replace(LOCK, files={"b.onnx": "1a"})
    assert compare(found) == ["a.onnx is locked, but no longer read", "b.onnx is not in the lock"]


def test_only_a_run_may_read_fewer_samples() -> None:
    lock = replace(LOCK, samples={"run": ("1", "2"), "calibration": ("3", "4")})
    fewer = replace(lock, samples={"run": ("1",), "calibration": ("3",)})
    assert compare(fewer, lock=lock) == ["calibration: 1 samples; 2 are locked"]
    more = replace(lock, samples={"run": ("1", "2", "3"), "calibration": ("3", "4")})
    assert compare(more, lock=lock) == ["run: 3 samples; 2 are locked"]


def test_samples_that_differ_are_listed_up_to_ten() -> None:
    lock = replace(LOCK, samples={"run": tuple("abcdefghijklm")})
    (line,) = compare(replace(lock, samples={"run": ("x", *"bcdefghijklm")}), lock=lock)
    assert "1 of 13 samples" in line
    assert line.endswith("(sample 0)")
    (line,) = compare(replace(lock, samples={"run": tuple("ABCDEFGHIJKLM")}), lock=lock)
    assert "13 of 13" in line
    assert line.endswith("8, 9, …)")


def test_versions_count_but_for_alternatives_that_a_build_does_not_use() -> None:
    unused = replace(LOCK, versions={}, programs={})
    assert compare(unused) == ["gcc (12) is locked, but no longer used"]
    assert compare(unused, alternatives=("gcc",)) == []
    newer = replace(LOCK, versions={"gcc": "13", "zig": "1"})
    assert compare(newer, ("gcc", "zig")) == [
        "gcc is 13; the lock has 12",
        "zig (1) is not in the lock",
    ]


def test_a_compiler_that_the_lock_lacks_is_named() -> None:
    found = replace(LOCK, programs={**LOCK.programs, "zig": "5e"})
    assert compare(found) == ["the files that zig opens are not in the lock"]


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    assert read_lock(recipe) is None
    assert write_lock(recipe, LOCK)
    assert not write_lock(recipe, LOCK)
    assert read_lock(recipe) == LOCK
    assert write_lock(recipe, replace(LOCK, files={}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "r.*lock: not a lock: "),
        (b"\xff", "not a lock"),
        (b'{"lock_version": 2, "files": {}, "samples": {}}', "not a lock: .*versions"),
        (
            b'{"lock_version": 1, "files": {}, "samples": {}, "versions": {}}',
            "has version 1; expected 2:",
        ),
    ],
)
def test_a_bad_lock_is_rejected(text: bytes, message: str, tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    lock_path(recipe).write_bytes(text)
    with pytest.raises(UserError, match=message):
        read_lock(recipe)


def test_versions_of_missing_packages_are_left_out() -> None:
    assert list(find_package_versions(["numpy", "no-such-package", "msgspec"])) == [
        "msgspec",
        "numpy",
    ]
