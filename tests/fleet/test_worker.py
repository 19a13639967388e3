"""The answers of a worker that cannot build; the real builds are in tests/e2e."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firmwright.bundle.outcome import read_networks
from firmwright.cluster.jobs import list_other_versions, run_alone
from firmwright.cluster.order import BUILD, Order, make_order
from firmwright.fleet.fleet_run import read_end
from firmwright.pipeline.remote_jobs import run_remotely
from firmwright.report.outcomes import Outcome


@pytest.fixture
def order(tmp_path: Path) -> Order:
    recipe = tmp_path / "net.yaml"
    recipe.write_text("model: net.tflite\n")
    return make_order("net", BUILD, [recipe], tmp_path / "build", ())


def build(order: Order, watched: int) -> Outcome:
    return run_remotely(read_end, order, watched)


def test_a_worker_that_sees_another_recipe_builds_nothing(order: Order, tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text("model: other.tflite\n")
    assert run_alone(build, order).failure == (
        f"{tmp_path}/net.yaml: differs from the file at the start of the command; "
        "start the command again, or make the same repository visible to the worker"
    )
    assert not (tmp_path / "build").exists()
    (tmp_path / "net.yaml").unlink()
    assert "differs from the file at the start" in run_alone(build, order).failure


def test_a_build_that_is_killed_fails_its_job(order: Order) -> None:
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    killed = replace(order, program="tests.fleet.killed_build", environment=environment)
    failure = run_alone(build, killed).failure
    assert (
        failure
        == "the build was ended by SIGKILL: probably out of memory; run fewer builds at a time"
    )


def test_a_build_folder_that_cannot_be_written_fails_the_job(order: Order, tmp_path: Path) -> None:
    (tmp_path / "build").write_text("a file")
    assert run_alone(build, order).failure == f"{tmp_path}/build: File exists"


def test_what_differs_is_told_from_both_sides() -> None:
    wanted = {"numpy": "2.3", "onnx": "1.23", "same": "1"}
    found = {"numpy": "2.2", "same": "1", "torch": "2.5"}
    assert list_other_versions(wanted, found) == [
        "numpy is 2.2, here 2.3",
        "onnx is missing, here 1.23",
        "torch is 2.5, here missing",
    ]


def test_a_firmware_of_several_networks_is_as_exact_as_all_of_them() -> None:
    runs = {name: {"mismatches": 0, "differences": n} for name, n in (("one", 0), ("two", 3))}
    manifest = {"run": {"networks": runs}, "flash_bytes": 10, "ram_bytes": 20}
    found = {"exact": "within the tolerance", "flash": 10, "ram": 20}
    assert read_networks(manifest) == found
    assert read_networks({**manifest, "run": None})["exact"] == "not run"
