"""Build MLPerf Tiny's networks for DIANA; tabulate devices, and tiles of firmwright and DORY.

    FIRMWRIGHT_MIRROR=… python -m tests.benchmarks.diana_tiling [--outdir DIR]

The published cost model computes the cycles of both tilings. A tile of DORY's that does not fit
when channels are in blocks of 16, which DORY's constraints do not check, is also in the table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Any

import tvm

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.cost import Accelerator, estimate_cycles
from firmwright.devices.soma_dory.matching import read_layer
from firmwright.devices.soma_dory.tiles import Tile, footprint
from firmwright.devices.soma_dory.tiling import Tiling, find_best_tiling
from firmwright.ir.layer import LayerKind
from firmwright.ir.records import read_record
from firmwright.ir.regions import TRANSFORM, Partition
from firmwright.toolchain import load_platform
from tests.benchmarks.dory_tiles import dory_tile
from tests.devices.soma_dory.layers import add, conv2d, dense, depthwise

ROOT = Path(__file__).parents[2]
NETWORKS = ("resnet8", "kws", "vww", "ad")
PEAK = 256
"""Multiply-accumulates per cycle."""

LARGE = {
    "conv2d 3x3, 64x64x64 to 64": conv2d((64, 64, 64), 64),
    "conv2d 3x3 / 2, 3x224x224 to 16": conv2d((3, 224, 224), 16, stride=2, padding=(1, 1, 1, 1)),
    "conv2d 7x7, 16x96x96 to 16": conv2d((16, 96, 96), 16, (7, 7), padding=(3, 3, 3, 3)),
    "conv2d 1x1, 8x112x112 to 48": conv2d((8, 112, 112), 48, (1, 1), padding=(0, 0, 0, 0)),
    "conv2d 1x1, 128x28x28 to 256": conv2d((128, 28, 28), 256, (1, 1), padding=(0, 0, 0, 0)),
    "conv2d 3x3, 64x7x7 to 512": conv2d((64, 7, 7), 512),
    "depthwise 3x3, 64x64x64": depthwise((64, 64, 64)),
    "depthwise 5x5 / 2, 48x56x56": depthwise((48, 56, 56), kernel=(5, 5), stride=2,
                                             padding=(2, 2, 2, 2)),
    "dense, 1024 to 256": dense(1024, 256),
    "add, 64x40x48": add((64, 40, 48)),
}  # fmt: skip
"""Layers that need several tiles, in addition to the networks' layers."""


@dataclass(frozen=True)
class Compared:
    """One layer with the tiles of firmwright and of DORY."""

    name: str
    layer: AcceleratorLayer
    ours: Tiling
    theirs: Tile
    their_cycles: int

    @property
    def ratio(self) -> float:
        return self.their_cycles / self.ours.cycles.total

    def row(self, accelerator: Accelerator) -> str:
        needed = footprint(self.layer, self.theirs)
        fits = needed.l1 <= accelerator.l1 and needed.weights <= accelerator.weights
        cells = [self.name, shown(self.layer, self.ours.tile), f"{self.ours.cycles.total:,}",
                 shown(self.layer, self.theirs) + ("" if fits else " (does not fit)"),
                 f"{self.their_cycles:,}", f"{self.ratio:.3f}"]  # fmt: skip
        return f"| {' | '.join(cells)} |"


def compared(name: str, layer: AcceleratorLayer, accelerator: Accelerator) -> Compared:
    ours, theirs = find_best_tiling(layer, accelerator), dory_tile(layer, accelerator)
    assert theirs is not None, f"{name}: DORY has no tile"
    result = Compared(name, layer, ours, theirs, estimate_cycles(layer, theirs, accelerator).total)
    assert result.ratio >= 1, f"{name}: DORY's tile {theirs} is faster than ours, {ours.tile}"
    return result


def shown(layer: AcceleratorLayer, tile: Tile) -> str:
    if layer.kind is LayerKind.ADD and tile.channels == 1:
        return f"{tile.columns:,} bytes"
    return f"{tile.channels} x {tile.rows} x {tile.columns}"


def geometric_mean(layers: list[Compared]) -> float:
    return exp(sum(log(c.ratio) for c in layers) / len(layers))


def build(network: str, outdir: Path) -> Path:
    """Build a network for the accelerator; return the platform's folder."""
    subprocess.run(
        [sys.executable, "-m", "doit", "build", f"recipe=recipes/{network}-diana.yaml",
         "platform=diana", "target=soma_dory, c", "samples=2", f"outdir={outdir}"],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return outdir / "diana"


def network_layers(folder: Path, accelerator: Accelerator) -> list[Compared]:
    """Tile every layer that the partition assigned to the accelerator."""
    partition = read_record(folder / "partition" / "partition.json", Partition)
    module = tvm.ir.load_json((folder / "partition" / "module.json").read_text("utf-8"))
    return [
        compared(region.name, read_layer(module[region.name]), accelerator)
        for region in partition.regions
        if region.device == "soma_dory"
    ]


def network_row(network: str, folder: Path, layers: list[Compared]) -> str:
    partition = read_record(folder / "partition" / "partition.json", Partition)
    manifest: dict[str, Any] = json.loads((folder / "bundle" / "manifest.json").read_text("utf-8"))
    offloaded = sum(r.macs for r in partition.regions if r.device == "soma_dory")
    compute = sum(c.ours.cycles.compute for c in layers)
    transfer = sum(c.ours.cycles.transfer for c in layers)
    assert compute + transfer == manifest["timeline"]["modelled"]
    cells = [
        network,
        f"{100 * offloaded / partition.macs:.2f}",
        len(layers),
        f"{compute:,}",
        f"{transfer:,}",
        f"{offloaded / (compute + transfer):.1f}",
        f"{100 * offloaded / (compute + transfer) / PEAK:.1f}",
        sum(r.anchor == TRANSFORM for r in partition.regions),
        f"{manifest['memory']['ram_bytes']:,}",
        f"{manifest['run']['differences']} of {manifest['run']['values']}",
        sum(c.ratio > 1 for c in layers),
        f"{geometric_mean(layers):.3f}",
    ]
    return f"| {' | '.join(str(c) for c in cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outdir", default=tempfile.mkdtemp())
    options = parser.parse_args()
    accelerator = Accelerator.from_numbers(load_platform("diana").accelerators["soma_dory"])
    print("| network | MACs offloaded, % | layers | computing, cycles | moving data, cycles "
          "| MAC a cycle | of 256, % | layout transforms | L2, B | values that differ "
          "| layers faster than with DORY's tiles | geometric mean |")  # fmt: skip
    print("|---" * 12 + "|")
    networks: list[Compared] = []
    for network in NETWORKS:
        folder = build(network, Path(options.outdir) / network)
        layers = network_layers(folder, accelerator)
        print(network_row(network, folder, layers), flush=True)
        networks += layers
    large = [compared(name, layer, accelerator) for name, layer in LARGE.items()]
    print("\n| layer | our tile | cycles | DORY's tile | cycles | DORY's / ours |")
    print("|---" * 6 + "|")
    for layer in (*(c for c in networks if c.ratio > 1), *large):
        print(layer.row(accelerator))
    multiplying = [c for c in large if c.layer.kind is not LayerKind.ADD]
    groups = {"networks": networks, "large layers": large, "without the addition": multiplying}
    for name, group in groups.items():
        print(f"\n{name}: {len(group)} layers, geometric mean {geometric_mean(group):.3f}")


if __name__ == "__main__":
    main()
