"""The report of a fleet: the table, the changes since the last run, and equal bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firmwright.bundle.outcome import compute_offload
from firmwright.errors import UserError
from firmwright.fleet.fleet_report import read_results, write_report
from firmwright.report.outcomes import Outcome

JOBS = ("slower", "same", "broken", "mended", "new", "late")
BEFORE = {
    "slower": Outcome(
        "slower", "", "aa", "exact", 1000, "cycles", "a table", 0.5, None, 500, 60, None, 75.0
    ),
    "same": Outcome("same", "", "bb", "not run"),
    "broken": Outcome("broken", "", "cc", "exact"),
    "mended": Outcome("mended", "an old mistake"),
    "late": Outcome("late", "", "dd", "exact"),
}
AFTER = {
    "new": Outcome(
        "new", "", "ee", "within the tolerance", 12345, "instructions", "counted", batch=8
    ),
    "slower": Outcome(
        "slower", "", "ff", "exact", 1100, "cycles", "a table", 0.55, 38.4, 500, 64, None, 50.0
    ),
    "same": BEFORE["same"],
    "broken": Outcome("broken", "my|net.yaml:1:1: <b>wrong</b>\nand more"),
    "mended": Outcome("mended", "", "99", "exact"),
}
PLACES = {name: (name, "") for name in JOBS}
TABLE = """\
# Fleet

4 of 6 built, 1 failed, 1 not tried. Times: a table; counted.

| job | exact? | time | flash | RAM | batch | offload | since the last run |
| --- | --- | --- | --- | --- | --- | --- | --- |
| slower | exact | 0.550 ms, 38.4 µJ | 500 | 64 | – | 50.0 % | cycles 1,000 → 1,100 (+10.0 %); \
RAM 60 → 64 (+6.7 %); offload 75.0 % → 50.0 % |
| same | not run | – | – | – | – | – |  |
| broken | failed |  |  |  |  |  | was built before |
| mended | exact | – | – | – | – | – | failed before, built now |
| new | within the tolerance | 12,345 instructions | – | – | 8 | – | new |
| late | not tried |  |  |  |  |  |  |

## broken

    my|net.yaml:1:1: <b>wrong</b>
    and more
"""  # noqa: RUF001


def test_a_job_links_its_report_and_unknown_columns_are_omitted(tmp_path: Path) -> None:
    (tmp_path / "same").mkdir()
    (tmp_path / "same/a-host.html").write_text("a report")
    write_report(tmp_path, ("same", "broken"), AFTER, BEFORE, PLACES)
    page = (tmp_path / "fleet.html").read_text("utf-8")
    assert '<a href="same/a-host.html"><bdi>same</bdi></a>' in page
    assert ">offload<" not in page and ">RAM<" in page
    assert '<a href="#job-2"><bdi>broken</bdi></a>' in page


def test_the_table_and_what_changed(tmp_path: Path) -> None:
    write_report(tmp_path, JOBS, AFTER, BEFORE, PLACES)
    assert (tmp_path / "fleet.md").read_text("utf-8") == TABLE
    page = (tmp_path / "fleet.html").read_text("utf-8")
    assert "&lt;b&gt;wrong&lt;/b&gt;" in page
    assert "cycles 1,000 → 1,100 (+10.0 %)" in page
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_report(tmp_path, JOBS, dict(reversed(AFTER.items())), BEFORE, PLACES)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


def test_recipes_and_platforms_have_a_table(tmp_path: Path) -> None:
    places = {"slower": ("kws", "m4"), "broken": ("kws", "avr"), "new": ("vww", "m4")}
    (tmp_path / "slower").mkdir()
    (tmp_path / "slower/kws.html").write_text("a report")
    write_report(tmp_path, [*places], AFTER, BEFORE, places)
    assert (
        "| recipe | m4 | avr |\n| --- | --- | --- |\n"
        "| kws | exact, 0.550 ms, 38.4 µJ | failed |\n"
        "| vww | within the tolerance, 12,345 instructions |  |\n\n| job |"
    ) in (tmp_path / "fleet.md").read_text("utf-8")
    page = (tmp_path / "fleet.html").read_text("utf-8")
    assert '<a href="slower/kws.html">exact, 0.550 ms, 38.4 µJ</a>' in page
    assert "url=fleet.html" in (tmp_path / "index.html").read_text("utf-8")
    same = dict.fromkeys(places, ("kws", "m4"))  # the jobs differ in another option
    write_report(tmp_path, [*places], AFTER, BEFORE, same)
    assert "| recipe |" not in (tmp_path / "fleet.md").read_text("utf-8")


def test_the_next_run_compares_with_this_one(tmp_path: Path) -> None:
    assert read_results(tmp_path / "fleet.json") == {}
    write_report(tmp_path, JOBS, AFTER, BEFORE, PLACES)
    # A job that did not run keeps its result.
    assert read_results(tmp_path / "fleet.json") == {**AFTER, "late": BEFORE["late"]}
    other = replace(AFTER["same"], sha256="00")
    write_report(tmp_path, ["same"], {"same": other}, AFTER, PLACES)
    assert "| other bytes |" in (tmp_path / "fleet.md").read_text("utf-8")


def test_damaged_results_are_told(tmp_path: Path) -> None:
    path = tmp_path / "fleet.json"
    path.write_text('{"outcomes": 3}')
    with pytest.raises(UserError, match=r"fleet\.json: not the results of a fleet: .*; remove it"):
        read_results(path)


def test_offload_is_what_the_last_device_does_not_get() -> None:
    layers = [{"device": "npu", "macs": 300}, {"device": "c", "macs": 100}]
    target = [{"device": "npu"}, {"device": "c"}]
    assert compute_offload({"recipe": {"resolved": {"target": target}}, "layers": layers}) == 75.0
    alone = {"recipe": {"resolved": {"target": target[1:]}}, "layers": layers[1:]}
    assert compute_offload(alone) is None
