"""Tabulate how many of 200 inputs MLPerf Tiny's int8 networks compute exactly, on every platform.

    FIRMWRIGHT_MIRROR=… python -m tests.benchmarks.exactness

Inputs are the real inputs in the mirror folder (160 pictures, 200 keywords), and random ones for
the rest. LiteRT's reference kernels are the reference. Every firmware is built from a recipe and
run in the platform's emulator, some 100,000 million instructions in total.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.lowering.test_tflite_networks import COUNT, NETWORKS, mirrored, real_inputs, samples

ROOT = Path(__file__).parents[2]
PLATFORMS = (
    "host", "rv32-bare", str(ROOT / "tests/devices/cpu/platforms/rv32ic.yaml"), "cortex-m0-bare",
    "cortex-m4-bare", "cortex-m7-bare", "cortex-m33-bare", "cortex-m55-bare",
    "aarch64-linux", "aarch64-dotprod-linux", "aarch64-i8mm-linux",
)  # fmt: skip
"""At least one platform of each family of cores, in the order of the table."""
HEADER = (
    "| network | platform | inputs | exact | values that differ | instructions an inference |\n"
    "|---|---|---|---|---|---|"
)


def write_recipe(network: str, folder: Path) -> Path:
    """Write a recipe with stored inputs next to it."""
    model = mirrored(NETWORKS[network])
    chosen = samples(network, model.read_bytes())
    columns: dict[str, Any] = {n: np.stack([s[n] for s in chosen]) for n in chosen[0]}
    np.savez(folder / f"{network}.npz", **columns)
    recipe = {
        "model": str(model.resolve()),
        "run": {"inputs": f"{network}.npz", "samples": COUNT, "tolerance": {"absolute": 0}},
    }
    path = folder / f"{network}.yaml"
    path.write_text(yaml.safe_dump(recipe), "utf-8")
    return path


def row(network: str, run: dict[str, Any], platform: str) -> str:
    real = min(len(real_inputs(network)), COUNT)
    inputs = [f"{real} real"] * (real > 0) + [f"{COUNT - real} random"] * (real < COUNT)
    counted = run["instructions"]
    cells = [
        network,
        platform,
        ", ".join(inputs),
        f"{run['exact_samples']} of {run['samples']}",
        f"{run['differences']} of {run['values']}",
        "—" if counted is None else f"{counted:,}",
    ]
    return f"| {' | '.join(str(c) for c in cells)} |"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(HEADER)
    with tempfile.TemporaryDirectory() as name:
        for network in NETWORKS:
            recipe = write_recipe(network, Path(name))
            for stated in PLATFORMS:
                platform = Path(stated).stem
                outdir = Path(name) / "build" / network
                subprocess.run(
                    [sys.executable, "-m", "doit", "build", f"recipe={recipe}",
                     f"platform={stated}", f"outdir={outdir}"],
                    cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
                )  # fmt: skip
                run = json.loads((outdir / platform / "run" / "run.json").read_text("utf-8"))
                print(row(network, run, platform), flush=True)


if __name__ == "__main__":
    main()
