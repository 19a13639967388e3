"""Why a stage runs again, in words."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from firmwright.pipeline.freshness import Unchanged, list_differences


def find_reasons(unchanged: Unchanged, values: dict[str, Any]) -> tuple[bool, str]:
    return unchanged(SimpleNamespace(value_savers=[]), values), str(unchanged)


def test_each_changed_option_is_named_with_both_values() -> None:
    before = {"options": {"samples": 8, "seed": 0, "gone": [1]}, "packages": {"numpy": "2.2"}}
    now = {"options": {"samples": 3, "seed": 0}, "packages": {"numpy": "2.3"}, "tools": {}}
    assert list(list_differences(before, now)) == [
        "options.samples: 3, was 8",
        "options.gone: null, was [1]",
        'packages.numpy: "2.3", was "2.2"',
        "tools: {}, was null",
    ]


def test_a_result_that_is_missing_or_another_is_named(tmp_path: Path) -> None:
    kept, spoiled, lost = (tmp_path / name for name in ("kept", "spoiled", "lost"))
    for path in (kept, spoiled, lost):
        path.write_text("as it was")
    unchanged = Unchanged({"options": 1}, lambda: [kept, spoiled, lost])
    assert find_reasons(unchanged, {}) == (False, "it has not run yet")
    values = unchanged.record()
    assert find_reasons(unchanged, values) == (True, "")
    spoiled.write_text("another")
    lost.unlink()
    told = f"{lost} is missing; {spoiled} is not what was written"
    assert find_reasons(unchanged, values) == (False, told)


def test_results_of_a_copied_build_folder_are_looked_at_where_they_are_now(tmp_path: Path) -> None:
    before, now = tmp_path / "before", tmp_path / "now"
    before.write_text("as it was")
    values = Unchanged({"options": 1}, lambda: [before]).record()
    now.write_text("damaged")
    told = f"{before} is in another build folder"
    assert find_reasons(Unchanged({"options": 1}, lambda: [now]), values) == (False, told)


def test_many_reasons_are_counted() -> None:
    now = {str(n): n for n in range(8)}
    unchanged = Unchanged(now, lambda: ())
    _, told = find_reasons(unchanged, {"configuration": {}, "outputs": {"/": [0]}})
    assert told.startswith("0: 0, was null; 1: 1, was null; ")
    assert told.endswith("; and 4 more")
