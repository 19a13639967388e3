"""The jobs of a fleet share the results of stages that do not depend on the platform."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firmwright.fleet.fleet_run import take_turns
from firmwright.pipeline import stage_cache
from firmwright.pipeline.result_origins import OTHER_JOB


def test_jobs_of_a_fleet_share_the_results_of_all_platforms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job: Any = SimpleNamespace(origin=None, is_shared=lambda name: name == "model")
    monkeypatch.setattr(stage_cache, "load_cache", lambda: None)
    monkeypatch.setattr(stage_cache, "_of_fleet", [])
    stage_cache.share_results(tmp_path)
    stages: list[Any] = [SimpleNamespace(name=name) for name in ("model", "objects")]
    stores = [stage_cache.find_store(job, stage) for stage in stages]
    assert [store is not None for store in stores] == [True, False]


def test_a_later_job_restores_the_result_of_an_earlier_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_cache, "load_cache", lambda: None)
    monkeypatch.setattr(stage_cache, "_of_fleet", [])
    stage_cache.share_results(tmp_path / "shared")
    stage: Any = SimpleNamespace(name="model", inputs=lambda _: ())
    origins, runs = [], []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        job: Any = SimpleNamespace(origin=None, is_shared=lambda _: True, notes=[])

        def run(folder: Path = folder) -> None:
            runs.append(folder)
            (folder / "model.bin").write_bytes(b"model")

        origins.append(stage_cache.take_or_run(job, stage, folder, lambda: "0" * 64, run))
        assert (folder / "model.bin").read_bytes() == b"model"
    assert runs == [tmp_path / "1"]
    assert origins == ["", OTHER_JOB]


def test_jobs_of_different_recipes_take_turns() -> None:
    orders: list[Any] = [SimpleNamespace(files=[n[0]], name=n) for n in ("a1", "a2", "b1")]
    assert [order.name for order in take_turns(orders)] == ["a1", "b1", "a2"]
