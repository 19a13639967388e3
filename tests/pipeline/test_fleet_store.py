"""The jobs of a fleet share the results of stages that do not depend on the platform."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firmwright.pipeline import stage_cache


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
