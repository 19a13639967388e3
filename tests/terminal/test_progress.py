"""Listeners receive the progress of a loop, at a readable rate."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from firmwright import progress
from firmwright.progress import Progress


@pytest.fixture
def heard() -> Iterator[list[Progress]]:
    reports: list[Progress] = []
    progress.listen(reports.append)
    progress.begin_task("run:x")
    yield reports
    progress.listen(None)


def test_the_first_and_the_last_step_are_always_told(heard: list[Progress]) -> None:
    assert list(progress.track(range(10_000), "samples")) == list(range(10_000))
    assert heard[0] == Progress("run:x", "samples", 0, 10_000)
    assert heard[-1] == Progress("run:x", "samples", 10_000, 10_000)
    assert len(heard) < 1000


def test_slow_steps_are_all_told(heard: list[Progress], monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count()
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))
    assert list(progress.track("abc", "files")) == ["a", "b", "c"]
    assert [report.done for report in heard] == [0, 1, 2, 3]


def test_nobody_listens_and_nothing_happens() -> None:
    assert list(progress.track("abc", "files")) == ["a", "b", "c"]
