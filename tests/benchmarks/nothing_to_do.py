"""Time a build with nothing to do against an import of doit, in turn in one run.

python tests/benchmarks/nothing_to_do.py [--rounds 15] [--recipes 21]

All recipes extend the first one. The last row is the cost of each further recipe. In another
environment every stage is checked, as in the first build after a change.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
BUILD = [sys.executable, "-m", "doit", "build", "recipe=recipes/digits.yaml"]
BUILD_ALL = [sys.executable, "-m", "doit", "build", "recipe=recipes/*.yaml"]
IMPORT = [sys.executable, "-c", "import doit"]


class Took(NamedTuple):
    """Elapsed seconds, and processor seconds of the program itself."""

    wall: float
    user: float


def run(command: list[str], folder: Path, word: str = "") -> Took:
    """Run a command, with a word in its environment that no program reads."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "ROUND": word}
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Took(time.perf_counter() - start, used.ru_utime)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--recipes", type=int, default=21)
    options = parser.parse_args()
    more = options.recipes - 1
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copytree(ROOT / "examples", folder / "examples")
        shutil.copyfile(ROOT / "dodo.py", folder / "dodo.py")
        recipe = (ROOT / "recipes/digits.yaml").read_text()
        (folder / "recipes").mkdir()
        (folder / "recipes/digits.yaml").write_text(recipe)
        for number in range(more):
            text = f"extends: digits.yaml\nname: again{number}\n"
            (folder / f"recipes/again{number}.yaml").write_text(text)
        for command in (BUILD_ALL, BUILD_ALL, BUILD):
            run(command, folder)
        rows = []
        for number in range(options.rounds):
            rows.append([run(command, folder) for command in (BUILD, IMPORT, BUILD_ALL)])
            asked = run(BUILD, folder, str(number))
            run(BUILD, folder)  # restores the snapshot of the default environment
            rows[-1].append(asked)
    print("| | median, s | min | max | processor, median, s |\n|---|---|---|---|---|")
    for label, column in (("`doit build`, nothing to do", 0), ('`python -c "import doit"`', 1),
                          ("`doit build`, every stage asked", 3),
                          (f"{options.recipes} recipes, nothing to do", 2)):  # fmt: skip
        show(label, [row[column] for row in rows], 3)
    pairs = [zip(build, base, strict=True) for build, base, *_ in rows]
    ratios = [Took(*(of_build / of_base for of_build, of_base in pair)) for pair in pairs]
    show("ratio of the first two, pair by pair", ratios, 2)
    pairs = [zip(everything, build, strict=True) for build, _, everything, *_ in rows]
    added = [Took(*((of_all - of_one) / more for of_all, of_one in pair)) for pair in pairs]
    show("each further recipe", added, 4)


def show(label: str, values: list[Took], digits: int) -> None:
    """Print a row of the table."""
    walls = [took.wall for took in values]
    numbers = (statistics.median(walls), min(walls), max(walls),
               statistics.median(took.user for took in values))  # fmt: skip
    print(f"| {label} | " + " | ".join(f"{number:.{digits}f}" for number in numbers) + " |")


if __name__ == "__main__":
    main()
