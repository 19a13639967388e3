"""The network as packages of other build systems: a folder of ``templates/exports`` for each.

``export.yaml`` in it says what an :class:`Export` has. The templates lie at their places in the
package; ``{{name}}`` in a place is filled in as in a text.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy.typing as npt

from firmwright.codegen.templates import (
    TEMPLATE_SUFFIX,
    make_environment,
    read_template,
    render,
    template_folder,
)
from firmwright.errors import UserError
from firmwright.project.demo import view_as_c_type
from firmwright.project.files import network_file
from firmwright.project.interface import Port
from firmwright.project.write import write_file
from firmwright.toolchain import Platform
from firmwright.toolchain.descriptions import read_own_yaml

PORTABLE_SUFFIXES = frozenset({".c", ".h", ".json"})
"""Of what packages hold: no library of machine code, and no assembly."""


@dataclass(frozen=True)
class Export:
    """What is said of a package beside its templates: ``network`` is the folder of the C files.

    ``reserved`` are names that it cannot have, because they mean something else there.
    """

    network: str
    reserved: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExportedNetwork:
    """What packages are made of: ``name`` is the prefix, ``sources`` the folder with the C files.

    ``sample`` has the inputs of one inference and the outputs that they give, as ``input_0`` … and
    ``output_0`` ….
    """

    title: str
    name: str
    version: str
    description: str | None
    platform: Platform
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    sample: Mapping[str, npt.NDArray[Any]]
    sources: Path


def load_export(name: str) -> Export:
    return msgspec.convert(read_own_yaml(read_template(f"exports/{name}/export.yaml")), Export)


def write_export(name: str, network: ExportedNetwork, folder: Path) -> None:
    """Write a package into ``folder``; UserError for a network that it cannot hold."""
    export = load_export(name)
    refuse_unfit_network(name, network, export)
    variables = export_variables(network, export)
    shutil.copytree(network.sources, folder / export.network)
    env = make_environment()
    root = f"exports/{name}"
    for template in sorted(list_all_templates(root)):
        place = env.from_string(template.removeprefix(f"{root}/")).render(variables)
        text = render(env, template, variables)
        write_file(folder / place.removesuffix(TEMPLATE_SUFFIX), text)


def refuse_unfit_network(name: str, network: ExportedNetwork, export: Export) -> None:
    if network.name in export.reserved:
        raise UserError(
            f"{name} has a meaning of its own for the name '{network.name}'; choose another "
            "`c_prefix`"
        )
    for file in sorted(network.sources.iterdir()):
        if file.suffix not in PORTABLE_SUFFIXES:
            raise UserError(f"`libraries` has {file.name}, but packages hold C alone: no {name}")


def list_all_templates(folder: str) -> list[str]:
    """Return the templates of a folder and of those in it."""
    root = template_folder().joinpath(*folder.split("/"))
    return [
        f"{folder}/{path.relative_to(str(root)).as_posix()}"
        for path in Path(str(root)).rglob(f"*{TEMPLATE_SUFFIX}")
    ]


def export_variables(network: ExportedNetwork, export: Export) -> dict[str, Any]:
    """Return what the templates of a package are rendered with."""
    files = sorted(path.name for path in network.sources.iterdir())
    public = [network_file(network.name, f"{stem}.h") for stem in ("network", "detection")]
    sentence = network.description or f"The network {network.title} as C, made by firmwright."
    sample = network.sample
    return {
        "name": network.name,
        "title": network.title,
        "version": network.version,
        "sentence": " ".join(sentence.split()),
        "platform": network.platform,
        "network": export.network,
        "reserved": export.reserved,
        "sources": [name for name in files if name.endswith(".c")],
        "headers": [name for name in public if name in files],
        "inputs": network.inputs,
        "outputs": network.outputs,
        "input_data": [
            (port, view_as_c_type(sample[f"input_{i}"])) for i, port in enumerate(network.inputs)
        ],
        "expected": [
            (port, view_as_c_type(sample[f"output_{i}"])) for i, port in enumerate(network.outputs)
        ],
    }
