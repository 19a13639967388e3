"""Exports the network as packages. Each build system has a folder in ``templates/exports``.

The folder's ``export.yaml`` is a :class:`firmwright.recipe.build_systems.Export`.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt

from firmwright.codegen.c_literals import format_c_values
from firmwright.codegen.templates import make_environment
from firmwright.errors import UserError
from firmwright.project.interface import Port, view_as_c_type
from firmwright.project.project_files import network_file
from firmwright.project.write import render_folder, write_file
from firmwright.recipe.build_systems import Export, load_export
from firmwright.toolchain import Platform

PORTABLE_SUFFIXES = frozenset({".c", ".h", ".json"})
"""The suffixes of files in packages, which contain no machine code and no assembly."""


@dataclass(frozen=True)
class SampleArray:
    """The values of an input or output in the sample. ``text`` is the values' C initializer."""

    port: Port
    values: npt.NDArray[Any]
    text: str


@dataclass(frozen=True)
class ExportedNetwork:
    """A network of a package, whose C names have the prefix ``c_prefix``.

    ``sample`` has the inputs of one inference and the resulting outputs, as ``input_0`` … and
    ``output_0`` …. A ``stateful`` network keeps tensors between runs.
    """

    c_prefix: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    sample: Mapping[str, npt.NDArray[Any]]
    stateful: bool = False

    @cached_property
    def arrays(self) -> dict[str, list[SampleArray]]:
        """Return the inputs and outputs of the sample. Formatting long samples needs seconds."""
        ports = {"input": self.inputs, "output": self.outputs}
        return {
            kind: [
                SampleArray(port, values, format_c_values(values))
                for i, port in enumerate(listed)
                for values in [view_as_c_type(self.sample[f"{kind}_{i}"])]
            ]
            for kind, listed in ports.items()
        }


@dataclass(frozen=True)
class Package:
    """The data of a package: its networks, and ``sources``, the folder of the C files.

    ``name`` is the prefix of the only network, or of the functions for all networks. ``workspace``
    is the size in bytes of the working memory that the caller passes, or None if the memory is
    static. ``drivers`` maps file names to the portable drivers of the devices. ``url`` is the
    address of a page about the network.
    """

    title: str
    name: str
    version: str
    description: str | None
    platform: Platform
    networks: tuple[ExportedNetwork, ...]
    sources: Path
    workspace: int | None = None
    drivers: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None

    @property
    def sentence(self) -> str:
        several = len(self.networks) > 1
        networks = f"networks of {self.title}" if several else f"network {self.title}"
        described = self.description or f"The {networks} as C, made by firmwright."
        return " ".join(described.split())

    @property
    def calls(self) -> str:
        prepared = [f"`{self.name}_init()`"] if self.workspace is not None else []
        *first, last = [*prepared, *(f"`{network.c_prefix}_run()`" for network in self.networks)]
        return f"{', '.join(first)} and {last}" if first else last

    @property
    def headers(self) -> list[str]:
        """The headers for a program. The first header includes the headers of several networks."""
        prefixes = dict.fromkeys([self.name, *(network.c_prefix for network in self.networks)])
        names = [network_file(p, f"{s}.h") for p in prefixes for s in ("network", "detection")]
        return [name for name in names if (self.sources / name).is_file()]


def write_export(name: str, package: Package, folder: Path) -> None:
    """Write a package into ``folder``.

    Raises UserError if the package does not support the network.
    """
    export = load_export(name)
    refuse_machine_code(name, package.sources)
    shutil.copytree(package.sources, folder / export.network)
    for file, text in package.drivers.items():
        write_file(folder / export.network / file, text)
    variables = export_variables(package, export, folder / export.network)
    render_folder(f"exports/{name}", variables, folder)
    if export.archive:
        write_zip(folder / make_environment().from_string(export.archive).render(variables), folder)


def write_zip(path: Path, folder: Path) -> None:
    """Pack the sorted files of a folder. All files have one time and one mode."""
    files = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.*"))
    with zipfile.ZipFile(path, "w") as archive:
        for name in files:
            entry = zipfile.ZipInfo(name)  # the archive's time is in 1980, independent of the clock
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, (folder / name).read_bytes(), zipfile.ZIP_DEFLATED)


def refuse_machine_code(name: str, sources: Path) -> None:
    for file in sorted(sources.iterdir()):
        if file.suffix not in PORTABLE_SUFFIXES:
            raise UserError(
                f"`libraries` has {file.name}, and packages contain only C; remove `export: {name}`"
            )


def export_variables(package: Package, export: Export, sources: Path) -> dict[str, Any]:
    return {
        "name": package.name,
        "title": package.title,
        "version": package.version,
        "sentence": package.sentence,
        "quoted": json.dumps(package.sentence, ensure_ascii=False),
        "platform": package.platform,
        "network": export.network,
        "reserved": export.reserved,
        "sources": sorted(path.name for path in sources.glob("*.c")),
        "computes_floats": mentions(sources, r"\b(float|double)\b"),
        "calls_math": mentions(sources, r"#include <math\.h>"),
        "url": package.url,
        "headers": package.headers,
        "calls": package.calls,
        "caller_arena": package.workspace is not None,
        "workspace": package.workspace,
        "networks": package.networks,
        "several": len(package.networks) > 1,
        "kind": find_loaded_kind(package.networks[0], export),
    }


def mentions(sources: Path, pattern: str) -> bool:
    return any(re.search(pattern, path.read_text("utf-8")) for path in sources.glob("*.c"))


def find_loaded_kind(network: ExportedNetwork, export: Export) -> str:
    """Return the kind of a sample's bytes in the package's table, or else ``elements``."""
    given, made = (
        sum(port.tensor.elements for port in ports) for ports in (network.inputs, network.outputs)
    )
    whole = all(port.c_type == "int8_t" for port in (*network.inputs, *network.outputs))
    rows = export.samples if whole else ()
    kinds = (row.kind for row in rows if (row.inputs, row.outputs) == (given, made))
    return next(kinds, "elements")
