"""Tabulate which batch fits which memory, and show that one more sample would not fit.

    FIRMWRIGHT_MIRROR=… python tests/benchmarks/batches.py [RECIPE …]

Platforms are rv32-bare and cortex-m4-bare with other sizes of RAM, and DIANA, whose L2 also
contains code and weights. Every firmware is built, run on one batch of random samples, and compared
with the reference.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
BARE = [(platform, ram) for platform in ("rv32-bare", "cortex-m4-bare")
        for ram in ("256 KiB", "1 MiB")]  # fmt: skip
DIANA = [("diana", "512000 B")]
RECIPES = {"resnet8": BARE, "kws": BARE, "resnet8-diana": DIANA, "kws-diana": DIANA}
TARGETS = {"diana": "soma_dory, c"}
WANTED = (1, 4, 16, 64)
HEADER = (
    "| network | platform | RAM | wanted | fits | peak, B | linked, B | one more would need, B "
    "| values that differ |\n|---|---|---|---|---|---|---|---|---|"
)


def with_memory(platform: str, ram: str, folder: Path) -> Path:
    """Write a copy of a platform with this amount of RAM."""
    text = (ROOT / "toolchains" / "platforms" / f"{platform}.yaml").read_text("utf-8")
    description = yaml.safe_load(text)
    description["memories"]["ram"]["size"] = ram
    path = folder / f"{platform}-{ram.replace(' ', '')}.yaml"
    path.write_text(yaml.safe_dump({**description, "name": path.stem}), "utf-8")
    return path


def row(network: str, platform: str, ram: str, manifest: dict[str, Any]) -> str:
    batch, run = manifest["batch"], manifest["run"]
    more = batch["next_needs"]
    cells = [
        network,
        platform,
        ram,
        batch["desired_batch_size"],
        batch["actual_batch_size"],
        f"{batch['needs']:,}",
        f"{manifest['memory']['ram_bytes']:,}",
        "—" if more is None else f"{more:,}",
        f"{run['differences']} of {run['values']}",
    ]
    return f"| {' | '.join(str(c) for c in cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", default=[*RECIPES])
    print(HEADER)
    with tempfile.TemporaryDirectory() as name:
        for network in parser.parse_args().recipes:
            for platform, ram in RECIPES[network]:
                path = with_memory(platform, ram, Path(name))
                for wanted in WANTED:
                    outdir = Path(name) / network
                    subprocess.run(
                        [sys.executable, "-m", "doit", "build",
                         f"recipe=recipes/{network}.yaml", f"platform={path}",
                         f"target={TARGETS.get(platform, 'c')}",
                         f"batch={wanted}", "samples=1", f"outdir={outdir}"],
                        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
                    )  # fmt: skip
                    manifest = outdir / path.stem / "bundle" / "manifest.json"
                    found = json.loads(manifest.read_text("utf-8"))
                    print(row(network, platform, ram, found), flush=True)


if __name__ == "__main__":
    main()
