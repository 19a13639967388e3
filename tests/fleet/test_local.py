"""Jobs in copies of this process: their outputs, errors and ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from firmwright.cluster.local import Memory, run_here
from firmwright.cluster.order import LOG, ClusterError, Order, ReadOutput, Stop, make_order
from firmwright.errors import UserError
from firmwright.user_folders import find_cache_folder

from .test_run import Notes

KILLED = "the build was ended by SIGKILL: probably out of memory; run fewer builds at a time"


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Order]:
    monkeypatch.chdir(tmp_path)
    program = "tests.fleet.program:main"

    def make_job(end: str) -> Order:
        return make_order(end, program, [], tmp_path / end, [end], "text")

    return make_job


def read_end(order: Order, read: ReadOutput) -> tuple[str, str]:
    try:
        return order.name, read().strip()
    except UserError as error:
        return order.name, str(error)


def run(orders: Sequence[Order], most: int = 2) -> tuple[dict[str, str], Notes]:
    notes = Notes()
    return dict(run_here(orders, read_end, most, notes, Stop())), notes


def test_each_job_has_its_output_or_its_error(make: Callable[[str], Order], tmp_path: Path) -> None:
    ends = ("succeed", "refuse", "fail", "die")
    found, notes = run([make(end) for end in ends])
    assert found == {
        "succeed": f"{tmp_path} text",
        "refuse": "recipe.yaml:1:1: an error",
        "fail": "a line of its output",
        "die": KILLED,
    }
    assert [job for job, _ in notes.started] == list(ends)
    assert {place for _, place in notes.started} == {"0", "1"}
    assert (tmp_path / "fail" / LOG).read_text() == "a line of its output\n"


def test_an_unexpected_error_is_one_line(
    make: Callable[[str], Order], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (found, _) = run([make("fault")])
    assert found["fault"] == (
        "ZeroDivisionError: an unexpected error: this is a fault of firmwright; "
        f"please report it with {find_cache_folder()}/fault.log"
    )


def test_a_folder_that_is_a_file_fails_the_job(
    make: Callable[[str], Order], tmp_path: Path
) -> None:
    (tmp_path / "succeed").write_text("a file")
    assert run([make("succeed")])[0] == {"succeed": f"{tmp_path}/succeed: File exists"}


def test_the_next_job_starts_before_the_result_is_read(make: Callable[[str], Order]) -> None:
    notes = Notes()
    orders = [make("succeed"), make("refuse")]
    counts = [*run_here(orders, lambda _o, _r: len(notes.started), 1, notes, Stop())]
    assert counts == [2, 2]


def test_jobs_end_when_the_caller_stops(make: Callable[[str], Order], tmp_path: Path) -> None:
    stop, place = Stop(), tmp_path / "wait" / "pid"
    jobs = run_here([make("succeed"), make("wait"), make("die")], read_end, 2, Notes(), stop)
    assert next(jobs)[0] == "succeed"
    while not (place.exists() and place.read_text()):
        assert next(jobs) == ("die", KILLED)
    process = psutil.Process(int(place.read_text()))
    stop.reason = "interrupted"
    with pytest.raises(ClusterError, match="interrupted"):
        list(jobs)
    process.wait(60)


def test_a_stop_keeps_the_result_of_an_ended_job(make: Callable[[str], Order]) -> None:
    stop = Stop()
    memory = Memory(lambda _: "report", lambda _: setattr(stop, "reason", "interrupted"))
    jobs = [make("succeed"), make("wait")]
    results = run_here(jobs, lambda order, _: order.name, 1, Notes(), stop, memory)
    assert next(results) == "succeed"
    with pytest.raises(ClusterError, match="interrupted"):
        next(results)


def test_a_job_reports_to_the_process_that_starts_the_next_job(
    make: Callable[[str], Order],
) -> None:
    learned: list[str] = []
    memory = Memory(lambda known: f"{__name__ in known} {os.getpid()}", learned.append)
    assert len([*run_here([make("succeed")], read_end, 1, Notes(), Stop(), memory)]) == 1
    ((known, process),) = map(str.split, learned)
    assert known == "True"
    assert int(process) != os.getpid()
