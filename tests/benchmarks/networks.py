"""Build every built-in recipe for every platform; tabulate agreement, instructions, flash and RAM.

    FIRMWRIGHT_MIRROR=… python tests/benchmarks/networks.py [--samples 4] [--outdir DIR]

Flash and RAM are of the whole program, including start-up code, HAL, the demo's buffers, and 16 KiB
of stack on bare metal.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RECIPES = ("digits", "resnet8", "kws", "vww", "ad")
PLATFORMS = ("host", "rv32-bare", "cortex-m4-bare")
HEADER = (
    "| network | platform | samples | values that differ | largest difference | instructions "
    "| per MAC | flash, B | RAM, B | arena, B | its lower bound, B |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def row(manifest: dict[str, Any]) -> str:
    run, memory = manifest["run"], manifest["memory"]
    counted = run["instructions"]
    cells = [
        manifest["name"],
        manifest["platform"],
        run["samples"],
        f"{run['differences']} of {run['values']}",
        f"{run['max_difference']:g}",
        "—" if counted is None else f"{counted:,}",
        "—" if counted is None else f"{counted / run['macs']:.2f}",
        f"{memory['flash_bytes']:,}",
        f"{memory['ram_bytes']:,}",
        f"{memory['arena_bytes']:,}",
        f"{memory['arena_lower_bound_bytes']:,}",
    ]
    return f"| {' | '.join(str(c) for c in cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", default="4")
    parser.add_argument("--outdir", default=tempfile.mkdtemp())
    options = parser.parse_args()
    print(HEADER)
    for name in RECIPES:
        for platform in PLATFORMS:
            outdir = Path(options.outdir) / name
            subprocess.run(
                [sys.executable, "-m", "doit", "build", f"recipe=recipes/{name}.yaml",
                 f"platform={platform}", f"samples={options.samples}", f"outdir={outdir}"],
                cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            path = outdir / platform / "bundle" / "manifest.json"
            print(row(json.loads(path.read_text())), flush=True)


if __name__ == "__main__":
    main()
