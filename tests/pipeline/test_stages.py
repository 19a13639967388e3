"""The declarations of the stages are consistent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, get_args, get_type_hints

import pytest

from firmwright.pipeline import artifacts
from firmwright.pipeline.artifact import ARRAYS, LOWERED_STAGE, NETWORK_STAGE, Artifact
from firmwright.pipeline.job import Stage
from firmwright.pipeline.task import locate
from firmwright.targets.load_devices import load_target, target_names
from firmwright.tasks.pipeline import NETWORKS_PIPELINE, PIPELINE

DEVICE_STAGE_NAMES = [stage for name in target_names() for stage in load_target(name).stages]
DEVICE_STAGES = [resolve_name(name) for name in DEVICE_STAGE_NAMES]
STAGES: list[Stage] = [*PIPELINE, *NETWORKS_PIPELINE, *DEVICE_STAGES]
MODULES = [
    vars(artifacts),
    *(vars(import_module(name.partition(":")[0])) for name in DEVICE_STAGE_NAMES),
]
WRITTEN = {each for names in MODULES for each in names.values() if isinstance(each, Artifact)}
CHOSEN = (NETWORK_STAGE, LOWERED_STAGE)
ORDERED = sorted(WRITTEN, key=lambda artifact: (artifact.stage, artifact.file))


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_stage_runs_a_function_that_exists_and_reads_what_others_write(stage: Stage) -> None:
    assert callable(resolve_name(stage.function))
    assert {*stage.reads} <= WRITTEN


@pytest.mark.parametrize("artifact", ORDERED)
def test_artifact_is_of_a_class_that_exists(artifact: Artifact[Any]) -> None:
    assert artifact.kind == ARRAYS or isinstance(resolve_name(artifact.kind), type)


@pytest.mark.parametrize("artifact", ORDERED)
def test_records_have_slots(artifact: Artifact[Any]) -> None:
    """Without slots, msgspec does not write the defaults of records that it has read."""
    records = () if artifact.kind == ARRAYS else list_dataclasses(resolve_name(artifact.kind))
    assert [kind for kind in records if "__slots__" not in vars(kind)] == []


def list_dataclasses(kind: Any) -> Iterator[type]:
    hints = get_type_hints(kind).values() if is_dataclass(kind) else get_args(kind)
    if is_dataclass(kind):
        assert isinstance(kind, type)
        yield kind
    for hint in hints:
        yield from list_dataclasses(hint)


def test_a_digest_that_a_download_has_not_is_found_in_the_recipe(tmp_path: Path) -> None:
    recipe = tmp_path / "net.yaml"
    recipe.write_text(f"model:\n  url: https://a.example/net.onnx\n  sha256: {'A0' * 32}\n")
    assert locate(recipe, "a0" * 32) == f"{recipe}:3:11"
    assert locate(recipe, "b0" * 32) == str(recipe)


def test_each_artifact_is_of_a_stage() -> None:
    assert {artifact.stage for artifact in WRITTEN} <= {*CHOSEN, *(stage.name for stage in STAGES)}
