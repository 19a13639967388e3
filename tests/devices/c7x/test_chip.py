"""The transport of the calls on a chip compiles; rpmsg and TI's SDK are not present here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tvm import relax

from firmwright.devices.c7x.loadable import make_loadable_build, write_loadable
from firmwright.project.network import Network
from firmwright.project.write import write_project
from firmwright.toolchain import Build, load_platform, load_toolchain
from firmwright.verify.protocol import encode_samples
from tests.networks.firmware import lowered

from .graphs import network, numbers, samples

SHAPE = (1, 8, 16, 16)
SDK = Path(__file__).parent / "recorded_sdk"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Network]:
    folder = tmp_path_factory.mktemp("chip")
    data = network({SHAPE: (relax.op.add, numbers(1, *SHAPE))})
    made = lowered(data, "relax", target="c7x", platform="am67a")
    platform = load_platform("am67a")
    variables = write_project(made, Build(load_toolchain("zig"), platform), folder)
    build = make_loadable_build(platform)
    assert build is not None
    write_loadable(variables, build, folder)
    return folder, made


@pytest.mark.needs("aarch64-linux-gnu-gcc", "qemu-aarch64", "make")
def test_the_arm_side_builds_and_says_where_there_is_no_c7x(
    project: tuple[Path, Network],
) -> None:
    folder, made = project
    make = ["make", "-s", "-C", str(folder / "c7x/arm"), "CC=aarch64-linux-gnu-gcc -static"]
    subprocess.run(make, check=True)
    given = encode_samples(made.interface.inputs, samples([SHAPE]))
    command = ["qemu-aarch64", str(folder / "c7x/arm/application.elf")]
    ran = subprocess.run(command, input=given, capture_output=True, check=False, timeout=60)
    assert ran.returncode == 1
    message = b"@status 2\n@fault the C7x's side cannot be started or reached\n"
    assert ran.stdout == message


@pytest.mark.needs("gcc")
def test_the_firmwares_side_compiles_with_the_names_of_tis_sdk(
    project: tuple[Path, Network], tmp_path: Path
) -> None:
    folder, _ = project
    firmware = folder / "c7x/firmware"
    macros = ("MEMORY=0xC0000000u", "MEMORY_BYTES=0x20000000u", "LINUX_CORE=0")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", *(f"-DFW_C7X_{m}" for m in macros)]
    include = [f"-I{path}" for path in (SDK, folder / "network")]
    sources = sorted(firmware.glob("*.c"))
    assert [s.name for s in sources] == ["fw_c7x_service.c", "fw_c7x_transport.c"]
    command = ["gcc", *flags, *include, "-c", *map(str, sources)]
    subprocess.run(command, cwd=tmp_path, check=True)
    undefined = subprocess.run(
        ["nm", "-u", *tmp_path.glob("*.o")], capture_output=True, text=True, check=True
    ).stdout
    # The other objects use exactly the names that the module exports.
    assert {w for w in undefined.split() if w.startswith("fw_c7x")} == {
        "fw_c7x_module",
        "fw_c7x_serve",
    }
    exported = (folder / "c7x/link.cmd").read_text()
    assert all(f"--export={name}\n" in exported for name in ("fw_c7x_module", "fw_c7x_serve"))
