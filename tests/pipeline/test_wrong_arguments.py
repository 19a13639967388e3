"""Unknown arguments of the command line are reported, not ignored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from firmwright.cli import make_parser

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("jobs", ["0", "-5", "two", "1.5", "²", ""])
def test_a_number_of_jobs_with_which_nothing_would_be_built(
    jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        make_parser().parse_args(["build", f"--jobs={jobs}", "digits.yaml"])
    assert raised.value.code == 2
    assert "expected a whole number from 1 on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("bild net.yaml", "argument COMMAND: unknown 'bild'; did you mean 'build'?"),
        ("build net.yaml --platfrm host", "unknown option '--platfrm'; did you mean '--platform'?"),
        ("inspect net.elf --josn=1", "unknown option '--josn'; did you mean '--json'?"),
        ("new bord acme", "argument KIND: unknown 'bord'; did you mean 'board'?"),
        ("completion pwsh", "argument shell: unknown 'pwsh'; known: bash, fish, zsh"),
    ],
)
def test_an_unknown_word_gets_the_nearest(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        make_parser().parse_args(words.split())
    assert raised.value.code == 2
    assert capsys.readouterr().err.endswith(f": error: {message}\n")


def test_a_graph_without_a_recipe(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "firmwright.cli", "graph", "platform=host"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    message = "graph needs one recipe and one platform; 0 were named\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_a_stage_that_there_is_not(tmp_path: Path) -> None:
    recipe = ROOT / "recipes" / "digits.yaml"
    command = ("info", str(recipe), "--task", "modle", "--outdir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "firmwright.cli", *command], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "--task: no stage 'modle'; did you mean 'model'?\n"
