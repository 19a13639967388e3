"""From the bytes of a model to the outputs of its generated C on this machine, in one call."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.compile import compile_network
from firmwright.data.samples import random_samples as draw_samples
from firmwright.emulator import run_firmware
from firmwright.emulator.execution import Execution
from firmwright.models import FORMATS
from firmwright.models.tflite.interpreters import REFERENCE, make_interpreter
from firmwright.project.network import Network
from firmwright.project.write import write_project
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import (
    Build,
    find_compiler,
    link_firmware,
    load_platform,
    load_toolchain,
)
from firmwright.toolchain.build import compile_each, compile_object, driver_flags, object_path
from firmwright.toolchain.compilers import Compiler, run_compiler
from firmwright.toolchain.project_folders import DEMO, FOLDERS, list_sources
from firmwright.verify.protocol import decode_outputs, encode_samples

Sample = dict[str, npt.NDArray[Any]]
Outputs = list[list[npt.NDArray[Any]]]

SANITIZED = (
    "-Wconversion",
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fsanitize-undefined-trap-on-error",
    "-O0",
)
"""Sanitizers of gcc that end the program at the first error.

Without optimization, the checks see the unchanged C, and the compilation needs half the time. An
illegal instruction reports undefined behavior, because the library that prints the line makes
linking slower.
"""

INTRINSICS = "immintrin.h"


def run_generated(
    data: bytes,
    samples: list[Sample],
    folder: Path,
    cflags: tuple[str, ...] = (),
    format_name: str | None = None,
    rounding: str | None = None,
    target: str = "c",
) -> Outputs:
    """Generate the C, compile it with gcc and run it; return a list of outputs per sample."""
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
    elf = link_network(network, build, folder, folder / "cache", edit, join_sources)
    given = encode_samples(network.interface.inputs, samples)
    return run_firmware(elf, build.platform, "native", given, "network_run", 10**11)


def link_network(
    network: Network,
    build: Build,
    folder: Path,
    cache: Path,
    edit: Callable[[Path], None] = lambda _: None,
    list_files: Callable[[Path], list[str]] = list_sources,
) -> Path:
    """Write the project of a network, ``edit`` it, compile and link it; return the program.

    ``cache`` is the compiler's cache folder. ``list_files`` returns the sources to compile. Raises
    UserError if the compiler is not installed.
    """
    compiler = find_compiler(build.toolchain, build.platform.architecture)
    sources, elf = folder / "sources", folder / "firmware.elf"
    write_project(network, build, sources)
    edit(sources)

    files = list_files(sources)
    vector = [s for s in files if f"#include <{INTRINSICS}>" in (sources / s).read_text()]
    vector_build = add_precompiled(build, compiler) if vector else build

    def compile_one(source: str) -> Path:
        target = folder / "objects" / object_path(source)
        used = vector_build if source in vector else build
        compile_object(used, compiler, sources, source, target, cache)
        return target

    objects = compile_each(compile_one, sources, files)
    link_firmware(build, compiler, sources, objects, elf, cache)
    return elf


def add_precompiled(build: Build, compiler: Compiler) -> Build:
    """Add the flags that read the intrinsics of x86-64 from a precompiled header, if gcc compiles.

    Without it, the header needs half a second per source. A build whose flags have a folder with
    another header stays unchanged.
    """
    if build.toolchain.name != "gcc" or "-I" in build.cflags:
        return build
    folder = precompile(compiler.command, driver_flags(build, compiler)).name
    return replace(build, cflags=(*build.cflags, f"-I{folder}", "-include", "x64.h"))


@lru_cache(maxsize=8)
def precompile(command: tuple[str, ...], flags: tuple[str, ...]) -> TemporaryDirectory[str]:
    """Return a folder with ``x64.h.gch``, made with the flags of a compilation."""
    made = TemporaryDirectory()
    folder = Path(made.name)
    (folder / "x64.h").write_text(f"#include <{INTRINSICS}>\n", encoding="utf-8")
    run_compiler((*command, *flags, "-x", "c-header", "x64.h"), folder, folder / "cache")
    return made


def join_sources(project: Path, folders: Collection[str] = FOLDERS) -> list[str]:
    """Write ``joined.c``, which includes the C sources of a project; return the files to compile.

    The start of a compiler needs most of its time. Sources with static functions stay separate,
    because layers have functions with equal names. Sources that define macros for the system's
    headers also stay separate.
    """
    joined: list[str] = []
    apart = ["joined.c"]
    for source in list_sources(project):
        folder = source.partition("/")[0]
        if folder not in folders:
            continue
        stays = re.search(r"^(static |#define _)", (project / source).read_text(), re.MULTILINE)
        is_joined = source.endswith(".c") and (not stays or folder == DEMO)
        (joined if is_joined else apart).append(source)
    (project / "joined.c").write_text("".join(f'#include "{source}"\n' for source in joined))
    return apart


def format_of(data: bytes) -> str:
    return "tflite" if data[4:8] == b"TFL3" else "onnx"


def assert_exact(data: bytes, folder: Path, samples: list[Sample] | None = None) -> Outputs:
    """Compare the C, under gcc's sanitizers, bit for bit with the reference of the format."""
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
    """Import and compile a model with the rounding of its format."""
    format_name = format_name or format_of(data)
    rounding = rounding or ("tflite" if format_name == "tflite" else "onnx")
    return compile_model(data, format_name, rounding, target, platform)


@lru_cache(maxsize=1)
def compile_model(
    data: bytes, format_name: str, rounding: str, target: str, platform: str
) -> Network:
    """Import and compile a model; two calls in a row with equal arguments share the network."""
    module, interface = FORMATS[format_name].load().import_model(data, "test model", {})
    mix = load_mix(parse_target(target), load_platform(platform), rounding)
    return compile_network(module, interface, mix)


def random_samples(
    data: bytes,
    count: int,
    seed: int,
    limits: Mapping[str, tuple[float, float]] = MappingProxyType({}),
    kernels: str = REFERENCE,
) -> list[Sample]:
    """Return inputs that use the whole range of their type, or the range in ``limits``.

    An upper limit is excluded.
    """
    generator = np.random.default_rng(seed)
    details = make_interpreter(data, kernels).get_input_details()
    samples = []
    for _ in range(count):
        sample = {}
        for detail in details:
            name, shape, dtype = detail["name"], detail["shape"], detail["dtype"]
            if np.issubdtype(dtype, np.floating) and name in limits:
                sample[name] = generator.uniform(*limits[name], shape).astype(dtype)
            elif np.issubdtype(dtype, np.floating):
                sample[name] = generator.normal(0, 2, shape).astype(dtype)
            elif dtype is np.bool_:
                sample[name] = generator.integers(0, 2, shape).astype(dtype)
            else:
                widest = np.iinfo(dtype)
                low, high = limits.get(name, (widest.min, widest.max + 1))
                sample[name] = generator.integers(int(low), int(high), shape, dtype)
        samples.append(sample)
    return samples
