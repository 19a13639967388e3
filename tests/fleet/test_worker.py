"""What a worker answers where it cannot build; the real builds are in tests/e2e."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firmwright.fleet import worker
from firmwright.fleet.matrix import FleetJob
from firmwright.fleet.outcome import read_networks
from firmwright.fleet.worker import Order, build, digest_recipe, list_other_versions


@pytest.fixture
def order(tmp_path: Path) -> Order:
    recipe = tmp_path / "net.yaml"
    recipe.write_text("model: net.tflite\n")
    job = FleetJob("net", "net.yaml", {})
    return Order(job, str(tmp_path), str(tmp_path / "build"), {}, digest_recipe(recipe))


def test_a_worker_that_sees_another_recipe_builds_nothing(order: Order, tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text("model: other.tflite\n")
    assert build(order).failure == (
        f"{tmp_path}/net.yaml: the worker sees another file; it needs the repository as it is here"
    )
    assert not (tmp_path / "build").exists()
    (tmp_path / "net.yaml").unlink()
    assert "the worker sees another file" in build(order).failure


def test_a_build_that_is_killed_fails_its_job(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "BUILD_PROCESS", "tests.fleet.killed_build")
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    failure = build(replace(order, environment=environment)).failure
    assert failure == "the build was ended by SIGKILL: memory may have run out"


def test_a_build_folder_that_cannot_be_written_fails_the_job(order: Order, tmp_path: Path) -> None:
    (tmp_path / "build").write_text("a file")
    assert build(order).failure == f"{tmp_path}/build: File exists"


def test_what_differs_is_told_from_both_sides() -> None:
    wanted = {"numpy": "2.3", "onnx": "1.23", "same": "1"}
    found = {"numpy": "2.2", "same": "1", "torch": "2.5"}
    assert list_other_versions(wanted, found) == [
        "numpy is 2.2, here 2.3",
        "onnx is missing, here 1.23",
        "torch is 2.5, here missing",
    ]


def test_a_firmware_of_several_networks_is_as_exact_as_all_of_them() -> None:
    runs = {"one": {"differences": 0}, "two": {"differences": 3}}
    manifest = {"run": {"networks": runs}, "flash_bytes": 10, "ram_bytes": 20}
    found = {"exact": "within the tolerance", "flash": 10, "ram": 20}
    assert read_networks(manifest) == found
    assert read_networks({**manifest, "run": None})["exact"] == "not run"
