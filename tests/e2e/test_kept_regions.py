"""Unchanged regions are not lowered again, and the result equals that of a clean build."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from firmwright.pipeline.artifacts import KEPT_REGIONS, LOWERED, PARTITION
from firmwright.pipeline.command_line import make_catalog, make_job
from firmwright.pipeline.freshness import UpToDateCheck
from firmwright.pipeline.job import Job
from firmwright.pipeline.task import execute, list_inputs
from firmwright.recipe.load_recipe import load_recipe
from firmwright.stages.kernels import digest_regions, read_kept
from firmwright.tasks.pipeline import PIPELINE

from .conftest import ROOT, Repository

pytestmark = pytest.mark.fresh

STAGES = ("model", "partition", "kernels")
SECOND = """\
    x = graph.conv2d(x, "second", random_array((8, 8, 3, 3), seed=2), act=True, shift_bits=7)
"""
NETWORK = f"""\
from firmwright.builder import Graph, random_array

def network():
    graph = Graph()
    x = graph.input("x", (1, 4, 6, 6))
    x = graph.conv2d(x, "first", random_array((8, 4, 3, 3), seed=1), act=True, shift_bits=7)
{SECOND}\
    return graph.output(graph.dense(x, "scores", random_array((5, 288), seed=3), shift_bits=7))
"""
RECIPE = 'model: {python: "net:network"}\nplatform: mine.yaml\ntarget: c\n'
CHANGES = {
    "nothing": ({}, 3),
    "a weight": ({"seed=2": "seed=4"}, 2),
    "a shape": ({"(5, 288)": "(6, 288)"}, 2),
    "a layer less": ({SECOND: ""}, 1),
    "an option of the device": ({"target: c": "target: c -specialize=size"}, 0),
    "the core of the platform": ({"[armv8.1-m-mve, armv7e-m-dsp]": "[armv7e-m-dsp]"}, 0),
}
"""Replacements in network, recipe and platform, and the number of regions that are then kept."""


def run_stages(folder: Path, root: str, *stages: str) -> Job:
    """Run stages for the recipe in a folder; their results are below ``root``."""
    recipe = load_recipe(folder / "net.yaml", {}, make_catalog())
    job = make_job(recipe, {}, folder / root, PIPELINE, alone=True)
    for name in stages:
        stage = job.stages[name]
        execute(job, stage, UpToDateCheck({}, list), list_inputs(job, stage))
    return job


def write(folder: Path, changes: dict[str, str]) -> None:
    platform = (ROOT / "toolchains/platforms/cortex-m55-bare.yaml").read_text("utf-8")
    platform = platform.replace("name: cortex-m55-bare", "name: mine")
    for name, text in (("net.py", NETWORK), ("net.yaml", RECIPE), ("mine.yaml", platform)):
        for before, after in changes.items():
            text = text.replace(before, after)
        (folder / name).write_text(text, encoding="utf-8")


def read_results(job: Job) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in job.folder("kernels").iterdir()}


def count_kept(job: Job) -> int:
    return len(read_kept(job, digest_regions(job, LOWERED.read(job), PARTITION.read(job))))


@pytest.mark.parametrize("change", CHANGES)
def test_kernels_beside_kept_ones_are_those_from_nothing(tmp_path: Path, change: str) -> None:
    changes, kept = CHANGES[change]
    write(tmp_path, {})
    run_stages(tmp_path, "build", *STAGES)
    write(tmp_path, changes)
    assert count_kept(run_stages(tmp_path, "build", *STAGES[:-1])) == kept
    again = read_results(run_stages(tmp_path, "build", *STAGES))
    assert again == read_results(run_stages(tmp_path, "from-nothing", *STAGES))


@pytest.mark.parametrize("name", ["kept.json", "weights.npz", "stage.json"])
def test_of_damaged_files_nothing_is_kept(tmp_path: Path, name: str) -> None:
    write(tmp_path, {})
    job = run_stages(tmp_path, "build", *STAGES)
    path = job.folder("kernels") / name
    path.write_bytes(path.read_bytes()[:-20])
    assert count_kept(job) == 0
    path.unlink()
    assert count_kept(job) == 0


def test_regions_are_lowered_anew_beside_code_of_the_users_own(tmp_path: Path) -> None:
    write(tmp_path, {"target: c": 'target: c\nextensions: ["net:extend"]'})
    with (tmp_path / "net.py").open("a") as file:
        file.write("\ndef extend(extension):\n    pass\n")
    assert not KEPT_REGIONS.read(run_stages(tmp_path, "build", *STAGES)).regions


def test_bundle_after_a_changed_weight_is_that_of_a_build_from_nothing(
    copy_of_built: Repository,
) -> None:
    path = copy_of_built.folder / "digits.onnx"
    model = onnx.load(path)
    weights = next(i for i in model.graph.initializer if len(i.dims) == 4)
    array = numpy_helper.to_array(weights).copy()
    array.flat[0] += 1
    weights.CopyFrom(numpy_helper.from_array(array, weights.name))
    onnx.save(model, path)
    assert "kernels" in copy_of_built.build("recipe=digits.yaml")
    copy_of_built.build("recipe=digits.yaml", "outdir=from-nothing")
    name = "digits-rv32-bare.tar.gz"
    again, anew = (copy_of_built.folder / f / name for f in ("build/digits", "from-nothing"))
    assert again.read_bytes() == anew.read_bytes()
