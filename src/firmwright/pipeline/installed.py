"""Lists platforms, devices, toolchains and packages: ``firmwright platforms``, ``doctor``, …"""

from __future__ import annotations

import platform as machine
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from firmwright import __version__
from firmwright.emulator import find_emulator_version
from firmwright.errors import UserError
from firmwright.report.text_table import align_columns
from firmwright.targets.load import load_target, target_names
from firmwright.toolchain import (
    Toolchain,
    find_compiler,
    load_platform,
    load_toolchain,
    platform_names,
    toolchain_names,
)
from firmwright.tvm_import import find_versions

Row = tuple[str, ...]

PACKAGES = {"onnx": "", "onnxruntime": "", "torch": "torch"}
"""Packages that decide what can be built, and firmwright's extra for each package or ''."""


def list_platforms() -> Iterator[Row]:
    yield "platform", "toolchains", "emulators", "what it is"
    for name in platform_names():
        found = load_platform(name)
        emulators = ", ".join(found.emulators) or "none"
        yield name, ", ".join(found.toolchains), emulators, found.description


def list_targets() -> Iterator[Row]:
    yield "device", "platforms", "why it runs an operator"
    for name in target_names():
        target = load_target(name)
        having = [p for p in platform_names() if name in load_platform(p).accelerators]
        yield name, "all" if target.is_portable else ", ".join(having), target.reason


def list_toolchains() -> Iterator[Row]:
    yield "toolchain", "version, or how to get it"
    for name in toolchain_names():
        yield name, describe_compiler(load_toolchain(name))


def describe_compiler(toolchain: Toolchain) -> str:
    """Return the version of a toolchain's compiler, or the missing part and how to get it."""
    try:
        return find_compiler(toolchain, next(iter(toolchain.architectures))).version
    except UserError as error:
        return f"missing: {error}"


def list_emulators() -> Iterator[Row]:
    """Yield every emulator of the platforms, one row per program."""
    yield "emulator", "version, or how to get it"
    found: dict[str, str] = {}
    for platform in map(load_platform, platform_names()):
        for name in platform.emulators:
            program = platform.qemu.program if name.startswith("qemu") and platform.qemu else name
            if program in found:
                continue
            try:
                found[program] = find_emulator_version(name, platform) or "this machine"
            except UserError as error:
                found[program] = f"missing: {error}"
    yield from found.items()


def list_packages() -> Iterator[Row]:
    yield "package", "version, or how to get it"
    yield "firmwright", __version__
    yield "python", machine.python_version()
    for name, found, wanted in find_versions():
        remedy = f"; expected {wanted}: python -m pip install {name}=={wanted}"
        yield name, found if found == wanted else f"{found}{remedy}"
    for name, extra in PACKAGES.items():
        try:
            yield name, version(name)
        except PackageNotFoundError:
            wanted = f"'firmwright[{extra}]'" if extra else name
            yield name, f"missing: python -m pip install {wanted}"


LISTS: Mapping[str, tuple[str, Sequence[Callable[[], Iterator[Row]]]]] = {
    "platforms": ("list the built-in platforms", (list_platforms,)),
    "targets": ("list the devices that can run a network or parts of it", (list_targets,)),
    "toolchains": ("list the compilers: found or missing, and how to get them", (list_toolchains,)),
    "doctor": (
        "list packages, compilers and emulators, and how to get those that are missing",
        (list_packages, list_toolchains, list_emulators),
    ),
}
"""The commands that only print tables: their sentences, and the functions of the tables."""


def print_lists(command: str) -> int:
    """Print the tables of a command; return its exit code."""
    _, tables = LISTS[command]
    texts = []
    for table in tables:
        rows = list(table())
        texts.append("\n".join(align_columns(rows, "<" * len(rows[0]))))
    print("\n\n".join(texts))
    return 0
