"""The changes of files that a snapshot detects, and the files that it cannot trust yet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from firmwright.pipeline import freshness, snapshot
from firmwright.pipeline.changed_recipes import are_separate
from firmwright.pipeline.freshness import read_state
from firmwright.pipeline.job import Job
from firmwright.pipeline.same_recipes import RecipeText
from firmwright.pipeline.snapshot import (
    BuiltRecipe,
    Snapshot,
    UpToDate,
    read_snapshot,
    write_snapshot,
)

RECIPES = [UpToDate("build:net", "net on host", "build/net/net-host.tar.gz", "m.json")]
OTHERS = [UpToDate("build:other", "other on host", "build/other/other-host.tar.gz", "m.json")]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package, programs, an input and a result; a build that begins now."""
    for name in ("package/part", "programs", "inputs", "build", "recipes"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("package/part/rules.yaml", "inputs/model", "build/result", "build/.doit.db"):
        (tmp_path / name).write_text("before")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("doit.doit_cmd._CMDLINE_VARS", {})
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.setattr(snapshot, "FOLDERS", [tmp_path / "package"])
    begin(monkeypatch)
    return tmp_path


def begin(patch: pytest.MonkeyPatch) -> None:
    time.sleep(2 * freshness.TICK / 1e9)
    patch.setattr(freshness, "BEGUN", time.time_ns())


def keep(place: Path) -> None:
    written = {str(place / "build/result"): read_state(place / "build/result")}
    watched = [str(place / "inputs"), str(place / "inputs/model")]
    other = BuiltRecipe("other", OTHERS, ["other"], {}, [str(place / "other")])
    write_snapshot([BuiltRecipe("net", RECIPES, ["net"], written, watched), other])


def read() -> Snapshot:
    return read_snapshot(snapshot.find_snapshot(), snapshot.collect_circumstances())


def look() -> list[UpToDate]:
    return read().list_builds()


def replace(path: Path) -> None:
    """Write different bytes of the same number, with the old time."""
    status = path.stat()
    path.write_text("behind")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_build_of_one_recipe_keeps_the_entries_of_the_others(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(place)
    (place / "inputs/more").touch()
    begin(monkeypatch)
    assert read().changed == read().recipes[:1]
    written = {str(place / "build/result"): read_state(place / "build/result")}
    built = BuiltRecipe("net", RECIPES, ["net"], written, [str(place / "inputs")])
    kept = snapshot.read_kept({each.task for each in OTHERS})
    write_snapshot([built], kept, ["build:other", "build:net"])
    assert look() == [*OTHERS, *RECIPES]
    (place / "other").touch()  # a file of the kept recipe
    assert [each.recipe for each in read().changed] == ["other"]


def test_a_recipe_that_reads_a_result_of_a_changed_recipe_is_loaded(place: Path) -> None:
    keep(place)
    known = read()
    recipe = SimpleNamespace(name="net")
    job = SimpleNamespace(recipe=recipe, bundle_name="net", platform=SimpleNamespace(name="host"))
    job.all_jobs = (job,)
    job.overrides, job.outdir = {}, place / "build/net"
    for folder, separate in ((place / "elsewhere", True), (place, False)):
        job.outdir = folder
        changed = Snapshot(known.recipes, known.recipes[:1], known.paths)
        assert are_separate(changed, [cast(Job, job)]) is separate


def test_the_last_folder_and_the_window_of_a_shell_do_not_count(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(place)
    for name in ("_", "OLDPWD", "COLUMNS"):
        monkeypatch.setenv(name, "other")
    assert look() == [*RECIPES, *OTHERS]
    monkeypatch.setenv("CFLAGS", "-g")
    assert look() == []


CHANGES: dict[str, Callable[[Path], object]] = {
    "our own file": lambda place: replace(place / "package/part/rules.yaml"),
    "a file more of our own": lambda place: (place / "package/part/more.py").touch(),
    "a program": lambda place: (place / "programs/gcc").touch(),
    "an input": lambda place: replace(place / "inputs/model"),
    "an input more": lambda place: (place / "inputs/more").touch(),
    "no input": lambda place: (place / "inputs/model").unlink(),
    "a result": lambda place: replace(place / "build/result"),
    "doit's state": lambda place: replace(place / "build/.doit.db"),
    "a recipe more": lambda place: (place / "recipes/more.yaml").touch(),
    "the snapshot": lambda _: snapshot.find_snapshot().write_bytes(b"\xff" * 100),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_is_seen(place: Path, change: Callable[[Path], object]) -> None:
    keep(place)
    assert look() == RECIPES + OTHERS
    change(place)
    assert look() == []


@pytest.mark.parametrize(("name", "changed"), [("inputs/model", "net"), ("other", "other")])
def test_a_change_counts_for_the_recipe_that_reads_the_file(
    place: Path, name: str, changed: str
) -> None:
    keep(place)
    (place / name).write_text("changed")
    assert [each.recipe for each in read().recipes] == ["net", "other"]
    assert [each.recipe for each in read().changed] == [changed]


def test_a_new_module_next_to_a_recipe_counts_for_all_recipes(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(place / "recipes")
    monkeypatch.setattr(snapshot, "PYTHON_PATH", [folder])
    text = RecipeText(f"{folder}/net.yaml", [], {}, [folder], "")
    other = BuiltRecipe("other", OTHERS, ["other"], {}, [str(place / "other")])
    write_snapshot([BuiltRecipe("net", RECIPES, ["net"], {}, [], [text]), other])
    os.utime(folder)
    assert look() == RECIPES + OTHERS
    (place / "recipes/onnx.py").touch()
    assert [each.recipe for each in read().changed] == ["net", "other"]


def test_another_environment_is_seen(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(place)
    monkeypatch.setenv("FIRMWRIGHT_NO_USER_CODE", "1")
    assert look() == []


@pytest.mark.parametrize("name", ["inputs/model", "inputs", "package/part/rules.yaml"])
def test_what_changes_during_a_build_leaves_no_snapshot(place: Path, name: str) -> None:
    os.utime(place / name)
    keep(place)
    assert not snapshot.find_snapshot().exists()


def test_a_result_may_be_new_but_is_the_one_that_was_written(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "build/result").write_text("new")
    keep(place)
    assert look() == RECIPES + OTHERS
    state = read_state(place / "build/result")
    snapshot.find_snapshot().unlink()
    replace(place / "build/result")
    begin(monkeypatch)
    written = {str(place / "build/result"): state}
    write_snapshot([BuiltRecipe("net", RECIPES, ["net"], written, [])])
    assert not snapshot.find_snapshot().exists()
