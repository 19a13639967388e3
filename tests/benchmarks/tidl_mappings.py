"""Table TI's chips: both target mixes, 8 and 16 bits, on the host and as Linux programs for Arm.

    FIRMWRIGHT_MIRROR=… python tests/benchmarks/tidl_mappings.py [--outdir DIR] [RECIPE …]

Each recipe is built with its `target` and its `compare` for every chip; both firmwares run on the
recipe's sample and are compared with the quantized network in ONNX Runtime. Crossings, bytes and
times are modelled. MobileNetV1 is also asked for batches. Rows that are the same on the host and as
a Linux program share a line.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
RECIPES = ("resnet8-j721s2", "mobilenet-am62a", "fastestdet-am62a")
BATCHES = {"mobilenet-am62a": (4, 16)}
CHIPS = ("j721e", "j721s2", "am62a")
MIXES = ("tidl, c", "tidl, c7x")
HEADER = (
    "| network | bits | batch wanted | fits | chip | target | values that differ "
    "| largest difference | regions on TIDL | MACs on TIDL, % | crossings | bytes across "
    "| modelled, us | built for |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)

Row = tuple[str | int, ...]


def with_bits(recipe: str, bits: int, folder: Path) -> Path:
    """Write the recipe with tensors and weights of so many bits, and its name without a chip's."""
    data = yaml.safe_load((ROOT / "recipes" / f"{recipe}.yaml").read_text("utf-8"))
    data["quantize"] |= {"activations": f"int{bits}", "weights": f"int{bits}"}
    if bits == 16 and "detection" not in data.get("postprocess", {}):
        # ONNX Runtime sums products of 31 bits in float32, which has 24: steps of 2^-15 differ.
        data["run"]["tolerance"] = {"absolute": 16}
    path = folder / f"{recipe.rpartition('-')[0]}-{bits}.yaml"
    path.write_text(yaml.safe_dump(data), "utf-8")
    return path


def rows(path: Path, bits: int, batch: int, chip: str, for_device: bool) -> Iterator[Row]:
    """Build and run both mixes, without artifacts and bundle, and yield a row of each."""
    outdir = path.with_suffix("")
    own, other = (mix.replace("tidl", f"tidl -tensor_bits={bits}") for mix in MIXES)
    platform = chip if for_device else f"{chip}-host"
    subprocess.run(
        [sys.executable, "-m", "doit", "run", f"mapping:{path.stem}-{platform}", f"recipe={path}",
         f"platform={chip}", f"compile_for_device={str(for_device).lower()}", f"target={own}",
         f"compare={other}", f"outdir={outdir}", *([f"batch={batch}"] if batch > 1 else [])],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    costs = read(outdir / platform / "mapping" / "mapping.json")["total"]
    for mix, side, folder in zip(MIXES, ("own", "other"), (".", "compared"), strict=True):
        results = outdir / folder / platform
        run = read(results / "run" / "run.json")
        regions = read(results / "partition" / "partition.json")["regions"]
        taken = [region for region in regions if region["device"] == "tidl"]
        cost = costs[side]
        yield (
            path.stem.rpartition("-")[0],
            bits,
            batch,
            run["batch"],
            chip,
            f"`{mix}`",
            f"{run['differences']} of {run['values']}",
            f"{run['max_difference']:g}",
            len(taken),
            f"{100 * sum(r['macs'] for r in taken) / sum(r['macs'] for r in regions):.1f}",
            cost["crossings"],
            f"{cost['bytes']:,}",
            f"{cost['work_us'] + cost['calls_us']:,.0f}",
        )


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", default=[*RECIPES])
    parser.add_argument("--outdir", type=Path, default=None)
    options = parser.parse_args()
    folder = options.outdir or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "recipes" / "coco-classes.txt", folder)
    found: dict[Row, list[str]] = {}
    for recipe, bits, chip, batch, for_device in builds(options.recipes):
        for row in rows(with_bits(recipe, bits, folder), bits, batch, chip, for_device):
            found.setdefault(row, []).append("aarch64" if for_device else "host")
            print(row, file=sys.stderr, flush=True)
    print(HEADER)
    for row, machines in found.items():
        print(f"| {' | '.join(map(str, row))} | {', '.join(machines)} |")


def builds(recipes: Iterable[str]) -> Iterator[tuple[str, int, str, int, bool]]:
    for recipe in recipes:
        for bits, chip, for_device in product((8, 16), CHIPS, (False, True)):
            yield recipe, bits, chip, 1, for_device
        for batch in BATCHES.get(recipe, ()):
            yield recipe, 8, "am62a", batch, True


if __name__ == "__main__":
    main()
