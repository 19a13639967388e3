"""Calls around each layer; without ``hooks``, the network's objects contain no trace of them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from firmwright.project.write import write_project
from firmwright.toolchain import Build, load_toolchain
from tests.project.exported import ANY, compile_digits


def compile_all(folder: Path, hooks: bool) -> dict[str, bytes]:
    """Return the objects of the network by name."""
    network = replace(compile_digits(), hooks=hooks)
    write_project(network, Build(load_toolchain("gcc"), ANY), folder)
    sources = [path.name for path in (folder / "network").glob("*.c")]
    subprocess.run(["gcc", "-std=c99", "-O2", "-c", *sources], cwd=folder / "network", check=True)
    return {path.name: path.read_bytes() for path in (folder / "network").glob("*.o")}


@pytest.mark.needs("gcc")
def test_only_the_calls_of_the_layers_have_hooks(tmp_path: Path) -> None:
    plain, hooked = (compile_all(tmp_path / str(hooks), hooks) for hooks in (False, True))
    assert plain.keys() == hooked.keys()
    assert {name for name in plain if plain[name] != hooked[name]} == {"network.o"}
    for hooks, count in ((False, 0), (True, 2)):
        program = tmp_path / str(hooks) / "network" / "network.o"
        symbols = subprocess.check_output(["nm", program], text=True).split()
        assert sum(name in ("network_before", "network_after") for name in symbols) == count
