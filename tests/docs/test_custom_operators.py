"""The example of the page about custom operators works without a change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Repository
from tests.networks.tflite_models import ModelBuilder, Quantization

PAGE = ROOT / "docs" / "howto" / "custom-operators.md"
FILE = re.compile(r"```\w+\n(?:# |/\* )([\w/.-]+\.\w+)(?: \*/)?\n(.*?)```", re.DOTALL)
GRID = Quantization(0.05, 3)


def write_example(folder: Path) -> None:
    """Write the files of the page, and a model with two operators of one code."""
    for name, text in FILE.findall(PAGE.read_text("utf-8")):
        (folder / name).write_text(text, encoding="utf-8")
    builder = ModelBuilder()
    source = builder.input((1, 8), "int8", GRID)
    scaled, again = (builder.tensor((1, 8), "int8", GRID) for _ in range(2))
    result = builder.output((1, 8), "int8", GRID)
    builder.custom("Scale", [source], [scaled], {"shift": 1, "factor": 3})
    builder.custom("Scale", [scaled], [again], {"shift": 0, "factor": -1})
    builder.graph.operators[-1].opcodeIndex = 0
    builder.operator("ADD", [again, source], [result], "AddOptions")
    (folder / "net.tflite").write_bytes(builder.build())


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    repository = Repository(tmp_path_factory.mktemp("custom"))
    write_example(repository.folder)
    return repository


def test_the_example(example: Repository) -> None:
    done = example.firmwright("build", "net.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    shown = "4 of 4 samples exact, largest difference 0 (ai-edge-litert "
    assert shown in done.stdout
    assert "and Python functions for Scale)" in done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def scale(inputs, options):\n    return 1 // 0\n", "operators.py:2: ZeroDivisionError"),
        ("def scale(inputs, options):\n    return inputs[0].astype('int32')\n",
         "operators.py:1:1: result 0 is int32 [1, 8]; expected int8 [1, 8] (operators:scale)"),
        ("def scale(inputs, options):\n    return open('net.yaml').read()\n",
         "operators:scale reads net.yaml, which the recipe does not list"),
        ("def scales(inputs, options):\n    return inputs\n", "did you mean 'scales'?"),
    ],
)  # fmt: skip
def test_errors_of_the_reference(example: Repository, text: str, message: str) -> None:
    kept = (example.folder / "operators.py").read_text()
    example.write("operators.py", text)
    failed = example.firmwright("build", "net.yaml")
    example.write("operators.py", kept)
    assert failed.returncode == 1
    output = failed.stdout + failed.stderr
    assert "net.yaml:4:46: model.custom_operators.Scale.reference: operators" in output
    assert message in output


def test_an_operator_that_the_model_does_not_have(example: Repository) -> None:
    recipe = (example.folder / "net.yaml").read_text()
    added = '    Scales: {function: f, reference: "operators:scale"}\nplatform:'
    example.write("net.yaml", recipe.replace("platform:", added))
    failed = example.firmwright("build", "net.yaml")
    example.write("net.yaml", recipe)
    expected = "net.yaml:5:13: model.custom_operators.Scales: the model has no operator 'Scales'"
    assert f"{expected}; did you mean 'Scale'?" in failed.stderr


def test_a_missing_c_function_is_named(example: Repository) -> None:
    recipe = (example.folder / "net.yaml").read_text()
    example.write("net.yaml", recipe.replace("scale_int8", "scale_int9"))
    failed = example.firmwright("build", "net.yaml")
    example.write("net.yaml", recipe)
    assert "needs 'scale_int9', which no file defines; did you mean 'scale_int8'?" in failed.stderr
