"""The code of a recipe is found before any of it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.documents.chain import Layers
from firmwright.errors import DiagnosticError
from firmwright.pipeline.command_line import check_custom_code
from firmwright.recipe.custom_code import find_custom_code
from tests.quality.test_repository import ROOT

RECIPE = """\
model: {python: "network:make"}
platform: boards/acme.yaml
toolchain: zig
cflags: [-O3]
devices: {npu: "npu:NPU"}
transforms: {extra: ["folding:fold"]}
extensions: ["fast:conv", "fast:conv"]
libraries: [{name: dsp, sources: [dsp.c]}]
run: {inputs: {x: {python: "scans:some"}}, board: desk.yaml}
evaluate: {inputs: {x: {arrays: x.npy}}, metric: "score:rate"}
"""
PYTHON = ("npu:NPU", "score:rate", "fast:conv", "network:make", "scans:some", "folding:fold")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "net.yaml"
    path.write_text(RECIPE)
    return path


def test_every_kind_of_code_is_refused_at_its_place(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRMWRIGHT_NO_USER_CODE", "1")
    with pytest.raises(DiagnosticError) as raised:
        check_custom_code(Layers(recipe))
    recorded = [
        str(d).removeprefix(f"{recipe}:").split("; not allowed")[0]
        for d in raised.value.diagnostics
    ]
    assert recorded == [
        "1:17: model.python: a Python function",
        "2:11: platform: a description names programs and templates that run",
        "4:9: cflags: flags can make a compiler run programs",
        "5:16: devices.npu: a Python function",
        "6:22: transforms.extra[0]: a Python function",
        "7:14: extensions[0]: a Python function",
        "7:27: extensions[1]: a Python function",
        "8:12: libraries: the C of a recipe is compiled, and runs on this machine for the "
        "platform `host`",
        "9:28: run.inputs.x.python: a Python function",
        "9:51: run.board: a board's file names programs that flash and reset it",
        "10:50: evaluate.metric: a Python function",
    ]


def test_a_build_says_once_what_python_it_runs(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIRMWRIGHT_NO_USER_CODE", "0")
    check_custom_code(Layers(recipe))
    assert capsys.readouterr().err == f"{recipe}: runs custom Python: {', '.join(PYTHON)}\n"


def test_a_model_that_holds_code_is_code(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    for model in (
        "net.pt2",
        "{path: net.bin, format: pt2}",
        "{url: 'https://a.example/n.pt2?ref=1'}",
    ):
        path.write_text(f"model: {model}\n")
        assert [code.python for code in find_custom_code(path)] == ["the model"]
    path.write_text("model: net.tflite\nplatform: host\ncflags: []\n")
    assert find_custom_code(path) == []


def test_recipes_that_come_with_firmwright_run_no_code() -> None:
    paths = [*(ROOT / "recipes").glob("*.yaml")]
    assert paths
    assert [path.stem for path in paths if find_custom_code(path)] == []
