"""The jobs of a fleet share the results of stages that do not depend on the platform."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from doit import doit_cmd

from firmwright.fleet.fleet_run import take_turns
from firmwright.pipeline import stage_cache, warm
from firmwright.tasks.pipeline import NETWORKS_PIPELINE, PIPELINE


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
    assert origins == ["", stage_cache.OTHER_JOB]


def test_jobs_of_different_recipes_take_turns() -> None:
    orders: list[Any] = [SimpleNamespace(files=[n[0]], name=n) for n in ("a1", "a2", "b1")]
    assert [order.name for order in take_turns(orders)] == ["a1", "b1", "a2"]


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ("model: m.onnx\nplatform: host\n", True),
        ("model: m.onnx\nplatform: hots\n", False),
        ("model: m.onnx\nplatform: host\nrun: {inputs: samples.py:make}\n", False),
    ],
)
def test_a_fleet_loads_one_recipe_without_custom_code_before_its_jobs(
    text: str, loads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doit_cmd, "_CMDLINE_VARS", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").touch()
    (tmp_path / "samples.py").write_text("raise AssertionError")
    (tmp_path / "r.yaml").write_text(text)
    imported: list[str] = []
    monkeypatch.setattr(
        warm, "import_stages", lambda stages: imported.extend(each.name for each in stages)
    )
    warm.rehearse(["recipe=r.yaml", "outdir=out"], PIPELINE, NETWORKS_PIPELINE)
    assert "model" in imported
    assert ("calibration" in imported) != loads
