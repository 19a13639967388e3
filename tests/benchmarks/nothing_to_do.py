"""Time a build with nothing to do against importing doit, turn by turn in one run.

python tests/benchmarks/nothing_to_do.py [--rounds 15]
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
IMPORT = [sys.executable, "-c", "import doit"]


def seconds(command: list[str], folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in ("recipes", "examples"):
            shutil.copytree(ROOT / name, folder / name)
        shutil.copyfile(ROOT / "dodo.py", folder / "dodo.py")
        seconds(BUILD, folder)
        pairs = [(seconds(BUILD, folder), seconds(IMPORT, folder)) for _ in range(rounds)]
    ratios = sorted(build / base for build, base in pairs)
    print("| | median, s | min | max |\n|---|---|---|---|")
    for label, values in (
        ("`doit build`, nothing to do", [b for b, _ in pairs]),
        ('`python -c "import doit"`', [i for _, i in pairs]),
    ):
        print(f"| {label} | {statistics.median(values):.3f} | {min(values):.3f} "
              f"| {max(values):.3f} |")  # fmt: skip
    print(f"| ratio, pair by pair | {statistics.median(ratios):.2f} | {ratios[0]:.2f} "
          f"| {ratios[-1]:.2f} |")  # fmt: skip


if __name__ == "__main__":
    main()
