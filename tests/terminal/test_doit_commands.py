"""doit's arguments and errors: recipes are found from every folder, errors have no traceback."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

OURS = {point.name for point in entry_points(group="doit.COMMAND")}

pytestmark = pytest.mark.skipif(
    not {"dumpdb", "help", "info", "run"} <= OURS,
    reason="firmwright's entry points have changed: install it again",
)

DOIT = f"{sys.executable} -m doit"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A subfolder of a repository without a recipe."""
    (tmp_path / "dodo.py").write_text("from firmwright.tasks.dodo import *\n")
    (tmp_path / "notes" / "old").mkdir(parents=True)
    return tmp_path / "notes" / "old"


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder,
                          capture_output=True, text=True)  # fmt: skip


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("build", "no recipe: name one"),
        ("build recipe=net", "recipe=net: no such recipe"),
        ("info buidl", "ERROR: info: no task 'buidl'; did you mean 'build'?\n"),
        ("dumpdb", "`doit info TASK` shows the recorded values"),
        ("-f ../dodo build", "Could not find dodo file"),
    ],
)
def test_a_mistake_in_a_subfolder(folder: Path, command: str, message: str) -> None:
    done = run(f"{DOIT} {command}", folder)
    assert done.returncode
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "build").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("lst", "no command, task or file of a task is named 'lst'; did you mean 'list'?\n"),
        ("bild", "no command, task or file of a task is named 'bild'; did you mean 'build'?\n"),
        ("build:other", "is named 'build:other'; did you mean 'build'?\n"),
        ("build -v 2", "option -v not recognized; doit's options come first, as in `doit -n 2 bui"),
        ("-n -3 build", "-n -3: expected a whole number from 0 on"),
        ("build --help", "option --help not recognized; doit's options come first"),
    ],
)
def test_a_word_that_doit_does_not_take(folder: Path, command: str, message: str) -> None:
    (folder / "dodo.py").write_text("def task_build(): return {'actions': []}\n")
    done = run(f"{DOIT} {command}", folder)
    assert done.returncode == 3
    assert done.stderr.startswith("ERROR: ")
    assert message in done.stderr


def test_no_task_file_at_all(tmp_path: Path) -> None:
    for command in ("build", "list", "clean"):
        done = run(f"{DOIT} {command}", tmp_path)
        assert done.returncode == 3
        assert done.stderr.startswith("ERROR: no dodo.py in this folder or above\n")


def test_a_reader_that_ends(folder: Path) -> None:
    for words in ("list", "help", "help build", "info build"):
        assert run(f"{DOIT} {words} | true", folder).stderr == "", words


def test_files_of_firmwright_itself_are_counted(folder: Path) -> None:
    reads = "[firmwright.__file__, firmwright.cli.__file__, __file__]"
    own = f"import firmwright.cli\ndef task_own(): return {{'actions': [], 'file_dep': {reads}}}\n"
    (folder / "dodo.py").write_text(own)
    printed = run(f"{DOIT} info own", folder).stdout
    files = f" - {folder}/dodo.py\n - 2 files of firmwright itself\n"
    assert printed.endswith(f"\nfile_dep   : \n{files}")


def test_cleaning_says_what_goes_and_no_more(folder: Path) -> None:
    """doit announces actions of other task files in its usual form."""
    own = "def announced(): print('gone')\ndef remove_results(): print('removed')\n"
    own += "def task_own(): return {'actions': [], 'clean': [remove_results, announced]}\n"
    (folder / "dodo.py").write_text(own)
    done = run(f"{DOIT} clean", folder)
    announcement = "own - executing 'Python: function announced'"
    assert done.stdout.splitlines() == ["removed", announcement, "gone"]
