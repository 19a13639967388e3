"""Tabulate the times of a fleet and of one `build` with the same 36 builds.

    FIRMWRIGHT_MIRROR=… python -m tests.benchmarks.fleets

The jobs are six built-in recipes for the processor alone on six platforms. The cold runs have no
shared cache, or an empty shared cache for each command. The warm run has a new build folder and
this cache. The digests of all bundles must be equal. The processor time is more reliable than the
elapsed time if other programs run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from tests.quality.test_repository import ROOT

RECIPES = "digits,kws,kws-qdq,ad,dscnn-nemo,resnet8"
PLATFORMS = "rv32-bare,host,cortex-m4-bare,cortex-m7-bare,cortex-m33-bare,cortex-m55-bare"
COMMANDS = ("build", "fleet")
RUNS = {
    "cold": ("cold", False),
    "nothing to do": ("cold", False),
    "nothing to do, again": ("cold", False),
    "cold, stores results in a shared cache": ("filled", True),
    "warm: new folder, results in the cache": ("warm", True),
}
"""The suffix of the build folders, and whether the run has a shared cache."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipes", default=RECIPES)
    parser.add_argument("--platforms", default=PLATFORMS)
    options = parser.parse_args()
    arguments = (f"recipe={options.recipes}", f"platform={options.platforms}", "samples=1")
    print(f"{os.cpu_count()} cores\n")
    print("| run | build | fleet | ratio | CPU of build | CPU of fleet | ratio |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="firmwright-fleets-") as scratch:
        folder = Path(scratch)
        # The compiler builds its libraries once per platform, before the timed runs.
        run("build", "recipe=digits", *arguments[1:], f"outdir={folder}/first", cache="")
        for name, (suffix, shared) in RUNS.items():
            caches = {c: str(folder / f"cache-{c}") if shared else "" for c in COMMANDS}
            (build, cpu), (fleet, fleet_cpu) = (
                run(c, *arguments, f"outdir={folder}/{c}-{suffix}", cache=caches[c])
                for c in COMMANDS
            )
            print(
                f"| {name} | {build:.1f} s | {fleet:.1f} s | {fleet / build:.2f} "
                f"| {cpu:.1f} s | {fleet_cpu:.1f} s | {fleet_cpu / cpu:.2f} |",
                flush=True,
            )
        pairs = [read_digests(folder, suffix) for suffix in ("cold", "filled", "warm")]
    print(f"\nThe digests are {'equal' if all(a == b for a, b in pairs) else 'different'}.")


def run(*command: str, cache: str) -> tuple[float, float]:
    """Run a command of firmwright; return the elapsed seconds and the processor's seconds."""
    begun, before = time.monotonic(), os.times()
    subprocess.run(
        [sys.executable, "-m", "firmwright", *command], cwd=ROOT, check=True,
        env=os.environ | {"FIRMWRIGHT_CACHE": cache}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    after = os.times()
    used = after.children_user + after.children_system
    return time.monotonic() - begun, used - before.children_user - before.children_system


def read_digests(folder: Path, suffix: str) -> tuple[list[str], list[str]]:
    content = json.loads((folder / f"fleet-{suffix}/fleet/fleet.json").read_text())
    bundles = (folder / f"build-{suffix}").rglob("*.tar.gz")
    fleet = sorted(outcome["sha256"] for outcome in content["outcomes"])
    return fleet, sorted(sha256(path.read_bytes()).hexdigest() for path in bundles)


if __name__ == "__main__":
    main()
