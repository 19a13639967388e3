"""Python programs that firmwright starts import nothing from the current folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import firmwright
from firmwright.child import make_environment, run_python

PACKAGES = ("numpy", "yaml", "doit", "msgspec", "jinja2", "tvm")


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that modules of the current folder write when they are imported."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    for name in (*sys.stdlib_module_names, *PACKAGES, "sitecustomize", "usercustomize"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w').close()\n")
    monkeypatch.chdir(folder)
    return tmp_path / "mark"


def test_a_child_imports_nothing_from_the_current_folder(mark: Path) -> None:
    done = run_python("json.tool", input="[1]", capture_output=True, text=True)
    assert (done.stdout, mark.exists()) == ("[\n    1\n]\n", False), done.stderr
    subprocess.run([sys.executable, "-m", "json.tool"], input=b"[1]", check=False)
    assert mark.exists()


def test_a_child_that_refuses_unsafe_paths_runs(mark: Path) -> None:
    env = {**os.environ, "PYTHONSAFEPATH": "1"}
    done = run_python("json.tool", input="[1]", capture_output=True, text=True, env=env)
    assert (done.stdout, mark.exists()) == ("[\n    1\n]\n", False), done.stderr


def test_entries_of_pythonpath_start_in_the_folder_of_the_command(
    mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = os.pathsep.join(["", "lib", "/site", ""])
    monkeypatch.setattr("doit.loader.initial_workdir", "/start")
    assert make_environment({"PYTHONPATH": path})["PYTHONPATH"] == "/start/lib:/site"
    assert make_environment({"PYTHONPATH": "", "A": "b"}) == {"A": "b"}
    done = run_python("json.tool", "--help", env={**os.environ, "PYTHONPATH": os.pathsep})
    assert (done.returncode, mark.exists()) == (0, False)


def test_python_m_firmwright_imports_its_packages_from_elsewhere(mark: Path) -> None:
    for name in sys.stdlib_module_names:  # Python imports some of them before firmwright begins
        Path(f"{name}.py").unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "firmwright", "platforms"], check=True)
    assert not mark.exists()


def test_nothing_else_starts_python() -> None:
    sources = Path(firmwright.__file__).parent
    found = {p for p in sources.rglob("*.py") if "sys.executable" in p.read_text(encoding="utf-8")}
    assert found == {sources / "child.py"}
