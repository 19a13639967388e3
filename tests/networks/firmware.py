"""From a model's bytes to the outputs of its generated C on this machine, in a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.compile import compile_network
from firmwright.data.samples import random_samples as draw_samples
from firmwright.emulator import run_firmware
from firmwright.emulator.execution import Execution
from firmwright.models import FORMATS
from firmwright.models.tflite.litert_outputs import make_interpreter
from firmwright.project.network import Network
from firmwright.project.write import write_project
from firmwright.recipe import parse_target
from firmwright.targets.load import load_mix
from firmwright.toolchain import (
    Build,
    compile_project,
    find_compiler,
    link_firmware,
    load_platform,
    load_toolchain,
)
from firmwright.verify.protocol import decode_outputs, encode_samples

Sample = dict[str, npt.NDArray[Any]]
Outputs = list[list[npt.NDArray[Any]]]

SANITIZED = (
    "-Wconversion",
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
    "-O0",
)
"""The C as it stands is checked, in half of the time: an optimizer leaves out what it can."""


def run_generated(
    data: bytes,
    samples: list[Sample],
    folder: Path,
    cflags: tuple[str, ...] = (),
    format_name: str | None = None,
    rounding: str | None = None,
    target: str = "c",
) -> Outputs:
    """Generate, compile with gcc, run; one list of outputs a sample."""
    network = lowered(data, format_name, rounding, target)
    ran = executed(network, samples, folder, cflags)
    return decode_outputs(ran.console, network.interface.outputs, len(samples), ran.exit_code)


def executed(
    network: Network,
    samples: list[Sample],
    folder: Path,
    cflags: tuple[str, ...] = (),
    edit: Callable[[Path], None] = lambda _: None,
    build: Build | None = None,
) -> Execution:
    """Write the project of a network for this machine, ``edit`` it, compile with gcc, run."""
    build = replace(build or Build(load_toolchain("gcc"), load_platform("host")), cflags=cflags)
    cache = folder / "cache"
    elf = link_network(network, build, folder, cache, edit)
    given = encode_samples(network.interface.inputs, samples)
    return run_firmware(elf, build.platform, "native", given, "network_run", 10**11)


def link_network(
    network: Network,
    build: Build,
    folder: Path,
    cache: Path,
    edit: Callable[[Path], None] = lambda _: None,
) -> Path:
    """Write the project of a network, ``edit`` it, compile and link it; return the program.

    ``cache`` is what the compiler keeps. Raises UserError where the compiler is not installed.
    """
    compiler = find_compiler(build.toolchain, build.platform.architecture)
    sources, elf = folder / "sources", folder / "firmware.elf"
    write_project(network, build, sources)
    edit(sources)
    objects = compile_project(build, compiler, sources, folder / "objects", cache)
    link_firmware(build, compiler, sources, objects, elf, cache)
    return elf


def format_of(data: bytes) -> str:
    return "tflite" if data[4:8] == b"TFL3" else "onnx"


def assert_exact(data: bytes, folder: Path, samples: list[Sample] | None = None) -> Outputs:
    """Compare the C, under gcc's sanitizers, bit for bit with the format's reference."""
    importer = FORMATS[format_of(data)].load()
    if samples is None:
        interface = importer.import_model(data, "test model", {})[1]
        samples = [dict(s) for s in draw_samples(interface.inputs, 2, 1)]
    found = run_generated(data, samples, folder, SANITIZED)
    expected = importer.run_reference(data, samples).outputs
    for ours, theirs in zip(found, expected, strict=True):
        for array, reference in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(array, reference)
    return found


def lowered(
    data: bytes,
    format_name: str | None = None,
    rounding: str | None = None,
    target: str = "c",
    platform: str = "host",
) -> Network:
    """Import and compile a model; the rounding is its format's own."""
    format_name = format_name or format_of(data)
    rounding = rounding or ("tflite" if format_name == "tflite" else "onnx")
    module, interface = FORMATS[format_name].load().import_model(data, "test model", {})
    mix = load_mix(parse_target(target), load_platform(platform), rounding)
    return compile_network(module, interface, mix)


def random_samples(data: bytes, count: int, seed: int) -> list[Sample]:
    """Return inputs that use the whole range of their type."""
    generator = np.random.default_rng(seed)
    samples = []
    for _ in range(count):
        sample = {}
        for detail in make_interpreter(data).get_input_details():
            shape, dtype = detail["shape"], detail["dtype"]
            if np.issubdtype(dtype, np.floating):
                sample[detail["name"]] = generator.normal(0, 2, shape).astype(dtype)
            else:
                limits = np.iinfo(dtype)
                sample[detail["name"]] = generator.integers(
                    limits.min, limits.max, shape, dtype, endpoint=True
                )
        samples.append(sample)
    return samples
