"""The digits network as packages, for the tests of each build system."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from firmwright.compile import compile_network
from firmwright.models import FORMATS
from firmwright.project.export_packages import ExportedNetwork, Package, write_export
from firmwright.project.network import Network
from firmwright.project.write import make_ports, write_project
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import Build, load_platform, load_toolchain

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
ANY = replace(load_platform("host"), features=())
"""A platform without properties, so that the C is for any processor."""


@cache
def compile_digits() -> Network:
    model = (DIGITS / "digits.onnx").read_bytes()
    module, interface = FORMATS["onnx"].load().import_model(model, "digits", {})
    return compile_network(module, interface, load_mix(parse_target("c"), ANY, "onnx"))


def make_exported(
    folder: Path, name: str = "digits", wrong: bool = False, caller_arena: bool = False
) -> Package:
    """Write the network's project into ``folder``; a ``wrong`` sample expects another result."""
    network = replace(compile_digits(), c_prefix=name, name=name, caller_arena=caller_arena)
    write_project(network, Build(load_toolchain("gcc"), ANY), folder)
    model = (DIGITS / "digits.onnx").read_bytes()
    image = np.load(DIGITS / "inputs.npz")["image"]
    given = {network.interface.inputs[0].name: image[:1]}
    (output,) = FORMATS["onnx"].load().run_reference(model, [given]).outputs[0]
    inputs, outputs = make_ports(network.interface)
    sample = {"input_0": image[:1], "output_0": output + 1 if wrong else output}
    return Package(
        title=name,
        name=name,
        version="1.2.0",
        description='Reads digits:\n"0" & <9>',
        platform=ANY,
        networks=(ExportedNetwork(name, tuple(inputs), tuple(outputs), sample),),
        sources=folder / "network",
        workspace=network.plan.arena_bytes if caller_arena else None,
    )


def export(
    name: str,
    folder: Path,
    network: str = "digits",
    wrong: bool = False,
    caller_arena: bool = False,
) -> Path:
    """Write the package for a build system; return its folder."""
    exported = make_exported(folder / "project", network, wrong, caller_arena)
    write_export(name, exported, folder / network)
    return folder / network
