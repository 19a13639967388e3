"""Implements ``firmwright platforms``, ``doctor`` and other commands that print lists."""

from __future__ import annotations

import platform as machine
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from firmwright import __version__
from firmwright.emulator import load_emulator
from firmwright.errors import UserError
from firmwright.ir.records import format_record
from firmwright.report.outcomes import Installed, ListedPlatform, ListedProgram, ListedTarget
from firmwright.report.rows import align_columns
from firmwright.targets.load_devices import load_target, target_names
from firmwright.toolchain import (
    find_compiler,
    load_platform,
    load_toolchain,
    platform_names,
    toolchain_names,
)
from firmwright.tvm_import import find_versions

PACKAGES = {"onnx": "", "onnxruntime": "", "torch": "torch"}
"""Packages that recipes may need, and the extra of firmwright for each package, or ''."""


def list_platforms() -> Iterator[ListedPlatform]:
    for name in platform_names():
        platform = load_platform(name)
        yield ListedPlatform(
            name, tuple(platform.toolchains), tuple(platform.emulators), platform.description
        )


def list_targets() -> Iterator[ListedTarget]:
    known = {name: load_platform(name).accelerators for name in platform_names()}
    for name in target_names():
        target = load_target(name)
        having = (p for p, devices in known.items() if target.is_portable or name in devices)
        yield ListedTarget(name, tuple(having), target.reason)


def list_toolchains() -> Iterator[ListedProgram]:
    for name in toolchain_names():
        toolchain = load_toolchain(name)
        try:
            compiler = find_compiler(toolchain, next(iter(toolchain.architectures)))
            yield ListedProgram(name, compiler.version)
        except UserError as error:
            yield ListedProgram(name, "", str(error))


def list_emulators() -> Iterator[ListedProgram]:
    """Yield one entry for each program that emulates a platform."""
    programs = set()
    for platform in map(load_platform, platform_names()):
        for name in platform.emulators:
            program = platform.qemu.program if name.startswith("qemu") and platform.qemu else name
            if program in programs:
                continue
            programs.add(program)
            try:
                known = load_emulator(name).find_version(platform) or "this machine"
                yield ListedProgram(program, known)
            except UserError as error:
                yield ListedProgram(program, "", str(error))


def list_packages() -> Iterator[ListedProgram]:
    yield ListedProgram("firmwright", __version__)
    yield ListedProgram("python", machine.python_version())
    for name, installed, wanted in find_versions():
        remedy = f"expected {wanted}: python -m pip install {name}=={wanted}"
        yield ListedProgram(name, installed, "" if installed == wanted else remedy)
    for name, extra in PACKAGES.items():
        try:
            yield ListedProgram(name, version(name))
        except PackageNotFoundError:
            wanted = f"'firmwright[{extra}]'" if extra else name
            yield ListedProgram(name, "", f"python -m pip install {wanted}")


LISTS: Mapping[str, tuple[str, Mapping[str, Callable[[], Iterator[Any]]]]] = {
    "platforms": ("list the built-in platforms", {"platforms": list_platforms}),
    "targets": (
        "list the devices that can run a network or parts of it",
        {"targets": list_targets},
    ),
    "toolchains": (
        "list the compilers, and how to install missing compilers",
        {"toolchains": list_toolchains},
    ),
    "doctor": (
        "list packages, compilers and emulators, and how to install missing ones",
        {"packages": list_packages, "toolchains": list_toolchains, "emulators": list_emulators},
    ),
}
"""The commands that only print lists: their descriptions, and their lists by the key in JSON."""

HEADINGS = {
    "platforms": ("platform", "toolchains", "emulators", "description"),
    "targets": ("device", "platforms", "why it runs an operator"),
    "packages": ("package", "version, or how to get it"),
    "toolchains": ("toolchain", "version, or how to get it"),
    "emulators": ("emulator", "version, or how to get it"),
}


def print_lists(command: str, as_json: bool) -> int:
    """Print the lists of a command as tables or as JSON, and return the exit code."""
    _, lists = LISTS[command]
    contents = {name: tuple(make()) for name, make in lists.items()}
    if as_json:
        print(format_record(Installed(**contents), "installed.schema.json"), end="")
        return 0
    tables = ([HEADINGS[name], *map(make_row, entries)] for name, entries in contents.items())
    texts = ("\n".join(align_columns(rows, "<" * len(rows[0]))) for rows in tables)
    print("\n\n".join(texts))
    return 0


def make_row(entry: ListedPlatform | ListedTarget | ListedProgram) -> tuple[str, ...]:
    if isinstance(entry, ListedPlatform):
        emulators = ", ".join(entry.emulators) or "none"
        return entry.name, ", ".join(entry.toolchains), emulators, entry.description
    if isinstance(entry, ListedTarget):
        is_everywhere = entry.platforms == tuple(platform_names())
        return entry.name, "all" if is_everywhere else ", ".join(entry.platforms), entry.reason
    if entry.version and entry.remedy:
        return entry.name, f"{entry.version}; {entry.remedy}"
    return entry.name, entry.version or f"missing: {entry.remedy}"
