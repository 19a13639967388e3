"""Tabulate the time of a fleet on one worker, on two, and on two of which one is often killed.

    FIRMWRIGHT_MIRROR=… python -m tests.benchmarks.fleets --jobs 60 --kill-every 20

The jobs are the built-in recipes for the processor alone, each for six platforms, without a cache.
Efficiency is the time on one worker divided by twice the time on two. The digests of all bundles
must be equal.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

from firmwright.fleet.local import WORKER
from tests.fleet.processes import find_processes
from tests.quality.test_repository import ROOT

RECIPES = ("digits", "kws", "kws-qdq", "kws-match", "ad", "ad-match", "dscnn-nemo", "resnet8",
           "resnet8-qdq", "vww")  # fmt: skip
PLATFORMS = ("rv32-bare", "host", "cortex-m4-bare", "cortex-m7-bare", "cortex-m33-bare",
             "cortex-m55-bare")  # fmt: skip
RUNS = (("one worker", 1, False), ("two workers", 2, False), ("two, one killed at times", 2, True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=60, help="how many of them")
    parser.add_argument("--kill-every", type=float, default=20, metavar="S")
    parser.add_argument("--samples", type=int, default=1, help="that each firmware gets")
    options = parser.parse_args()
    jobs = [*product(RECIPES, PLATFORMS)][: options.jobs]
    print(f"{len(jobs)} jobs, {os.cpu_count()} cores\n")
    print("| run | seconds | efficiency | workers killed | built | same digests |")
    print("|---|---|---|---|---|---|")
    seconds: list[float] = []
    digests: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="firmwright-fleets-") as folder:
        # The compiler builds its libraries once per platform, before the timed runs.
        first = write_fleet(Path(folder), jobs[: len(PLATFORMS)], 1)
        run(first, Path(folder, "first"), 2, None)
        fleet = write_fleet(Path(folder), jobs, options.samples)
        for name, workers, kills in RUNS:
            outdir = Path(folder, name)
            begun = time.monotonic()
            killed = run(fleet, outdir, workers, options.kill_every if kills else None)
            seconds.append(time.monotonic() - begun)
            digests.append(read_digests(outdir))
            built = sum(map(bool, digests[-1].values()))
            efficiency = seconds[0] / workers / seconds[-1]
            same = "yes" if digests[-1] == digests[0] else "no"
            row = (name, f"{seconds[-1]:.0f}", f"{efficiency:.2f}", str(killed), str(built), same)
            print(f"| {' | '.join(row)} |", flush=True)


def write_fleet(folder: Path, jobs: list[tuple[str, str]], samples: int) -> Path:
    """Write a fleet file with only these jobs."""
    recipes = [str(ROOT / "recipes" / f"{recipe}.yaml") for recipe, _ in jobs]
    included = [
        {"recipe": recipe, "platform": platform, "samples": samples}
        for recipe, (_, platform) in zip(recipes, jobs, strict=True)
    ]
    path = folder / "fleet.yaml"
    path.write_text(json.dumps({"include": included}))
    return path


def run(fleet: Path, outdir: Path, workers: int, kill_every: float | None) -> int:
    """Build a fleet; return how many workers were killed meanwhile."""
    command = ["fleet", str(fleet), "--workers", str(workers), "--outdir", str(outdir)]
    process = subprocess.Popen(
        [sys.executable, "-m", "firmwright.cli", *command], cwd=ROOT,
        env=os.environ | {"FIRMWRIGHT_CACHE": ""}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    choose = random.Random(1)
    killed = 0
    while True:
        try:
            process.wait(kill_every)
        except subprocess.TimeoutExpired:
            found = find_processes(process.pid, WORKER)
            if found:
                choose.choice(found).kill()
                killed += 1
            continue
        return killed


def read_digests(outdir: Path) -> dict[str, str]:
    content = json.loads((outdir / "fleet" / "fleet.json").read_text())
    return {outcome["job"]: outcome["sha256"] for outcome in content["outcomes"]}


if __name__ == "__main__":
    main()
