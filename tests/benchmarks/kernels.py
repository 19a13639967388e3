"""Time MLPerf Tiny's int8 networks on this machine next to LiteRT; tabulate counts of small cores.

    FIRMWRIGHT_MIRROR=… python tests/benchmarks/kernels.py [--rounds 201] [--toolchain gcc]

It runs on Linux in one thread on one pinned core. Python calls both engines in turn, in a random
order. A ratio is of two neighbors in time, so the machine's load has little effect. Before that,
both engines must produce equal results on 20 random inputs. Instructions, flash and arena are those
of the bare-metal builds. The columns of TFLM with CMSIS-NN are quoted: gcc 12.2, counted in the
same emulator before this project began. 64-bit Arm needs QEMU, and gcc in the folder
ARM64_GCC_PATH.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from firmwright.toolchain import (
    Build,
    compile_object,
    find_compiler,
    link_firmware,
    load_platform,
    load_toolchain,
)
from firmwright.toolchain.build import object_path
from firmwright.toolchain.project_folders import NETWORK, list_sources

ROOT = Path(__file__).parents[2]
RECIPES = {"ResNet8": "resnet8", "DS-CNN": "kws", "MobileNetV1": "vww", "autoencoder": "ad"}
INPUTS = 20
SLICE = 0.001
"""Minimum seconds of one measurement."""


@dataclass(frozen=True)
class Quoted:
    """Requirements of other tools, by network: million instructions, bytes of flash and arena."""

    instructions: tuple[float, ...] = ()
    flash: tuple[int, ...] = ()
    arena: tuple[int, ...] = ()


QUOTED = {
    "rv32-bare": Quoted((65.4, 16.3, 48.7, 1.478)),
    "cortex-m4-bare": Quoted(
        (29.86, 7.70, 24.10, 0.583),
        (177_364, 137_784, 417_136, 308_352),
        (54_996, 22_820, 100_708, 2_580),
    ),
    "cortex-m55-bare": Quoted(),
}
"""TFLM with CMSIS-NN: as plain C on rv32imc, with DSP instructions on Cortex-M4."""

COUNTED = {
    "rv32-bare": "zig",
    "cortex-m4-bare": "zig",
    "aarch64-linux": "arm64-gcc",
    "aarch64-dotprod-linux": "arm64-gcc",
    "aarch64-i8mm-linux": "arm64-gcc",
}
"""Platforms whose instructions are counted, by compiler; zig's Linux programs have no symbols."""


def build(recipe: str, target: str, toolchain: str, outdir: Path) -> dict[str, Any]:
    """Build a recipe for a platform; return the bundle's manifest."""
    subprocess.run(
        [sys.executable, "-m", "doit", "build", f"recipe=recipes/{recipe}.yaml",
         f"platform={target}", f"toolchain={toolchain}", f"outdir={outdir}"],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    path = outdir / target / "bundle" / "manifest.json"
    manifest: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return manifest


def make_library(outdir: Path, toolchain: str) -> Path:
    """Compile a built project with its flags to a shared library."""
    host = load_platform("host")
    build = Build(load_toolchain(toolchain), host, ("-fPIC",))
    compiler = find_compiler(build.toolchain, host.architecture)
    sources, folder = outdir / "host" / "sources", outdir / "shared"
    objects = []
    for source in list_sources(sources):
        if source.startswith(f"{NETWORK}/"):
            objects.append(folder / object_path(source))
            compile_object(build, compiler, sources, source, objects[-1], folder / "cache")
    library = folder / "network.so"
    shared = replace(build, cflags=("-fPIC", "-shared"))
    link_firmware(shared, compiler, sources, objects, library, folder / "cache")
    return library


class Generated:
    """The generated network, called with one input and one output."""

    def __init__(self, library: Path, shapes: tuple[Any, Any], dtype: str = "int8") -> None:
        self.run = ctypes.CDLL(str(library)).network_run
        self.input, self.output = (np.zeros(shape, dtype) for shape in shapes)
        pointer = ctypes.c_void_p * 1
        self.ports = pointer(self.input.ctypes.data), pointer(self.output.ctypes.data)

    def __call__(self) -> None:
        self.run(*self.ports)


class Reference:
    """LiteRT in one thread, with the kernels of XNNPACK or its reference kernels."""

    def __init__(self, model: Path, resolver: OpResolverType) -> None:
        self.interpreter = Interpreter(
            str(model), num_threads=1, experimental_op_resolver_type=resolver
        )
        self.interpreter.allocate_tensors()
        self.input = self.interpreter.get_input_details()[0]
        self.output = self.interpreter.get_output_details()[0]

    def set_input(self, values: npt.NDArray[Any]) -> None:
        self.interpreter.set_tensor(self.input["index"], values)

    def get_output(self) -> npt.NDArray[Any]:
        result: npt.NDArray[Any] = self.interpreter.get_tensor(self.output["index"])
        return result

    def __call__(self) -> None:
        self.interpreter.invoke()


def check(ours: Generated, model: Path) -> None:
    """Compare with the reference kernels, bit by bit. Floats have the kernels' order of sums."""
    reference = Reference(model, OpResolverType.BUILTIN_REF)
    generator = np.random.default_rng(0)
    for _ in range(INPUTS):
        if ours.input.dtype == "float32":
            ours.input[...] = generator.standard_normal(ours.input.shape)
        else:
            ours.input[...] = generator.integers(-128, 128, ours.input.shape)
        reference.set_input(ours.input)
        reference()
        ours()
        if not np.array_equal(ours.output, reference.get_output()):
            raise SystemExit(f"{model}: results differ")


def time_calls(engine: Callable[[], None], count: int) -> float:
    """Return the seconds of one call, after one call that is not timed."""
    engine()
    start = time.perf_counter()
    for _ in range(count):
        engine()
    return (time.perf_counter() - start) / count


def measure(
    ours: Callable[[], None], theirs: Callable[[], None], rounds: int
) -> list[tuple[float, float]]:
    """Return pairs of seconds: of firmwright and of another engine."""
    engines = [ours, theirs]
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    counts = [1 + int(SLICE / time_calls(engine, 10)) for engine in engines]
    pairs = []
    for number in range(rounds):
        seconds = [0.0, 0.0]
        for turn in random.Random(number).sample((0, 1), 2):
            seconds[turn] = time_calls(engines[turn], counts[turn])
        pairs.append((seconds[0], seconds[1]))
    os.sched_setaffinity(0, cores)
    return pairs


def time_row(name: str, pairs: list[tuple[float, float]]) -> str:
    ratios = [ours / theirs for ours, theirs in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    columns = [f"{min(column) * 1e6:.1f} ({statistics.median(column) * 1e6:.1f})"
               for column in zip(*pairs, strict=True)]  # fmt: skip
    return f"| {name} | {' | '.join(columns)} | {middle:.2f} | {low:.2f} to {high:.2f} |"


def count_row(name: str, number: int, manifest: dict[str, Any], quoted: Quoted) -> str:
    run, memory = manifest["run"], manifest["memory"]
    cells = [
        f"{run['instructions'] / 1e6:.3f}",
        f"{quoted.instructions[number]:.3f}" if quoted.instructions else "",
        f"{run['instructions'] / run['macs']:.2f}",
        f"{memory['flash_bytes']:,}",
        f"{quoted.flash[number]:,}" if quoted.flash else "",
        f"{memory['arena_bytes']:,}",
        f"{memory['arena_lower_bound_bytes']:,}",
        f"{quoted.arena[number]:,}" if quoted.arena else "",
    ]
    return f"| {name} | {manifest['platform']} | {' | '.join(cells)} |"


def name_processor() -> str:
    """Return this machine's processor as the system names it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    flags = " ".join(line for line in lines if line.startswith("flags")).split()
    used = [f for f in ("avx2", "avx512_vnni") if f in flags]
    return ", ".join([names[0] if names else platform.processor(), *used])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=201)
    parser.add_argument("--toolchain", default="zig")
    parser.add_argument("--outdir", type=Path, default=Path(tempfile.mkdtemp()))
    options = parser.parse_args()
    today = datetime.datetime.now(datetime.UTC).date()
    print(f"{today}, {name_processor()}, {options.toolchain}, {options.rounds} rounds.\n")
    print("| network | firmwright, µs: least (median) | LiteRT + XNNPACK | ratio | half of all |\n"
          "|---|---|---|---|---|")  # fmt: skip
    for name, recipe in RECIPES.items():
        outdir = (options.outdir / recipe).resolve()
        build(recipe, "host", options.toolchain, outdir)
        model = outdir / "model" / "model.tflite"
        details = Reference(model, OpResolverType.BUILTIN_REF)
        shapes = details.input["shape"], details.output["shape"]
        ours = Generated(make_library(outdir, options.toolchain), shapes)
        check(ours, model)
        theirs = Reference(model, OpResolverType.AUTO)
        theirs.set_input(ours.input)
        print(time_row(name, measure(ours, theirs, options.rounds)), flush=True)
    print("\n| network | platform | million instructions | TFLM + CMSIS-NN (quoted) | per MAC "
          "| flash, B | quoted | arena, B | its lower bound, B | quoted |\n"
          "|---|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    for target, toolchain in COUNTED.items():
        if toolchain == "arm64-gcc" and "ARM64_GCC_PATH" not in os.environ:
            print(f"{target} is left out: ARM64_GCC_PATH is not set", file=sys.stderr)
            continue
        for number, (name, recipe) in enumerate(RECIPES.items()):
            manifest = build(recipe, target, toolchain, options.outdir / recipe)
            print(count_row(name, number, manifest, QUOTED.get(target, Quoted())), flush=True)


if __name__ == "__main__":
    main()
