"""Table TI's chips: both target mixes, 8 and 16 bits, on the host and as Linux programs for Arm.

    FIRMWRIGHT_MIRROR=… python tests/benchmarks/tidl_mappings.py [--outdir DIR] [RECIPE …]

Each recipe is built with its `target` and its `compare` for every chip; both firmwares run on the
recipe's sample and are compared with the quantised network in ONNX Runtime. Crossings, bytes and
times are modelled.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
RECIPES = ("resnet8-j721s2", "mobilenet-am62a", "fastestdet-am62a")
CHIPS = ("j721e", "j721s2", "am62a")
MIXES = ("tidl, c", "tidl, c7x")
HEADER = (
    "| network | bits | chip | built for | target | values that differ | largest difference "
    "| regions on TIDL | MACs on TIDL, % | crossings | bytes across | modelled, us |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def with_bits(recipe: str, bits: int, folder: Path) -> Path:
    """Write the recipe with tensors and weights of so many bits, and its name without a chip's."""
    data = yaml.safe_load((ROOT / "recipes" / f"{recipe}.yaml").read_text("utf-8"))
    data["quantize"] |= {"activations": f"int{bits}", "weights": f"int{bits}"}
    path = folder / f"{recipe.rpartition('-')[0]}-{bits}.yaml"
    path.write_text(yaml.safe_dump(data), "utf-8")
    return path


def rows(path: Path, bits: int, chip: str, for_device: bool, outdir: Path) -> Iterator[str]:
    """Build both mixes and yield a row of each."""
    own, other = (mix.replace("tidl", f"tidl -tensor_bits={bits}") for mix in MIXES)
    subprocess.run(
        [sys.executable, "-m", "doit", "build", f"recipe={path}", f"platform={chip}",
         f"compile_for_device={str(for_device).lower()}", f"target={own}", f"compare={other}",
         f"outdir={outdir}"],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    platform = chip if for_device else f"{chip}-host"
    costs = read(outdir / platform / "mapping" / "mapping.json")["total"]
    for mix, side, folder in zip(MIXES, ("own", "other"), (".", "compared"), strict=True):
        results = outdir / folder / platform
        agreement = read(results / "run" / "run.json")["agreement"]
        regions = read(results / "partition" / "partition.json")["regions"]
        taken = [region for region in regions if region["device"] == "tidl"]
        cost = costs[side]
        cells = [
            path.stem.rpartition("-")[0],
            bits,
            chip,
            "aarch64" if for_device else "host",
            f"`{mix}`",
            f"{agreement['differences']} of {agreement['elements']}",
            f"{agreement['max_difference']:g}",
            len(taken),
            f"{100 * sum(r['macs'] for r in taken) / sum(r['macs'] for r in regions):.1f}",
            cost["crossings"],
            f"{cost['bytes']:,}",
            f"{cost['work_us'] + cost['calls_us']:,.0f}",
        ]
        yield f"| {' | '.join(str(c) for c in cells)} |"


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", default=[*RECIPES])
    parser.add_argument("--outdir", type=Path, default=None)
    options = parser.parse_args()
    folder = options.outdir or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    print(HEADER)
    for recipe in options.recipes:
        for bits in (8, 16):
            path = with_bits(recipe, bits, folder)
            for chip in CHIPS:
                for for_device in (False, True):
                    for row in rows(path, bits, chip, for_device, folder / path.stem):
                        print(row, flush=True)


if __name__ == "__main__":
    main()
