"""Time whole builds of DS-CNN (QDQ) for rv32-bare: cold, from a warm cache, after one change.

python -m tests.benchmarks.builds [--rounds 5] [--iree FOLDER]

``FIRMWRIGHT_MIRROR`` contains the model. ``--iree`` states the folder of ``iree-compile`` and
``iree-import-onnx``. Then IREE compiles the same network, alternating with the cold builds.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import onnx
from onnx import numpy_helper

from firmwright.watch import WAITING
from tests.package_copy import copy_package

ROOT = Path(__file__).parents[2]
RECIPE = """\
model: kws.onnx
platform: rv32-bare
target: c
run: {samples: 2, tolerance: {absolute: 1.0e-6}}
"""
IREE_FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-triple=riscv32-unknown-unknown-eabi-elf",
    "--iree-llvmcpu-target-cpu=generic-rv32",
    "--iree-llvmcpu-target-cpu-features=+m,+f",
    "--iree-llvmcpu-target-abi=ilp32",
)
"""IREE's options for bare-metal RISC-V of 32 bits; it has no option for a core without floats."""

SOME_TIME = 6.0
"""Seconds before each build of firmwright; a person also waits between two builds.

For five seconds ext4 does not reuse the inodes of deleted files, and searches all of them for each
new file. The files that a benchmark deletes would slow the next build down by 0.1 s.
"""

SHORT_TIME = 0.3
"""Maximum seconds after a build until `firmwright watch` is ready for the next build."""


Change = Callable[[], tuple[Path, bytes]]
"""Returns a file of a :class:`Site`, and its new content."""


@dataclass(frozen=True)
class Took:
    """Elapsed seconds, and seconds of the processor (of this program and its child processes)."""

    wall: float
    processor: float


def run(command: Sequence[str | Path], folder: Path, more: Mapping[str, str]) -> Took:
    """Run a command; ``more`` is added to the environment."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, env={**os.environ, **more}, check=True, capture_output=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(wall, processor)


class Site:
    """A copy of firmwright next to a recipe, so that both can be changed."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder, self.package = folder, copy_package(folder / "site")
        for name in ("here", "there"):
            work = folder / name
            work.mkdir()
            (work / "dodo.py").write_text("from firmwright.tasks.dodo import *\n")
            (work / "kws.yaml").write_text(RECIPE)
            shutil.copyfile(model, work / "kws.onnx")

    def build(self, place: str = "here", outdir: str = "build", cache: str = "") -> Took:
        command = [sys.executable, "-m", "doit", "build", "recipe=kws.yaml", f"outdir={outdir}"]
        time.sleep(SOME_TIME)
        return run(command, self.folder / place, {**self.environment, "FIRMWRIGHT_CACHE": cache})

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.package.parent), "PYTHONDONTWRITEBYTECODE": ""}

    def build_cold(self) -> Took:
        shutil.rmtree(self.folder / "here/build", ignore_errors=True)
        return self.build()

    def build_with_warm_cache(self) -> Took:
        """Fill a cache, then build elsewhere from it."""
        for name in ("cache", "here/filled", "there/build"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for name in ("kws.yaml", "kws.onnx"):
            shutil.copyfile(self.folder / "here" / name, self.folder / "there" / name)
        cache = str(self.folder / "cache")
        self.build(outdir="filled", cache=cache)
        return self.build("there", cache=cache)

    def build_changed(self, change: Change) -> Took:
        path, content = change()
        path.write_bytes(content)
        return self.build()

    def change_template(self) -> tuple[Path, bytes]:
        path = self.package / "templates/network/network.c.j2"
        return path, path.read_bytes() + b"/* %d */\n" % time.monotonic_ns()

    def change_flag(self) -> tuple[Path, bytes]:
        flags = f"cflags: [-DN={time.monotonic_ns()}]\n"
        return self.folder / "here/kws.yaml", f"{RECIPE}{flags}".encode()

    def change_layer(self) -> tuple[Path, bytes]:
        """Add one to a weight of a layer."""
        path = self.folder / "here/kws.onnx"
        model = onnx.load(path)
        weights = next(i for i in model.graph.initializer if len(i.dims) == 4)
        array = numpy_helper.to_array(weights).copy()
        array.flat[0] ^= 1
        weights.CopyFrom(numpy_helper.from_array(array, weights.name))
        return path, model.SerializeToString()


class Watched:
    """A build in a separate folder that `firmwright watch` repeats after each change."""

    def __init__(self, site: Site) -> None:
        command = [sys.executable, "-m", "firmwright.cli", "watch", "kws.yaml", "outdir=watched"]
        self.process = subprocess.Popen(
            command, cwd=site.folder / "here", env={**os.environ, **site.environment},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.wait()

    def wait(self) -> None:
        """Wait until the build is done and the process waits for a change."""
        assert self.process.stderr
        while WAITING not in self.process.stderr.readline():
            assert self.process.poll() is None

    def read_processor(self) -> float:
        """Return the seconds of the process and of its ended children; proc(5) has the fields."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def build_changed(self, change: Change) -> Took:
        """Change something, some time after the last build; the time begins with the write.

        The time after the build, in which the process prepares the next build, counts as processor
        time.
        """
        time.sleep(SOME_TIME)
        path, content = change()
        before, start = self.read_processor(), time.perf_counter()
        path.write_bytes(content)
        self.wait()
        wall = time.perf_counter() - start
        time.sleep(SHORT_TIME)
        return Took(wall, self.read_processor() - before)

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def find_model() -> Path:
    """Return the model's file in the mirror; recipes/kws-qdq.yaml has its digest."""
    return Path(os.environ["FIRMWRIGHT_MIRROR"], "kws_qdq.onnx")


def compile_with_iree(tools: Path, folder: Path) -> Took:
    model = folder / "here/kws.onnx"
    imported = run([tools / "iree-import-onnx", model, "-o", "kws.mlir"], folder, {})
    compiled = run([tools / "iree-compile", "kws.mlir", *IREE_FLAGS, "-o", "kws.vmfb"], folder, {})
    return Took(imported.wall + compiled.wall, imported.processor + compiled.processor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iree", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        site = Site(Path(name), find_model())
        turns: dict[str, Callable[[], Took]] = {"cold": site.build_cold}
        if options.iree:
            tools = options.iree.absolute()
            turns["iree-compile, with its import"] = lambda: compile_with_iree(tools, Path(name))
        changes = {
            "one template changed": site.change_template,
            "one flag changed": site.change_flag,
            "one weight changed": site.change_layer,
        }
        turns |= {
            "nothing changed, every stage asked": site.build,  # next to a new folder `build`
            "nothing changed": site.build,
        }
        turns |= {label: partial(site.build_changed, change) for label, change in changes.items()}
        turns["another folder, warm cache"] = site.build_with_warm_cache
        found: dict[str, list[Took]] = {label: [] for label in turns}
        site.build_cold()  # caches of Python and compilers
        for _ in range(options.rounds):
            for label, turn in turns.items():
                found[label].append(turn())
        watched = Watched(site)
        watched.build_changed(site.change_layer)  # it imports all modules that the builds imported
        for _, (label, change) in product(range(options.rounds), changes.items()):
            found.setdefault(f"{label}, `firmwright watch`", []).append(
                watched.build_changed(change)
            )
        watched.close()
    print("| | s | of a cold build | processor, s | of a cold build |\n|---|---|---|---|---|")
    for label, took in found.items():
        wall, cold_wall = (median([t.wall for t in ts]) for ts in (took, found["cold"]))
        used, cold_used = (median([t.processor for t in ts]) for ts in (took, found["cold"]))
        print(f"| {label} | {wall:.2f} | {wall / cold_wall:.0%} "
              f"| {used:.2f} | {used / cold_used:.0%} |")  # fmt: skip


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


if __name__ == "__main__":
    main()
