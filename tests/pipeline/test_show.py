"""``firmwright show`` prints a resolved recipe with the origin of each value."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from doit import doit_cmd, loader

from firmwright import cli
from firmwright.errors import DiagnosticError
from firmwright.pipeline.command_line import make_catalog
from firmwright.recipe.load_recipe import load_recipe
from firmwright.recipe.schema import load_schema


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loader, "initial_workdir", None)  # the command sets both
    monkeypatch.setattr(doit_cmd, "_CMDLINE_VARS", None)
    Path("net.onnx").touch()
    Path("parts").mkdir()
    Path("parts/base.yaml").write_text("run:\n  samples: 2\n  seed: 1\n")
    Path("net.yaml").write_text("extends: parts/base.yaml\nmodel: net.onnx\nrun: {seed: 3}\n")
    return tmp_path


def show(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Return the exit code and both outputs of the command."""
    code = cli.main(["show", *words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_json_has_values_and_origins(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = show(capsys, "net.yaml", "--json")
    shown = json.loads(text)
    assert (code, shown["recipe"]["run"]["seed"]) == (0, 3)
    schema = files("firmwright.report").joinpath(shown["$schema"]).read_text("utf-8")
    jsonschema.validate(shown, json.loads(schema))
    origins = shown["origins"]
    names = ("model.path", "run.samples", "run.seed", "platform")
    places = ["net.yaml:2", "parts/base.yaml:2", "net.yaml:3", "default"]
    assert [origins[name] for name in names] == places
    assert {place.partition(":")[0] for place in origins.values()} == {
        *("net.yaml", "parts/base.yaml", "default")
    }


def test_the_history_and_the_differences(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = show(capsys, "net.yaml", "--key", "run.seed")
    history = ["run.seed: 3", "  parts/base.yaml:3  1", "  net.yaml:3         3"]
    assert (code, text.splitlines()) == (0, history)
    Path("other.yaml").write_text("extends: net.yaml\nrun: {samples: 5}\n")
    code, text, _ = show(capsys, "net.yaml", "--against", "other.yaml")
    difference = "run.samples: 2 (parts/base.yaml:2) -> 5 (other.yaml:2)"
    assert (code, text.splitlines()[-1]) == (1, difference)
    assert show(capsys, "net.yaml", "--against", "net.yaml")[:2] == (0, "the same\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("net.yaml", "--key", "run.sampels"), "--key run.sampels: the recipe has no such value"),
        (
            ("net.yaml", "--key", "clock"),
            "--key clock: the recipe does not set this key, which has no default",
        ),
        (("net.yaml", "--against", ""), "recipe=: expected a file before and after each colon"),
        (("net.yaml", "--key", "run["), "--key: not a key: 'run['"),
        (
            ("net.yaml", "inputs.a.b.shape=[1]"),
            "inputs.a.b.shape=: unknown variable or key 'inputs.a.b.shape'; if a name has dots, "
            "write inputs['a.b'].shape=",
        ),
    ],
)
def test_errors_are_one_line(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, error = show(capsys, *words)
    assert (code, text) == (2, "")
    assert error.startswith(message)


@pytest.mark.parametrize("key", [key for key in load_schema()["properties"] if key != "extends"])
def test_each_error_carries_the_file_that_wrote_the_value(key: str) -> None:
    """No key accepts a list in a list. The base contains one on line 4."""
    Path("parts/base.yaml").write_text(f"run:\n  samples: 2\n\n{key}: [[]]\n")
    if key == "run":
        Path("parts/base.yaml").write_text("\n\n\nrun: [[]]\n")
    model = "" if key == "model" else "model: net.onnx\n"
    Path("net.yaml").write_text(f"extends: parts/base.yaml\n{model}")
    with pytest.raises(DiagnosticError) as error:
        load_recipe(Path("net.yaml"), {}, make_catalog())
    assert {(each.path, each.line) for each in error.value.diagnostics} == {("parts/base.yaml", 4)}
