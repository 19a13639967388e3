"""firmwright as a wheel, made of the sources that it runs from."""

from __future__ import annotations

import shutil
from pathlib import Path

from firmwright.child import run_python
from firmwright.errors import UserError
from firmwright.folders import IS_CHECKOUT, ON_TOP, TOP

FILES = ("pyproject.toml", "build_backend.py", "README.md", "LICENSE")


def install_wheel(place: Path) -> Path:
    """Build a wheel of a copy of the sources and install it; return the folder for PYTHONPATH.

    Raises UserError with the reason where there are no sources, or no pip and setuptools.
    """
    if not IS_CHECKOUT:
        raise UserError("firmwright is no editable installation")
    copy, installed = place / "sources", place / "wheel"
    made = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", ".*")
    for name in ("src", *ON_TOP):
        shutil.copytree(TOP / name, copy / name, ignore=made)
    for name in FILES:
        shutil.copyfile(TOP / name, copy / name)
    run_pip("wheel", "--no-build-isolation", "--wheel-dir", str(copy / "dist"), str(copy))
    (wheel,) = (copy / "dist").glob("*.whl")
    run_pip("install", "--no-index", "--target", str(installed), str(wheel))
    return installed


def run_pip(command: str, *words: str) -> None:
    """Run a command of pip for one package alone; UserError with the last line that it says."""
    options = "--no-deps", "--quiet", "--disable-pip-version-check"
    done = run_python("pip", command, *options, *words, capture_output=True, text=True)
    if done.returncode:
        told = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise UserError(f"no wheel could be made: {told[-1] if told else f'pip {command} failed'}")
