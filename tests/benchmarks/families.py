"""Tabulate whether the built-in recipes of the device `c` are exact on every family of cores.

    FIRMWRIGHT_MIRROR=… python -m tests.benchmarks.families [RECIPE …]

Each recipe is built for one platform of a family and run in its emulator on its samples. A cell
states how many samples are exact, or within the recipe's tolerance.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tests.benchmarks.exactness import PLATFORMS, ROOT

NO_ROOM = ("does not fit", "will not fit in region")
"""Messages of plan and linker if a memory is too small."""


def list_recipes() -> list[str]:
    """Return the built-in recipes whose network runs on the processor alone."""
    found = []
    for path in sorted((ROOT / "recipes").glob("*.yaml")):
        if yaml.safe_load(path.read_text("utf-8")).get("target", "c") == "c":
            found.append(path.stem)
    return found


def describe(recipe: str, stated: str, folder: Path) -> str:
    """Build a recipe for a platform and run it; return the cell of the table."""
    outdir = folder / recipe
    words = [f"recipe=recipes/{recipe}.yaml", f"platform={stated}"]
    done = subprocess.run(
        [sys.executable, "-m", "doit", "build", *words, f"outdir={outdir}"],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        small = any(message in done.stderr for message in NO_ROOM)
        return "does not fit" if small else f"**{done.stderr.strip().splitlines()[0]}**"
    run = json.loads((outdir / Path(stated).stem / "run" / "run.json").read_text("utf-8"))
    if run["exact_samples"] == run["samples"]:
        return f"{run['samples']} exact"
    return f"{run['exact_samples']} exact, off by {run['max_difference']:g} at most"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", metavar="RECIPE", nargs="*", help="some of them alone")
    chosen = parser.parse_args().recipes or list_recipes()
    names = [Path(stated).stem for stated in PLATFORMS]
    print(f"| recipe | {' | '.join(names)} |")
    print(f"|---|{'---|' * len(names)}")
    with tempfile.TemporaryDirectory() as folder:
        for recipe in chosen:
            cells = [describe(recipe, stated, Path(folder)) for stated in PLATFORMS]
            print(f"| {recipe} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
