"""The loadable of a C7x computes the reference's results: its own C, with weights in assembly.

TI's compiler is closed. These tests call this machine's GCC through TI's command line.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

from firmwright.devices.c7x.loadable import (
    LOADABLE_NAME,
    link_loadable,
    loadable_sources,
    make_loadable_build,
    object_name,
    write_loadable,
)
from firmwright.models.relax.importer import run_reference
from firmwright.project.write import write_project
from firmwright.toolchain import (
    Build,
    compile_project,
    find_compiler,
    load_platform,
    load_toolchain,
)
from tests.networks.firmware import lowered
from tests.toolchain.folders import fake_cgt7x_folder

from .graphs import network, numbers, samples

SHAPE = (1, 56, 56, 64)
SUM = network({SHAPE: (relax.op.add, numbers(1, 64))})
"""The DMA moves the input and the output in blocks, a stream delivers the constant."""


class Pointer(ctypes.Structure):
    """The struct of the network's only input, or of its only output."""

    _fields_ = (("first", ctypes.c_void_p),)


def build_module(platform_name: str, folder: Path) -> ctypes.CDLL:
    """Write the network's project for a chip; build its loadable and load it."""
    platform = load_platform(platform_name)
    made = lowered(SUM, "relax", target="c7x", platform=platform_name)
    project = folder / "sources"
    variables = write_project(made, Build(load_toolchain("zig"), platform), project)
    build = make_loadable_build(platform)
    assert build is not None
    write_loadable(variables, build, project)
    sources = loadable_sources(project, "network")
    assert sources == [
        *("fw_c7x.c", "weights.asm", "../network/fw_mac.c", "../network/fw_mac_plain.c"),
        *("../network/network.c", "../network/network_c7x_module.c"),
        "../network/network_region_000_add.c",
    ]
    compiler = find_compiler(build.toolchain, build.platform.architecture)
    output = folder / "loadable" / LOADABLE_NAME
    in_c7x = (build, compiler, project / "c7x")
    cache, objects_folder = folder / "cache", output.parent
    objects = compile_project(*in_c7x, objects_folder, cache, sources, object_name)
    link_loadable(*in_c7x, objects, (), folder / "cache", output)
    return ctypes.CDLL(str(output))


@pytest.mark.parametrize("platform", ["j721e", "j721s2", "j784s4", "am62a", "am67a"])
def test_it_is_exact_and_is_created_once(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CGT7X_ROOT", str(fake_cgt7x_folder(tmp_path / "ti-cgt-c7000")))
    module = build_module(platform, tmp_path)
    given = samples([SHAPE])
    assert module.network_delete() == -1
    assert [module.network_create(), module.network_create()] == [0, -1]
    for sample, expected in zip(given, run_reference(SUM, given).outputs, strict=True):
        (array,), result = sample.values(), np.zeros(SHAPE, "float32")
        pointers = [ctypes.byref(Pointer(a.ctypes.data)) for a in (array, result)]
        assert module.network_process(*pointers) == 0
        np.testing.assert_array_equal(result, expected[0])
    assert module.network_delete() == 0


def test_it_refuses_a_firmware_that_lends_too_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgt = fake_cgt7x_folder(tmp_path / "ti-cgt-c7000")
    monkeypatch.setenv("CGT7X_ROOT", str(cgt))
    firmware = cgt / "firmware.c"
    firmware.write_text(firmware.read_text().replace("sizeof l2", "1024"))
    assert build_module("am62a", tmp_path).network_create() == -1
