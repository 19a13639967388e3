"""Try the packages of two networks with each build system, and print which outputs are right.

    FIRMWRIGHT_MIRROR=… python -m tests.benchmarks.exports

The networks are MLPerf Tiny's keyword spotting and FastestDet, quantized to int8 with one picture.
The C is for any processor, so that the same files run on the host and in QEMU.
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import Any

import yaml

import firmwright
from tests.project.packages import TRIED
from tests.ready_recipes import read_ready

ROOT = Path(__file__).parents[2]
NETWORKS = ("kws", "fastestdet")


def write_recipe(name: str, folder: Path) -> Path:
    """Write the network's recipe with all packages, for a platform without properties."""
    platform = yaml.safe_load((ROOT / "toolchains/platforms/host.yaml").read_text())
    del platform["features"]
    (folder / "plain.yaml").write_text(yaml.safe_dump({**platform, "name": "plain"}))
    recipe: dict[str, Any] = read_ready(name)
    recipe |= {"platform": "plain.yaml", "toolchain": "gcc", "c_prefix": name}
    recipe["export"] = list(TRIED)
    if name == "fastestdet":
        del recipe["postprocess"]  # one picture is enough to compare numbers, not for boxes
        recipe["quantize"] = {"calibration": {"inputs": recipe["run"]["inputs"]}}
        recipe["run"]["tolerance"] = {"absolute": 32}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


def try_packages(name: str, folder: Path) -> dict[str, str]:
    """Return the test of each package; AssertionError if an output is wrong."""
    folder.mkdir()
    bundle = firmwright.build(write_recipe(name, folder), outdir=folder / "build")
    with tarfile.open(bundle.path) as archive:
        archive.extractall(folder / "bundle", filter="data")
    (packages,) = folder.glob("bundle/*/exports")
    tried = {}
    for kind, try_package in TRIED.items():
        scratch = folder / kind
        scratch.mkdir()
        tried[kind] = try_package(packages / kind, name, scratch)
    return tried


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = {name: try_packages(name, Path(folder, name)) for name in NETWORKS}
    print("| `export` |", " | ".join(NETWORKS), "|")
    for kind in TRIED:
        print(f"| `{kind}` |", " | ".join(found[name][kind] for name in NETWORKS), "|")


if __name__ == "__main__":
    main()
