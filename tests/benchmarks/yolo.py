"""Count the instructions of a quantized detector with YOLOv8n's shapes on 32-bit RISC-V.

    python -m tests.benchmarks.yolo [--platform rv32-bare]

The network (tests/networks/yolo.py) has random weights, 393 million multiply-accumulates, and one
random picture. Its results are compared with ONNX Runtime's, which adds in float32. Some of more
than a million sums are near a tie, and the later layers enlarge a step that differs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime

from firmwright.emulator import run_firmware
from firmwright.emulator.execution import Execution
from firmwright.project.network import Network
from firmwright.toolchain import (
    Build,
    Platform,
    load_platform,
    load_toolchain,
)
from firmwright.verify.protocol import decode_outputs, encode_samples
from tests.networks.firmware import link_network, lowered
from tests.networks.yolo import make_yolo

RAM = 4 * 2**20
"""Bytes of memory, because the network needs more than the platform has."""


def load_large_platform(name: str) -> Platform:
    """Return a platform with enough memory for the network."""
    platform = load_platform(name)
    memories = {n: replace(m, size=max(m.size, RAM)) for n, m in platform.memories.items()}
    return replace(platform, memories=memories)


def name_functions(network: Network) -> dict[str, str]:
    """Return the regions in the order of their calls, each with the C function that it calls."""
    return network.plan.name_functions(network.kernels, "network")


def print_rows(network: Network, execution: Execution) -> None:
    """Print the cost of each kind of region with each form, the largest cost first."""
    rows: dict[tuple[str, str], Counter[str]] = {}
    regions = {region.name: region for region in network.partition.regions}
    counts = dict(zip(name_functions(network), execution.by_part, strict=True))
    for kernel in network.kernels.kernels:
        region, note = regions[kernel.region], kernel.note or ""
        form = note.split(":")[0].removeprefix("Form ") if note.startswith("Form ") else "loops"
        row = rows.setdefault((region.anchor, form), Counter())
        counted = counts[kernel.region]
        row.update({"regions": 1, "results": kernel.outputs[0].elements})
        row.update({"macs": region.macs, "all": counted})
    print("| kind | form | regions | results | instructions | share, % | each | a MAC |\n"
          "|---|---|---|---|---|---|---|---|")  # fmt: skip
    for (anchor, form), row in sorted(rows.items(), key=lambda item: -item[1]["all"]):
        each = f"{row['all'] / row['macs']:.2f}" if row["macs"] else ""
        share = 100 * row["all"] / sum(execution.by_part)
        print(f"| {anchor} | {form} | {row['regions']} | {row['results']:,} | {row['all']:,} "
              f"| {share:.1f} | {row['all'] / row['results']:.1f} | {each} |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", default="rv32-bare")
    parser.add_argument("--toolchain", default="zig")
    parser.add_argument("--outdir", type=Path, default=Path(tempfile.mkdtemp()))
    options = parser.parse_args()
    model, folder = make_yolo(), options.outdir.resolve()
    network = lowered(model, "onnx", platform=options.platform)
    platform = load_large_platform(options.platform)
    elf = link_network(
        network, Build(load_toolchain(options.toolchain), platform), folder, folder / "cache"
    )
    (port,) = network.interface.inputs
    sample = {port.name: np.random.default_rng(0).integers(-128, 128, port.shape, "int8")}
    ran = run_firmware(
        elf, platform, platform.emulators[0], encode_samples([port], [sample]), "network_run",
        10**11, tuple(name_functions(network).values()),
    )  # fmt: skip
    (found,) = decode_outputs(ran.console, network.interface.outputs, 1, ran.exit_code)
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(model, settings).run(None, sample)
    steps = [np.abs(x.astype(int) - y) for x, y in zip(found, expected, strict=True)]
    macs = sum(region.macs for region in network.partition.regions)
    total = ran.instructions or 0
    print(
        f"{total:,} instructions, {macs:,} multiply-accumulates, {total / macs:.3f} each; "
        f"arena {network.plan.arena_bytes:,} bytes; "
        f"{sum(np.count_nonzero(x) for x in steps):,} of {sum(x.size for x in steps):,} results "
        f"differ from ONNX Runtime's, by {max(int(x.max()) for x in steps)} at most.\n"
    )
    print_rows(network, ran)


if __name__ == "__main__":
    main()
