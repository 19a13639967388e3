"""The corpus command judges each model, and goes on after an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpus.__main__ import main, read_rows
from tests.corpus.build import judge
from tests.models.test_known_values import write_flatten

pytestmark = [pytest.mark.slow, pytest.mark.needs("gcc")]


def test_a_folder_of_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, table = tmp_path / "models", tmp_path / "table.csv"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "good.tflite").write_bytes(write_flatten("int8"))
    (folder / "bad.tflite").write_bytes(b"\0\0\0\0TFL3")
    arguments = [str(folder), "--platform", "host", "--table", str(table)]
    assert main(arguments) == 0
    outcomes = {row.file: row.outcome for row in read_rows(table)}
    assert outcomes == {"bad.tflite": "rejected", "deep/good.tflite": "exact"}
    assert "2 models: 1 exact, 1 rejected." in table.with_suffix(".md").read_text()
    capsys.readouterr()
    main(arguments)
    assert capsys.readouterr().out == "", "models of the table are not built again"


@pytest.mark.parametrize(
    ("code", "text", "outcome"),
    [
        (0, "  outputs    2 of 2 samples exact, largest difference 0", "exact"),
        (0, "  outputs    1 of 2 samples exact, largest difference 1e-7", "near"),
        (0, "  outputs    within the tolerance", "near"),
        (0, "  flash      3 %", "built"),
        (1, "✗ run\n  outputs differ from the reference beyond the recipe's", "differs"),
        (1, "m.tflite: operators that cannot be compiled", "rejected"),
        (2, "Traceback (most recent call last)\nKeyError: 'x'", "traceback"),
        (-9, "", "memory"),
        (None, "stopped after 3 s", "time-out"),
    ],
)
def test_outcomes(code: int | None, text: str, outcome: str) -> None:
    assert judge(code, text)[0] == outcome
