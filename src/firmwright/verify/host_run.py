"""Compiles the firmware's C code for this machine and runs many samples fast.

Integer arithmetic in C is exact, so the integers of this machine and of the target are equal.
Results in float32 may differ in the last digits between two C libraries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from firmwright.data.samples import Sample
from firmwright.emulator import run_firmware
from firmwright.ir.tensors import BatchLayout
from firmwright.project.network import Network
from firmwright.project.user_libraries import ARCHIVE_SUFFIXES
from firmwright.project.write import write_project
from firmwright.toolchain import (
    Platform,
    compile_project,
    find_compiler,
    link_firmware,
    make_host_build,
)
from firmwright.toolchain.archive_checks import check_machine
from firmwright.verify.batches import join_samples, split_outputs
from firmwright.verify.protocol import decode_outputs, encode_samples

MAX_INSTRUCTIONS = 10**13
"""The maximum number of instructions. Above this number, the program counts as hung."""


@dataclass(frozen=True)
class HostRun:
    """The run of a network: the compiler, every output of each sample, and the console output."""

    compiler: str
    outputs: list[list[npt.NDArray[Any]]]
    console: bytes


@dataclass(frozen=True)
class HostProgram:
    """The program of a network for this machine, and the name and version of its compiler."""

    network: Network
    platform: Platform
    compiler: str
    path: Path

    def run(self, samples: Sequence[Sample]) -> HostRun:
        """Run the program.

        ``samples`` and outputs have a batch of 1, even if the network computes several samples at
        once.
        """
        network, platform = self.network, self.platform
        inputs, outputs = network.interface.inputs, network.interface.outputs
        layout = network.batch or BatchLayout(1, tuple(0 for _ in outputs))
        spare = [samples[-1]] * (-len(samples) % layout.size)  # repeated samples fill the last one
        batches = join_samples([*samples, *spare], layout.size)
        given = encode_samples(inputs, batches)
        entry, emulator = f"{network.c_prefix}_run", platform.emulators[0]
        ran = run_firmware(self.path, platform, emulator, given, entry, MAX_INSTRUCTIONS)
        batch_outputs = decode_outputs(ran.console, outputs, len(batches), ran.exit_code)
        alone = split_outputs(batch_outputs, layout.size, layout.output_axes)
        return HostRun(self.compiler, alone[: len(samples)], ran.console)


def run_on_host(
    network: Network, target: Platform, samples: Sequence[Sample], folder: Path, cache: Path
) -> HostRun:
    """Compile the network for this machine with :func:`compile_for_host`, and run the program."""
    return compile_for_host(network, target, folder, cache).run(samples)


def compile_for_host(network: Network, target: Platform, folder: Path, cache: Path) -> HostProgram:
    """Return the program of a network for this machine. The accelerators are emulated.

    ``target`` is the platform for which the network was compiled. ``folder`` is for sources and
    objects, and ``cache`` is the compiler's cache.
    """
    build = make_host_build(target)
    toolchain, platform = build.toolchain, build.platform
    write_project(network, build, folder / "sources")
    compiler = find_compiler(toolchain, platform.architecture)
    objects = compile_project(build, compiler, folder / "sources", folder / "objects", cache)
    archives = [file for file in network.libraries if file.suffix in ARCHIVE_SUFFIXES]
    for archive in archives:
        check_machine(archive, objects[0])
    program = folder / "network.elf"
    link_firmware(build, compiler, folder / "sources", [*objects, *archives], program, cache)
    return HostProgram(network, platform, f"{toolchain.name} {compiler.version}", program)
