"""Tabulate TI's chips: both target mixes, quantized and float networks, as Arm Linux programs.

    FIRMWRIGHT_MIRROR=… python tests/benchmarks/tidl_mappings.py [--outdir DIR] [RECIPE …]

Each recipe is built with its `target` and its `compare` for every chip. The Arm cores and the C7x
are two processes. Both firmwares run on the recipe's sample. A quantized network is compared with
itself in ONNX Runtime, a float network with the quantized regions that stand in for TIDL. The boxes
of a detector must be equal; if firmwright quantized it, they must equal the float network's. Calls
and bytes are counted, times are modelled. MobileNetV1 is also built with batches. The mirror must
contain the photographs of scikit-learn, which the recipes name by address.
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

from tests.ready_recipes import read_ready

ROOT = Path(__file__).parents[2]
RECIPES = ("resnet8-j721s2", "mobilenet-am62a", "fastestdet-am62a")
KINDS = ("quantized", "float, 8 bits", "float, 16 bits")
BATCHES = {"mobilenet-am62a": (4, 16)}
CHIPS = ("j721e", "j721s2", "am62a")
MIXES = ("tidl, c", "tidl, c7x")
HEADER = (
    "| network | kind | batch | chip | target | values that differ | largest difference | allowed "
    "| regions on TIDL | MACs on TIDL, % | calls | bytes across | modelled, us |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", default=[*RECIPES])
    parser.add_argument("--outdir", type=Path, default=None)
    parser.add_argument("--kind", choices=KINDS, action="append", help="of all kinds without it")
    options = parser.parse_args()
    folder = options.outdir or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "recipes" / "coco-classes.txt", folder)
    print(HEADER)
    failed = []
    for recipe, kind, chip, batch in builds(options.recipes, options.kind or KINDS):
        path = write_recipe(recipe, kind, chip, folder)
        try:
            for row in rows(path, kind, batch, chip):
                print(f"| {recipe.rpartition('-')[0]} | {' | '.join(row)} |", flush=True)
        except subprocess.CalledProcessError:  # its message is on the terminal
            failed.append(f"{path.stem}, batch {batch}")
    sys.exit(f"failed: {'; '.join(failed)}" if failed else 0)


def builds(recipes: Iterable[str], kinds: Iterable[str]) -> Iterator[tuple[str, str, str, int]]:
    for recipe, kind, chip in product(recipes, kinds, CHIPS):
        yield recipe, kind, chip, 1
        if (kind, chip) == ("quantized", "am62a"):
            yield from ((recipe, kind, chip, batch) for batch in BATCHES.get(recipe, ()))


def write_recipe(recipe: str, kind: str, chip: str, folder: Path) -> Path:
    """Write the recipe for a kind of network on a chip, under a name without the recipe's chip."""
    data = read_ready(recipe)
    if kind != "quantized":
        data["calibration"] = data.pop("quantize")["calibration"]
        data.pop("evaluate", None)  # its floor is for firmwright's quantization
        if "postprocess" not in data:  # boxes of a detector count, as in its recipe
            # The reference sums products of 16 bits, 31 in total, in float32.
            data["run"] |= {"tolerance": {"steps": 16 if "16" in kind else 1}}
    elif chip == "j721e":  # it has no zero points and no scales by channel
        data["quantize"] |= {"scheme": "pow2", "per_channel": False}
        for wanting_more in ("evaluate", "postprocess"):  # boxes move with scales this large
            data.pop(wanting_more, None)
    name = f"{recipe.rpartition('-')[0]}-{kind.replace(', ', '-').replace(' ', '-')}-{chip}"
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(data), "utf-8")
    return path


def rows(path: Path, kind: str, batch: int, chip: str) -> Iterator[tuple[str, ...]]:
    """Build and run both mixes, without artifacts and bundle, and yield a row of each."""
    outdir = path.with_suffix("")
    bits = 16 if "16" in kind else 8
    own, other = (mix.replace("tidl", f"tidl -tensor_bits={bits}") for mix in MIXES)
    subprocess.run(
        [sys.executable, "-m", "doit", "run", f"mapping:{path.stem}-{chip}", f"recipe={path}",
         f"platform={chip}", f"target={own}", f"compare={other}", f"outdir={outdir}",
         *([f"batch={batch}"] if batch > 1 else [])],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    costs = read(outdir / chip / "mapping" / "mapping.json")["total"]
    for mix, side, folder in zip(MIXES, ("own", "other"), (".", "compared"), strict=True):
        results = outdir / folder / chip
        run = read(results / "run" / "run.json")
        regions = read(results / "partition" / "partition.json")["regions"]
        taken = [region for region in regions if region["device"] == "tidl"]
        cost = costs[side]
        assert not run["mismatches"]
        yield (
            kind,
            str(run["batch"]),
            chip,
            f"`{mix}`",
            f"{run['differences']} of {run['values']}",
            f"{run['max_difference']:g}",
            tolerance(run["tolerance"]),
            str(len(taken)),
            f"{100 * sum(r['macs'] for r in taken) / sum(r['macs'] for r in regions):.1f}",
            str(run["counts"]["c7x_calls"]),
            f"{cost['bytes']:,}",
            f"{cost['work_us'] + cost['calls_us']:,.0f}",
        )


def tolerance(stated: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in stated.items() if value) or "0"


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


if __name__ == "__main__":
    main()
