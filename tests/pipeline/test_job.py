"""The results of stages that the platforms of a recipe share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firmwright.errors import DiagnosticError, UserError
from firmwright.pipeline.command_line import make_catalog, make_job
from firmwright.pipeline.job import Job
from firmwright.pipeline.task import run_action
from firmwright.recipe.load_recipe import load_recipe
from firmwright.tasks.pipeline import PIPELINE

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.onnx"


def load(text: str, folder: Path) -> Job:
    """Return the job of a recipe for the digits network; ``text`` contains the other lines."""
    path = folder / "r.yaml"
    path.write_text(f"model: {DIGITS}\n{text}")
    recipe = load_recipe(path, {}, make_catalog(), folder / "cache")
    return make_job(recipe, {}, folder / "build", PIPELINE, alone=False)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job on a platform without features, with only the portable device."""
    loaded = load("platform: rv32-bare\n", tmp_path)
    return replace(loaded, platform=replace(loaded.platform, features=()))


def test_platforms_share_portable_results(job: Job) -> None:
    assert job.is_portable
    assert job.is_shared("partition")
    assert job.folder("partition") == job.outdir / "partition"


def test_platforms_do_not_share_a_choice_by_cost(job: Job) -> None:
    """The costs depend on the platform."""
    by_cost = replace(job, recipe=replace(job.recipe, placement="cost"))
    assert by_cost.is_portable
    assert not by_cost.is_shared("partition")


def test_results_with_a_feature_of_the_platform_are_not_shared(job: Job) -> None:
    """Kernels use the instructions of a feature."""
    featured = replace(job, platform=replace(job.platform, features=("rv32m",)))
    assert not featured.is_portable
    assert featured.folder("partition") == job.outdir / "rv32-bare/partition"
    assert featured.folder("model") == job.outdir / "model"


def test_results_of_an_accelerator_are_not_shared(tmp_path: Path) -> None:
    assert not load("platform: diana\ntarget: soma_dory, c\n", tmp_path).is_portable


def test_a_comparison_needs_an_emulator(tmp_path: Path) -> None:
    job = load("platform: diana-chip\ntarget: soma_dory, c\ncompare: c\n", tmp_path)
    assert not job.has_stage("comparison")
    reason = job.stages["comparison"].explain_absence(job)
    assert reason == "nothing to compare: diana-chip lists no emulator"


def test_a_platform_without_emulators_lists_none(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError, match=r"'diana-chip' does not list .*; it lists: none"):
        load("platform: diana-chip\nrun: {emulator: unicorn}\n", tmp_path)


@pytest.mark.parametrize("platform", ["diana", "diana-chip"])
def test_an_export_without_a_driver_is_rejected_before_any_stage_runs(
    tmp_path: Path, platform: str
) -> None:
    text = f"platform: {platform}\ntarget: soma_dory, c\nexport: cmake\n"
    with pytest.raises(DiagnosticError, match=f"r.yaml:4:9: .*driver .* the board {platform}, "):
        load(text, tmp_path)
    load(text.replace("soma_dory, c", "c"), tmp_path)


def test_an_error_of_a_stage_has_the_location_of_the_key_that_it_names(tmp_path: Path) -> None:
    keys = "weights: int4, block: 32, calibration: {inputs: {x: {raw: r.yaml}}}"
    job = load(f"compress: true\nquantize: {{{keys}}}\nplatform: rv32-bare\n", tmp_path)
    about = ("quantize",)

    def fail(message: str) -> str:
        def act() -> str:
            raise UserError(message)

        return str(run_action(job, "quantized:r", act, about))

    assert ":3:34: quantize.block: layer 'a' has 8 input channels" in fail(
        "quantize: block: layer 'a' has 8 input channels"
    )
    assert ":3:11: quantize: layer: no key" in fail("quantize: layer: no key")
    assert ":3:11: quantize: tensor 'x' has NaN" in fail("quantize: tensor 'x' has NaN")
