"""Build networks of well-known kinds, from ONNX and .pt2, float and quantized, and tabulate them.

    python -m tests.benchmarks.architectures [--size full] [--only lstm,gru]
        [--formats onnx,pt2] [--numbers float32,int8] [--samples 2] [--platform rv32-bare]
        [--outdir FOLDER]

The weights are random (`tests/networks/architectures.py`). Each network is exported, quantized by
`quantize:`, built for two cores and run in their emulator. Small networks are for rv32imc and
Cortex-M4, full-size networks for the same cores with more memory. If firmware and ONNX Runtime
differ, ONNX's evaluator computes the quantized graph in float64. The last columns are the processor
seconds of a clean build (for the second core without the shared stages), and the memory of the
largest process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml

from tests.benchmarks.sixteen_bits import evaluate_sample
from tests.networks.architectures import SIZES, make_architecture

ROOT = Path(__file__).parents[2]
LARGE = {
    "cortex-m4": ("[armv7e-m-dsp]", "cortex-m4f", "mps2-an386", 0x00000000, 0x20000000),
    "rv32": ("[rv32m]", "rv32imc", "qemu-virt-rv32", 0x80000000, 0x88000000),
}
"""Features, architecture, board, origin of flash and RAM of cores that get more memory."""
LARGE_FILE = """\
name: {name}-large
description: {architecture} with memory for full-size networks.
architecture: {architecture}
features: {features}
board: {board}
memories:
  flash: {{origin: {flash:#x}, size: 128 MiB}}
  ram: {{origin: {ram:#x}, size: 64 MiB}}
stack: 16 KiB
toolchains: [zig]
emulators: [unicorn]
"""
PLATFORMS = {"small": "rv32-bare,cortex-m4-bare", "full": "rv32-large,cortex-m4-large"}
COLUMNS = (
    "network", "from", "numbers", "values that differ", "largest difference",
    "from float64: firmware, ONNX Runtime", "instructions", "a MAC", "arena, B", "flash, B",
    "build, s", "memory, MiB",
)  # fmt: skip


def write_large_platforms(folder: Path) -> None:
    for name, (features, architecture, board, flash, ram) in LARGE.items():
        text = LARGE_FILE.format(
            name=name, features=features, architecture=architecture, board=board, flash=flash,
            ram=ram,
        )  # fmt: skip
        (folder / f"{name}-large.yaml").write_text(text, "utf-8")


def export(name: str, size: str, folder: Path) -> None:
    """Write the network in both formats, its calibration data, and its platforms."""
    network, data = make_architecture(name, size)
    first = data[:1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network, (first,), folder / f"{name}.onnx", dynamo=False, input_names=["x"]
        )
    torch.export.save(torch.export.export(network, (first,)), folder / f"{name}.pt2")
    np.save(folder / f"{name}.npy", data.numpy()[:, None])


def write_recipe(folder: Path, name: str, suffix: str, numbers: str, samples: int) -> Path:
    recipe: dict[str, Any] = {
        "model": f"{name}.{suffix}",
        "run": {"inputs": f"{name}.npy", "samples": samples},
    }
    if numbers == "int8":
        recipe["quantize"] = {"calibration": {"inputs": f"{name}.npy"}}
        recipe["run"]["tolerance"] = {"steps": 256}  # differences are reported and do not fail
    path = folder / f"{name}-{suffix}-{numbers}.yaml"
    path.write_text(yaml.safe_dump(recipe), "utf-8")
    return path


def compare_with_float64(folder: Path) -> str:
    """Print how many values of the first sample differ from the graph in float64, on each side."""
    exact, outputs = evaluate_sample(folder)
    return ", ".join(
        str(np.count_nonzero(outputs[f"{side}_0"][0] != exact[0]))
        for side in ("firmware", "reference")
    )


def row(cells: list[str], builds: list[Built]) -> str:
    """Return a row of the table; values that differ by platform are in one cell."""
    manifests = [
        json.loads((built.folder / "bundle" / "manifest.json").read_text("utf-8"))
        for built in builds
    ]
    runs, memories = ([m[part] for m in manifests] for part in ("run", "memory"))
    first = builds[0].folder
    judged = runs[0]["differences"] and (first.parent / "quantized").exists()
    cells += [
        f"{runs[0]['differences']} of {runs[0]['values']}",
        f"{runs[0]['max_difference']:.2g}",
        compare_with_float64(first) if judged else "",
        " / ".join(f"{run['instructions']:,}" for run in runs),
        " / ".join(f"{run['instructions'] / run['macs']:.2f}" for run in runs),
        " / ".join(f"{memory['arena_bytes']:,}" for memory in memories),
        " / ".join(f"{memory['flash_bytes']:,}" for memory in memories),
        " / ".join(f"{built.seconds:.0f}" for built in builds),
        " / ".join(f"{built.memory:.0f}" for built in builds),
    ]
    return f"| {' | '.join(cells)} |"


class Built(NamedTuple):
    """A build's folder, its processor seconds, and the memory of its largest process, MiB."""

    folder: Path
    seconds: float
    memory: float


def build(recipe: Path, platform: str) -> Built:
    """Build a recipe and store the output as a log; if the build fails, print it and exit."""
    outdir = recipe.with_suffix("")
    own = recipe.parent / f"{platform}.yaml"
    log = outdir.with_name(f"{outdir.name}-{platform}.log")
    with log.open("w", encoding="utf-8") as printed, subprocess.Popen(
        [sys.executable, "-m", "doit", "build", f"recipe={recipe}", f"outdir={outdir}",
         f"platform={own if own.exists() else platform}", "profile=1"],
        cwd=ROOT, stdout=printed, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{recipe.stem} {platform}\n{log.read_text('utf-8')}")
    return Built(outdir / platform, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--only")
    parser.add_argument("--platform")
    parser.add_argument("--formats", default="onnx,pt2")
    parser.add_argument("--numbers", default="float32,int8")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--outdir", default=tempfile.mkdtemp())
    options = parser.parse_args()
    folder = Path(options.outdir).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    write_large_platforms(folder)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for name in (options.only or ",".join(SIZES[options.size])).split(","):
        export(name, options.size, folder)
        for suffix in options.formats.split(","):
            for numbers in options.numbers.split(","):
                recipe = write_recipe(folder, name, suffix, numbers, options.samples)
                platforms = (options.platform or PLATFORMS[options.size]).split(",")
                builds = [build(recipe, platform) for platform in platforms]
                print(row([name, f".{suffix}", numbers], builds), flush=True)


if __name__ == "__main__":
    main()
