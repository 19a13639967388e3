"""The printed reasons why a stage runs again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from doit.dependency import Dependency, JsonDB
from doit.task import Task

from firmwright.pipeline.differences import list_differences, list_reasons
from firmwright.pipeline.freshness import (
    ContentChecker,
    UpToDateCheck,
)
from firmwright.pipeline.reasons import explain_run, order_tasks


def find_reasons(unchanged: UpToDateCheck, values: dict[str, Any]) -> tuple[bool, str]:
    return unchanged(SimpleNamespace(value_savers=[]), values), str(unchanged)


def test_each_changed_option_is_named_with_both_values() -> None:
    before = {"options": {"samples": 8, "seed": 0, "gone": [1]}, "packages": {"numpy": "2.2"}}
    now = {"options": {"samples": 3, "seed": 0}, "packages": {"numpy": "2.3"}, "tools": {}}
    assert list(list_differences(before, now)) == [
        "options.samples: 8 → 3",
        "options.gone: [1] → null",
        'packages.numpy: "2.2" → "2.3"',
        "tools: null → {}",
    ]


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [(50, 50.0, "50 → 50.0"), (1, True, "1 → true"), (0.0, -0.0, "0.0 → -0.0")],
)
def test_equal_numbers_with_different_json_texts_are_differences(
    before: float, now: float, reason: str
) -> None:
    old, new = ({"options": {"limits": [3, number]}} for number in (before, now))
    assert list(list_differences(old, new)) == [f"options.limits[1]: {reason}"]
    assert list(list_differences(old, old)) == []


def test_keys_of_the_recipe_are_first_and_named_once() -> None:
    flags, samples = {"cflags": ["-O1"]}, {"run": {"samples": 8}}
    before = {"options": {"facts": {"flags": 1}, "recipe": {**flags, "*": {**flags, **samples}}}}
    flags, samples = {"cflags": ["-O2"]}, {"run": {"samples": 3}}
    now = {"options": {"facts": {"flags": 2}, "recipe": {**flags, "*": {**flags, **samples}}}}
    assert list_reasons(before, now) == [
        'cflags[0]: "-O1" → "-O2"',
        "run.samples: 8 → 3",
        "options.facts.flags: 1 → 2",
    ]


def test_the_item_of_a_long_list_that_differs_is_named() -> None:
    flags = ["-target", "riscv32-unknown-elf", "-march=rv32imc", *(f"-D{n}" for n in range(9))]
    changed = [*flags[:5], "-DX=1", *flags[6:]]
    assert list(list_differences({"flags": flags}, {"flags": changed})) == [
        'flags[5]: "-D2" → "-DX=1"'
    ]
    assert list(list_differences(flags, [*flags, "-Os"], "flags")) == ['flags[12]: "-Os" added']
    assert list(list_differences(flags, flags[1:], "flags")) == ['flags[0]: "-target" removed']
    device = {"arena": "static", "layers": {"a": [1, 2]}}
    options = [device, "c"]
    assert list(list_differences([device | {"arena": "caller"}, "c"], options, "options")) == [
        'options[0].arena: "caller" → "static"'
    ]


def test_long_values_are_cut_around_the_difference() -> None:
    text = "a" * 100
    (found,) = list_differences({"k": f"{text}1{text}"}, {"k": f"{text}2{text}"})
    assert found == f"k: …{'a' * 10}1{'a' * 27}… → …{'a' * 10}2{'a' * 27}…"


def test_a_result_that_is_missing_or_another_is_named(tmp_path: Path) -> None:
    kept, spoiled, lost = (tmp_path / name for name in ("kept", "spoiled", "lost"))
    for path in (kept, spoiled, lost):
        path.write_text("as it was")
    unchanged = UpToDateCheck({"options": 1}, lambda: map(str, (kept, spoiled, lost)))
    assert find_reasons(unchanged, {}) == (False, "it has not run yet")
    values = unchanged.record()
    assert find_reasons(unchanged, values) == (True, "")
    spoiled.write_text("another")
    lost.unlink()
    message = f"{lost} is missing; {spoiled} was changed since the stage wrote it"
    assert find_reasons(unchanged, values) == (False, message)


def test_an_input_that_disappears_is_a_reason(tmp_path: Path) -> None:
    result, kept, gone = (tmp_path / name for name in ("result", "kept", "gone"))
    for path in (result, kept, gone):
        path.touch()
    state = Dependency(JsonDB, str(tmp_path / "state"), checker_cls=ContentChecker)
    unchanged = UpToDateCheck({"options": 1}, lambda: [str(result)])

    def explain(*inputs: Path) -> tuple[str, str]:
        task = Task("plan", None, file_dep=[*map(str, inputs)], uptodate=[unchanged])
        status = state.get_status(task, {}).status
        reason = explain_run(task)
        task.save_extra_values()
        state.save_success(task)
        return status, reason

    assert explain(kept, gone) == ("run", "it has not run yet")
    message = "an input of the last run is missing, or doit has the option -a"
    assert explain(kept) == ("run", message)
    assert explain(kept)[0] == "up-to-date"


def test_results_of_a_copied_build_folder_are_looked_at_where_they_are_now(tmp_path: Path) -> None:
    before, now = tmp_path / "before", tmp_path / "now"
    before.write_text("as it was")
    values = UpToDateCheck({"options": 1}, lambda: [str(before)]).record()
    now.write_text("damaged")
    message = f"{before} is in another build folder"
    unchanged = UpToDateCheck({"options": 1}, lambda: [str(now)])
    assert find_reasons(unchanged, values) == (False, message)


def test_many_reasons_are_counted() -> None:
    now = {str(n): n for n in range(8)}
    unchanged = UpToDateCheck(now, lambda: ())
    _, found = find_reasons(unchanged, {"configuration": {}, "outputs": {"/": [0]}})
    assert found.startswith("0: null → 0; 1: null → 1; ")
    assert found.endswith("; and 4 more")


def test_stages_have_the_order_of_the_pipeline() -> None:
    names = [f"{stage}:net" for stage in ("model", "plan", "sources", "objects")]
    tasks = {name: Task(name, [Path.cwd], task_dep=names[:i][::-1]) for i, name in enumerate(names)}
    tasks["build"] = Task("build", None, task_dep=["objects:net", "model:net"])
    assert order_tasks(tasks, ["build"]) == [*names, "build"]
