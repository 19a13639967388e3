"""Build networks of well-known kinds, by ONNX and .pt2, float and quantized, and table them.

    python -m tests.benchmarks.architectures [--only lstm,gru] [--platform rv32-bare]

The networks are small and their weights random (`tests/networks/architectures.py`). Each is
exported, quantized by `quantize:`, built for two cores and run in their emulator. Where firmware
and ONNX Runtime differ, ONNX's own evaluator computes the quantized graph in float64.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from onnx.reference import ReferenceEvaluator

from tests.benchmarks.sixteen_bits import in_float64
from tests.networks.architectures import ARCHITECTURES, make_architecture

ROOT = Path(__file__).parents[2]
DEQUANTIZE_OPSET = 21
"""ONNX's evaluator has a DequantizeLinear for each axis since then."""
PLATFORMS = ("rv32-bare", "cortex-m4-bare")
COLUMNS = (
    "network", "from", "numbers", "values that differ", "largest difference",
    "from float64: firmware, ONNX Runtime", "instructions", "a MAC", "arena, B", "flash, B",
)  # fmt: skip


def export(name: str, folder: Path) -> None:
    """Write the network in both formats, what calibrates it, and what it runs on."""
    network, data = make_architecture(name)
    first = data[:1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network, (first,), folder / f"{name}.onnx", dynamo=False, input_names=["x"]
        )
    torch.export.save(torch.export.export(network, (first,)), folder / f"{name}.pt2")
    np.save(folder / f"{name}.npy", data.numpy()[:, None])


def write_recipe(folder: Path, name: str, suffix: str, quantized: bool) -> Path:
    recipe: dict[str, Any] = {
        "model": f"{name}.{suffix}",
        "run": {"inputs": f"{name}.npy", "samples": 2},
    }
    if quantized:
        recipe["quantize"] = {"calibration": {"inputs": f"{name}.npy"}}
        recipe["run"]["tolerance"] = {"steps": 8}
    path = folder / f"{name}-{suffix}-{'int8' if quantized else 'float'}.yaml"
    path.write_text(yaml.safe_dump(recipe), "utf-8")
    return path


def compare_with_float64(folder: Path) -> str:
    """Tell how many values of the first sample differ from the graph in float64, on each side."""
    model = in_float64(folder.parent / "quantized" / "model.onnx", DEQUANTIZE_OPSET)
    sample, outputs = (
        np.load(folder / "run" / "sample.npz"),
        np.load(folder / "run" / "outputs.npz"),
    )
    inputs = {port.name: sample[f"input_{i}"] for i, port in enumerate(model.graph.input)}
    (exact,) = ReferenceEvaluator(model).run(None, inputs)
    return ", ".join(
        str(np.count_nonzero(outputs[f"{side}_0"][0] != np.asarray(exact)))
        for side in ("firmware", "reference")
    )


def row(cells: list[str], folders: list[Path]) -> str:
    """Return a line of the table; what the platforms do not share stands side by side."""
    manifests = [
        json.loads((folder / "bundle" / "manifest.json").read_text("utf-8")) for folder in folders
    ]
    runs, memories = ([m[part] for m in manifests] for part in ("run", "memory"))
    judged = runs[0]["differences"] and (folders[0].parent / "quantized").exists()
    cells += [
        f"{runs[0]['differences']} of {runs[0]['values']}",
        f"{runs[0]['max_difference']:.2g}",
        compare_with_float64(folders[0]) if judged else "",
        " / ".join(f"{run['instructions']:,}" for run in runs),
        " / ".join(f"{run['instructions'] / run['macs']:.2f}" for run in runs),
        " / ".join(f"{memory['arena_bytes']:,}" for memory in memories),
        " / ".join(f"{memory['flash_bytes']:,}" for memory in memories),
    ]
    return f"| {' | '.join(cells)} |"


def build(recipe: Path, platform: str) -> Path:
    """Return the folder of a build; what it printed ends the program where it failed."""
    outdir = recipe.with_suffix("")
    done = subprocess.run(
        [sys.executable, "-m", "doit", "build", f"recipe={recipe}", f"platform={platform}",
         f"outdir={outdir}"],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{recipe.stem} {platform}\n{done.stdout}{done.stderr}")
    return outdir / platform


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(ARCHITECTURES))
    parser.add_argument("--platform", default=",".join(PLATFORMS))
    parser.add_argument("--outdir", default=tempfile.mkdtemp())
    options = parser.parse_args()
    folder = Path(options.outdir)
    folder.mkdir(parents=True, exist_ok=True)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for name in options.only.split(","):
        export(name, folder)
        for suffix in ("onnx", "pt2"):
            for quantized in (False, True):
                recipe = write_recipe(folder, name, suffix, quantized)
                folders = [build(recipe, platform) for platform in options.platform.split(",")]
                cells = [name, f".{suffix}", "int8" if quantized else "float32"]
                print(row(cells, folders), flush=True)


if __name__ == "__main__":
    main()
