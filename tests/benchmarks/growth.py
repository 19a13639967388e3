"""Measure how the time and the memory of each stage grow with the layers of a network.

python -m tests.benchmarks.growth [--layers 50 200 800 2000] [--rounds 3]

Chains of different quantized 1x1 convolutions are built for rv32-bare, in turn; the results are the
medians of all rounds. The exponents are powers of the number of layers. One is the least-squares
line of the logarithms through all chains, the other the line through the last two.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from tests.networks.qdq_graphs import Graph
from tests.networks.qdq_reference import F32, Grid

ROOT = Path(__file__).parents[2]
RECIPE = "model: chain.onnx\nplatform: rv32-bare\ntarget: c\nrun: {samples: 1}\n"
CHANNELS, SIDE = 8, 4
GRID = Grid("int8", F32(2**-5), 3)
"""With scales that are powers of two, the reference is exact."""

SHORTEST = 0.001
"""Resolution of a profile in seconds; a shorter stage counts as this time."""


def write_chain(layers: int) -> bytes:
    """Return an ONNX model of this number of convolutions with different weights."""
    random, graph = np.random.default_rng(0), Graph()
    _, value = graph.input((1, CHANNELS, SIDE, SIDE), GRID)
    for layer in range(layers):
        weights = random.integers(-127, 128, (CHANNELS, CHANNELS, 1, 1), "int8")
        real = graph.weights(weights, np.full(CHANNELS, 2**-9, "float32"), 0, 0)
        value = graph.node("Conv", [value, real])
        if layer + 1 < layers:
            stored = graph.node("QuantizeLinear", [value, *graph.grid(GRID)])
            value = graph.node("DequantizeLinear", [stored, *graph.grid(GRID)])
    graph.output(value, GRID, lambda _arithmetic, _sample: np.zeros(0))
    return graph.build()


def build(layers: int) -> dict[str, float]:
    """Return the processor seconds of each stage, and the largest memory of a process, MiB."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "dodo.py").write_text("from firmwright.tasks.dodo import *\n")
        (folder / "chain.yaml").write_text(RECIPE)
        (folder / "chain.onnx").write_bytes(write_chain(layers))
        command = [sys.executable, "-m", "doit", "build", "recipe=chain.yaml", "profile=1"]
        more = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        with subprocess.Popen(
            command, cwd=folder, env={**os.environ, **more}, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            lines = process.stdout.read().splitlines()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError("\n".join(lines))
    start = next(i for i, line in enumerate(lines) if line.split()[:1] == ["seconds"])
    rows = [line.split() for line in lines[start + 1 :]]
    # Without the imports, which do not grow.
    found = {label: float(work) + float(programs) for label, _, _, _, work, programs in rows}
    return found | {"memory, MiB": used.ru_maxrss / 1024}


def take_medians(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {label: median(run[label] for run in runs) for label in runs[0]}


def find_exponent(counts: Sequence[int], values: Sequence[float]) -> float:
    """Return the power of ``counts`` that is nearest to ``values``, by their logarithms."""
    slope, _ = np.polyfit(np.log(counts), np.log(np.maximum(values, SHORTEST)), 1)
    return float(slope)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, nargs="+", default=[50, 200, 800, 2000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    counts: list[int] = options.layers
    rounds = [[build(count) for count in counts] for _ in range(options.rounds)]
    found = [take_medians(runs) for runs in zip(*rounds, strict=True)]
    heads = "".join(f" {count:,} |" for count in counts)
    print(f"| seconds of the processor |{heads} exponent | of the last two |")
    print("|---|" + "---|" * (len(counts) + 2))
    for label in found[0]:
        values = [each[label] for each in found]
        cells = "".join(f" {value:,.3f} |" for value in values)
        whole, last = (find_exponent(counts[-n:], values[-n:]) for n in (len(counts), 2))
        print(f"| {label} |{cells} {whole:.2f} | {last:.2f} |")


if __name__ == "__main__":
    main()
