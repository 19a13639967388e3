"""Time builds and dry runs of many recipes that extend one base, after edits of their files.

python tests/benchmarks/many_recipes.py [--rounds 5] [--recipes 200]

Each row is the processor time, user and system, of commands that alternate with all others.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = [sys.executable, "-m", "doit", "build", "recipe=recipes/*.yaml"]
DRY_RUN = [*BUILD, "dry_run=1"]
CLEAN = [sys.executable, "-m", "doit", "clean", "recipe=recipes/*.yaml"]
ONE, BASE = Path("recipes/again7.yaml"), Path("recipes/digits.yaml")


def touch(path: Path) -> Callable[[], None]:
    return path.touch


def comment(path: Path) -> Callable[[], None]:
    return lambda: append(path, f"# {path.stat().st_mtime_ns}\n")


def change(path: Path) -> Callable[[], None]:
    return lambda: append(path, "budget: {flash: 1 MiB}\n")


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


CASES: Mapping[str, tuple[Callable[[], object], list[str], Mapping[str, str]]] = {
    "build, nothing to do": (lambda: None, BUILD, {}),
    "build after touch of a recipe": (touch(ONE), BUILD, {}),
    "build after touch of the base": (touch(BASE), BUILD, {}),
    "build after a new comment in a recipe": (comment(ONE), BUILD, {}),
    "build after a new comment in the base": (comment(BASE), BUILD, {}),
    "dry run, nothing to do": (lambda: None, DRY_RUN, {}),
    "dry run after touch of a recipe": (touch(ONE), DRY_RUN, {}),
    "dry run after touch of the base": (touch(BASE), DRY_RUN, {}),
    "dry run after a new comment in a recipe": (comment(ONE), DRY_RUN, {}),
    "dry run after a new comment in the base": (comment(BASE), DRY_RUN, {}),
    "dry run after a changed value in a recipe": (change(ONE), DRY_RUN, {}),
    "dry run after a changed value in the base": (change(BASE), DRY_RUN, {}),
    "dry run in another environment": (lambda: None, DRY_RUN, {"ROUND": "1"}),
}
"""The rows: an edit, the command after it, and its variables of the environment."""


def run(command: list[str], variables: Mapping[str, str]) -> float:
    """Run a command and return its processor time in seconds, user and system."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **variables}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return used.ru_utime + used.ru_stime


def write_recipes(count: int) -> None:
    """Write the recipes into the current folder."""
    shutil.copytree(ROOT / "examples/digits", "examples/digits")
    shutil.copyfile(ROOT / "dodo.py", "dodo.py")
    BASE.parent.mkdir()
    shutil.copyfile(ROOT / BASE, BASE)
    for number in range(count - 1):
        Path(f"recipes/again{number}.yaml").write_text(f"extends: digits.yaml\nname: n{number}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--recipes", type=int, default=200)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {label: [] for label in CASES}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_recipes(options.recipes)
        for _ in range(2):  # the second build finds no new file
            run(BUILD, {})
        for _ in range(options.rounds):
            for label, (edit, command, variables) in CASES.items():
                before = ONE.read_text(), BASE.read_text()
                edit()
                seconds[label].append(run(command, variables))
                for path, text in zip((ONE, BASE), before, strict=True):
                    if path.read_text() != text:
                        path.write_text(text)
        run(CLEAN, {})
        seconds["dry run after `clean`"] = [run(DRY_RUN, {})]
        os.chdir(ROOT)
    print(f"| {options.recipes} recipes | processor, s, median | min | max |\n|---|---|---|---|")
    for label, values in seconds.items():
        numbers = (statistics.median(values), min(values), max(values))
        print(f"| {label} | " + " | ".join(f"{number:.2f}" for number in numbers) + " |")


if __name__ == "__main__":
    main()
