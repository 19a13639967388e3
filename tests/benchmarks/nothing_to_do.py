"""Time a build with nothing to do against importing doit, turn by turn in one run.

python tests/benchmarks/nothing_to_do.py [--rounds 15] [--recipes 21]

With as many recipes the last row is what each further one adds.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = [sys.executable, "-m", "doit", "build", "recipe=recipes/digits.yaml"]
BUILD_ALL = [sys.executable, "-m", "doit", "build", "recipe=recipes/*.yaml"]
IMPORT = [sys.executable, "-c", "import doit"]


def seconds(command: list[str], folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--recipes", type=int, default=21)
    options = parser.parse_args()
    rounds, more = options.rounds, options.recipes - 1
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copytree(ROOT / "examples", folder / "examples")
        shutil.copyfile(ROOT / "dodo.py", folder / "dodo.py")
        recipe = (ROOT / "recipes/digits.yaml").read_text()
        (folder / "recipes").mkdir()
        (folder / "recipes/digits.yaml").write_text(recipe)
        for number in range(more):
            (folder / f"recipes/again{number}.yaml").write_text(recipe)
        seconds(BUILD_ALL, folder)
        rows = [[seconds(c, folder) for c in (BUILD, IMPORT, BUILD_ALL)] for _ in range(rounds)]
    pairs = [(build, base) for build, base, _ in rows]
    ratios = sorted(build / base for build, base in pairs)
    added = sorted((everything - build) / more for build, _, everything in rows)
    print("| | median, s | min | max |\n|---|---|---|---|")
    for label, values in (
        ("`doit build`, nothing to do", [b for b, _ in pairs]),
        ('`python -c "import doit"`', [i for _, i in pairs]),
    ):
        print(f"| {label} | {statistics.median(values):.3f} | {min(values):.3f} "
              f"| {max(values):.3f} |")  # fmt: skip
    print(f"| ratio, pair by pair | {statistics.median(ratios):.2f} | {ratios[0]:.2f} "
          f"| {ratios[-1]:.2f} |")  # fmt: skip
    print(f"| each further recipe | {statistics.median(added):.4f} | {added[0]:.4f} "
          f"| {added[-1]:.4f} |")  # fmt: skip


if __name__ == "__main__":
    main()
