"""The matrix of a fleet file: its jobs, and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from doit import doit_cmd, loader

from firmwright.cli import main
from firmwright.errors import UserError
from firmwright.fleet.matrix import read_fleet
from firmwright.pipeline.command_line import make_catalog
from firmwright.recipe.load_recipe import load_recipe

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with recipes, which these tests do not read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loader, "initial_workdir", None)  # a command sets it
    monkeypatch.setattr(doit_cmd, "_CMDLINE_VARS", None)
    for name in ("recipes/kws", "recipes/ad", "recipes/ad-diana", "more/kws", "board"):
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text("model: net.tflite\n")


def read(text: str, name: str = "fleet.yaml") -> list[str]:
    Path(name).write_text(text)
    return [f"{job.name}: {' '.join(job.list_arguments())}" for job in read_fleet(Path(name))]


def test_recipes_by_platforms_by_options() -> None:
    text = """\
recipes: ["recipes/a*.yaml", kws]
platforms: [host, rv32-bare]
options: {samples: [1, 2], toolchain: [zig]}
exclude:
  - {recipe: "*-diana"}
  - {platform: rv32-*, samples: 2}
include:
  - {recipe: ad-*, batch: 4}
"""
    assert read(text) == [
        "ad-host-samples-1-toolchain-zig: "
        "recipe=recipes/ad.yaml platform=host samples=1 toolchain=zig",
        "ad-host-samples-2-toolchain-zig: "
        "recipe=recipes/ad.yaml platform=host samples=2 toolchain=zig",
        "ad-rv32-bare-samples-1-toolchain-zig: "
        "recipe=recipes/ad.yaml platform=rv32-bare samples=1 toolchain=zig",
        "kws-host-samples-1-toolchain-zig: "
        "recipe=recipes/kws.yaml platform=host samples=1 toolchain=zig",
        "kws-host-samples-2-toolchain-zig: "
        "recipe=recipes/kws.yaml platform=host samples=2 toolchain=zig",
        "kws-rv32-bare-samples-1-toolchain-zig: "
        "recipe=recipes/kws.yaml platform=rv32-bare samples=1 toolchain=zig",
        "ad-diana-batch-4: recipe=recipes/ad-diana.yaml batch=4",
    ]


def test_without_platforms_each_recipe_keeps_its_own() -> None:
    assert read("recipes: [kws]") == ["kws: recipe=recipes/kws.yaml"]


def test_overlays_may_be_patterns_and_options_any_key() -> None:
    for name in ("small", "large"):
        Path(f"board-{name}.yaml").write_text("target: c\n")
    text = 'recipes: ["kws:board-*"]\noptions: {budget.flash: [64 KiB]}\n'
    assert read(text) == [
        "kws-board-large-budget.flash-64-KiB: "
        "recipe=recipes/kws.yaml:board-large.yaml budget.flash=64 KiB",
        "kws-board-small-budget.flash-64-KiB: "
        "recipe=recipes/kws.yaml:board-small.yaml budget.flash=64 KiB",
    ]
    text = "recipes: [kws]\noptions: {model.path: [net.tflite]}\n"
    assert read(text, "more/fleet.yaml") == [
        'kws-model.path--more-net.tflite-: recipe=more/kws.yaml model.path="more/net.tflite"'
    ]


def test_paths_start_at_the_folder_of_the_fleet_file() -> None:
    text = "recipes: [kws.yaml]\nplatforms: [../board.yaml]"
    assert read(text, "more/fleet.yaml") == ["kws-board: recipe=more/kws.yaml platform=board.yaml"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "recipes:\n  - recipes/kws.yaml\n  - more/kws.yaml",
            "fleet.yaml:3:5: recipes[1]: two jobs are named 'kws': recipe=recipes/kws.yaml and "
            "recipe=more/kws.yaml; rename one of the files",
        ),
        (
            "recipes: [kws, k*]",
            "fleet.yaml:1:16: recipes[1]: the job 'kws' already exists; remove one of the two",
        ),
        ("recipes: [kwz]", "fleet.yaml:1:11: recipes[0]: no such recipe; did you mean 'kws'?"),
        (
            "recipes: [kws]\nplatforms: [rv32-bear]",
            "fleet.yaml:2:13: platforms[0]: unknown platform 'rv32-bear'; "
            "did you mean 'rv32-bare'?",
        ),
        (
            "recipes: [kws]\nplatforms: [./none.yaml]",
            "fleet.yaml:2:13: platforms[0]: no such file: none.yaml; correct the path",
        ),
        (
            "recipes: [kws]\noptions: {sample: [1]}",
            "fleet.yaml:2:11: options.sample: unknown option 'sample'; did you mean 'samples'?",
        ),
        (
            "recipes: [kws]\noptions: {samples: [many]}",
            "fleet.yaml:2:21: options.samples[0]: expected a whole number, found the text 'many'",
        ),
        (
            "recipes: [kws]\nexclude: [{platform: host}]",
            "fleet.yaml:2:12: exclude[0].platform: unknown option 'platform'; known: recipe",
        ),
        (
            "recipes: [kws]\nexclude: [{recipe: kvs}]",
            "fleet.yaml:2:11: exclude[0]: matches no build of the matrix; remove it",
        ),
        (
            "recipes: [kws]\nexclude: [{recipe: '*'}]",
            "fleet.yaml:2:10: exclude: no build is left; add one to `recipes` or `include`",
        ),
        (
            "platforms: [host]\ninclude: [{recipe: kws}]",
            "fleet.yaml:1:1: platforms: has no effect without `recipes`; add `recipes`",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        read(text)
    assert str(raised.value) == message


def test_the_matrix_of_github(capsys: pytest.CaptureFixture[str]) -> None:
    Path("fleet.yaml").write_text("recipes: [kws]\nplatforms: [host]\noptions: {target: ['a, c']}")
    assert main(["matrix", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "include": [
            {
                "name": "kws-host-target-a-c",
                "arguments": "recipe=recipes/kws.yaml platform=host 'target=a, c'",
            }
        ]
    }
    assert main(["matrix", "recipe=recipes/a*.yaml", "platform=host,rv32-bare", "samples=1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ad-diana-host  recipe=recipes/ad-diana.yaml platform=host samples=1",
        "ad-diana-rv32-bare  recipe=recipes/ad-diana.yaml platform=rv32-bare samples=1",
        "ad-host  recipe=recipes/ad.yaml platform=host samples=1",
        "ad-rv32-bare  recipe=recipes/ad.yaml platform=rv32-bare samples=1",
    ]


def test_options_may_stand_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", "recipe=kws", "--json", "samples=1"]) == 0
    (job,) = json.loads(capsys.readouterr().out)["include"]
    assert job["arguments"] == "recipe=recipes/kws.yaml samples=1"


def test_the_example_of_the_documentation_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/howto/fleets.md").read_text(encoding="utf-8")
    Path("fleet.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])
    monkeypatch.chdir(ROOT)
    jobs = read_fleet(tmp_path / "fleet.yaml")
    assert len(jobs) == 10
    for job in jobs:
        load_recipe(Path(job.recipe), job.overrides, make_catalog())


def test_github_takes_no_more_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("fleet.yaml").write_text(f"recipes: [kws]\noptions: {{counter: {[*range(257)]}}}")
    assert main(["matrix"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 257
    assert main(["matrix", "--json"]) == 2
    printed, wrong = capsys.readouterr()
    assert not printed
    assert wrong.startswith("257 jobs: GitHub supports 256 in a matrix; split the fleet")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("none.yaml", "none.yaml: no such file"),
        (
            "fleet.yaml sampels=1",
            "sampels=: unknown variable or key 'sampels'; did you mean 'samples'?",
        ),
        ("fleet.yaml platform=host", "platform=host: the fleet's file states platform=rv32-bare"),
        ("fleet.yaml samples=x", "samples=x: expected a whole number, found the text 'x'"),
        ("more/kws.yaml", "more/kws.yaml: this is a recipe; name it by recipe=more/kws.yaml"),
        ("fleet.yaml more.yaml", "fleet.yaml more.yaml: one fleet file at a time"),
        ("recipe=kws platform=a", "unknown platform 'a'; known: "),
        ("fleet.yaml budgit.flash=1", "budgit.flash=: unknown variable or key 'budgit.flash'; did"),
        ("fleet.yaml run.samples=1 samples=2", "run.samples=: is set 2 times; remove one\n"),
        ("fleet.yaml recipe=kws", "fleet= and recipe= both name recipes; remove one of them"),
    ],
)
def test_wrong_words(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("fleet.yaml").write_text("recipes: [kws]\nplatforms: [rv32-bare]")
    assert main(["matrix", *words.split()]) == 2
    assert capsys.readouterr().err.startswith(message)
