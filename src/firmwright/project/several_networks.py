"""Writes the C project of several networks: all files in one folder, and one program."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from firmwright.codegen.templates import make_environment, render
from firmwright.errors import UserError
from firmwright.project import build_id
from firmwright.project.board import render_makefile, write_board
from firmwright.project.interface import Port
from firmwright.project.network import Network, SharedParts
from firmwright.project.project_files import network_file, place_program_files
from firmwright.project.write import (
    make_ports,
    project_makefile_variables,
    write_file,
    write_network,
)
from firmwright.toolchain import Build
from firmwright.toolchain.boards import load_board
from firmwright.toolchain.project_folders import BOARD, DEMO, NETWORK

ALIGNMENT = 16
"""The alignment of a network's part of the arena, in bytes."""


class TakenFileError(UserError):
    """Raised if the network with the ``prefix`` and another network have a file of equal name."""

    def __init__(self, prefix: str, file: str, owner: str) -> None:
        self.prefix = prefix
        message = f"'{prefix}' and '{owner}' would both have a file {file}; choose another name"
        super().__init__(message)


@dataclass(frozen=True)
class Part:
    """A network of the firmware, whose part of the arena begins at ``offset``.

    ``first_output`` is the number of its first output.
    """

    prefix: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    offset: int
    first_output: int


@dataclass(frozen=True)
class FirmwareParts:
    """The parts of a firmware, and the size of the shared arena in bytes."""

    parts: tuple[Part, ...]
    workspace: int


def lay_out(networks: Sequence[Network], concurrent: bool) -> FirmwareParts:
    """Assign each network a part of the arena. Parts are separate if ``concurrent``.

    A network with states always has a separate part, before the part that the other networks share.
    """
    alone = [concurrent or bool(network.plan.states) for network in networks]
    sizes = [-(-max(n.plan.arena_bytes, 1) // ALIGNMENT) * ALIGNMENT for n in networks]
    shared = sum(size for size, is_alone in zip(sizes, alone, strict=True) if is_alone)
    largest = max(
        (size for size, is_alone in zip(sizes, alone, strict=True) if not is_alone), default=0
    )
    parts: list[Part] = []
    end = outputs = 0
    for network, size, is_alone in zip(networks, sizes, alone, strict=True):
        given, made = (tuple(ports) for ports in make_ports(network.interface))
        parts.append(Part(network.c_prefix, given, made, end if is_alone else shared, outputs))
        end, outputs = end + size * is_alone, outputs + len(made)
    return FirmwareParts(tuple(parts), shared + largest)


def write_networks(
    name: str, c_prefix: str, networks: Sequence[Network], concurrent: bool, build: Build,
    folder: Path, roots: tuple[Path, ...] = (),
) -> None:  # fmt: skip
    """Render all files of the project into ``folder``. ``roots`` has templates of custom devices.

    Raises TakenFileError if two networks have a file of equal name.
    """
    env = make_environment(roots)
    written = write_side_by_side(share_parts(networks), c_prefix, build, folder, roots)
    layout = lay_out(networks, concurrent)
    variables: dict[str, Any] = {
        **written[0],  # the board's variables are equal for all networks
        "name": name,
        "prefix": c_prefix,
        "networks": layout.parts,
        "workspace": layout.workspace,
        "concurrent": concurrent,
        "stateful": any(network.plan.states for network in networks),
        "build_id_bytes": build_id.format_bytes(build_id.UNKNOWN),
        "data_section": load_board(build.platform.board).data_section,
    }
    placed = {
        "application/networks.h.j2": f"{NETWORK}/{c_prefix}.h",
        "application/networks.c.j2": f"{NETWORK}/{c_prefix}.c",
        "application/networks_main.c.j2": f"{DEMO}/main.c",
        **place_program_files(build.settings.libc),
    }
    for template, target in placed.items():
        write_file(folder / target, render(env, template, variables))
    write_board(env, build.platform.board, variables, folder / BOARD)
    makefile = project_makefile_variables(networks, build, folder)
    write_file(folder / "Makefile", render_makefile(env, build.platform.board, makefile))


def write_side_by_side(
    networks: Sequence[Network], c_prefix: str, build: Build, folder: Path, roots: tuple[Path, ...]
) -> list[dict[str, Any]]:
    """Render the files of each network, and return the variables of each network.

    Networks share some files with equal content, such as device drivers and libraries. ``c_prefix``
    is the prefix of the firmware.
    """
    owners = {f"{NETWORK}/{c_prefix}{suffix}": c_prefix for suffix in (".c", ".h")}
    written = []
    for network in networks:
        alone = folder / f".{network.c_prefix}"
        written.append(write_network(network, build, alone, roots))
        for path in sorted(path for path in alone.rglob("*") if path.is_file()):
            name = path.relative_to(alone).as_posix()
            target, owner = folder / name, owners.setdefault(name, network.c_prefix)
            is_same = target.exists() and target.read_bytes() == path.read_bytes()
            if owner != network.c_prefix and not is_same:
                raise TakenFileError(network.c_prefix, target.name, owner)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        shutil.rmtree(alone)
    return written


def share_parts(networks: Sequence[Network]) -> list[Network]:
    """Return the networks, with the parts that each network shares with earlier networks.

    Weights are shared if types and bytes are equal. Helpers are shared if names are equal, because
    a helper's name contains a digest of the function.
    """
    arrays: dict[tuple[str, str], tuple[str, str]] = {}
    owners: dict[str, str] = {}
    sharing_networks = []
    for network in networks:
        prefix, weights, headers, helpers = network.c_prefix, {}, set(), {}
        for name, array in sorted(network.weights.items()):
            key = array.dtype.name, hashlib.sha256(array.tobytes()).hexdigest()
            owner, constant = arrays.setdefault(key, (prefix, f"{prefix}_{name}"))
            if owner != prefix:
                weights[name] = constant
                headers.add(network_file(owner, "weights.h"))
        files = (file for kernel in network.kernels.kernels for file in kernel.files)
        for stem in sorted({PurePath(file.name).stem for file in files}):
            owner = owners.setdefault(stem, prefix)
            if owner != prefix:
                helpers[stem] = owner
        shared = SharedParts(weights, tuple(sorted(headers)), helpers)
        sharing_networks.append(replace(network, shared=shared))
    return sharing_networks
