"""Tabulate the time of a fleet and of one `build` with the same 36 builds, cold and warm.

    FIRMWRIGHT_MIRROR=… python -m tests.benchmarks.fleets

The jobs are six built-in recipes for the processor alone on six platforms, without a shared cache.
The digests of all bundles must be equal.
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
RUNS = ("cold", "nothing to do", "nothing to do, again")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipes", default=RECIPES)
    parser.add_argument("--platforms", default=PLATFORMS)
    options = parser.parse_args()
    arguments = (f"recipe={options.recipes}", f"platform={options.platforms}", "samples=1")
    print(f"{os.cpu_count()} cores\n\n| run | build | fleet | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="firmwright-fleets-") as folder:
        # The compiler builds its libraries once per platform, before the timed runs.
        run("build", "recipe=digits", *arguments[1:], f"outdir={folder}/first")
        for name in RUNS:
            build, fleet = (run(c, *arguments, f"outdir={folder}/{c}") for c in COMMANDS)
            print(f"| {name} | {build:.1f} s | {fleet:.1f} s | {fleet / build:.2f} |", flush=True)
        same = read_fleet(Path(folder)) == read_builds(Path(folder))
    print(f"\nThe digests are {'equal' if same else 'different'}.")


def run(*command: str) -> float:
    """Run a command of firmwright; return the seconds."""
    begun = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "firmwright", *command], cwd=ROOT, check=True,
        env=os.environ | {"FIRMWRIGHT_CACHE": ""}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return time.monotonic() - begun


def read_fleet(folder: Path) -> list[str]:
    content = json.loads((folder / "fleet/fleet/fleet.json").read_text())
    return sorted(outcome["sha256"] for outcome in content["outcomes"])


def read_builds(folder: Path) -> list[str]:
    bundles = (folder / "build").rglob("*.tar.gz")
    return sorted(sha256(path.read_bytes()).hexdigest() for path in bundles)


if __name__ == "__main__":
    main()
