"""The commands in a bundle's README work: for a device that needs a driver, and for a slot."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.e2e.conftest import Repository, new_repository

PROGRAM = """\
#include "network.h"

int main(void)
{
    const network_inputs inputs = {0};
    network_outputs outputs = {0};

    return network_run(&inputs, &outputs) == -1 ? 0 : 1; /* a pointer is missing */
}
"""
SLOT = """\
model: digits.onnx
platform: cortex-m4-bare
arena: caller
slot: {address: 0x200000, size: 64 KiB, version: 1.2.0, workspace: 2 KiB}
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return new_repository(tmp_path_factory.mktemp("readme"))


def unpack(repository: Repository, name: str, text: str) -> Path:
    """Build a recipe, and return the folder of its bundle."""
    repository.write(f"{name}.yaml", text)
    done = repository.doit("build", f"recipe={name}.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (repository.folder / "build" / name).glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(repository.folder / "unpacked", filter="data")
    return repository.folder / "unpacked" / path.name.removesuffix(".tar.gz")


@pytest.mark.needs("aarch64-linux-gnu-gcc")
def test_its_command_links_what_drives_a_device(repository: Repository) -> None:
    bundle = unpack(repository, "c7x", "model: digits.onnx\nplatform: j721s2\ntarget: c7x\n")
    lines = (bundle / "README.md").read_text(encoding="utf-8").splitlines()
    (command,) = (line.split() for line in lines if line.startswith("    cc "))
    assert "src/board/fw_c7x.c" in command
    (bundle / "app.c").write_text(PROGRAM)
    sources = [str(p) for word in command[1:] for p in sorted(bundle.glob(word)) or [Path(word)]]
    subprocess.run(["aarch64-linux-gnu-gcc", *sources], cwd=bundle, check=True)


@pytest.mark.needs("arm-none-eabi-gcc")
def test_it_tells_how_to_open_a_slot(repository: Repository) -> None:
    bundle = unpack(repository, "slot", SLOT)
    text = (bundle / "README.md").read_text(encoding="utf-8")
    code = text.partition("```c\n")[2].partition("```")[0]
    arrays = (
        "static uint8_t arena[NETWORK_SLOT_WORKSPACE_SIZE];\nstatic int8_t image[1], scores[1];"
    )
    names = (
        code.replace("*image", "*found").replace("&image", "&found").replace("image->", "found->")
    )
    head, _, body = names.partition("\n\n")
    program = f"{head}\n{arrays}\nint main(void)\n{{\n{body}return status;\n}}\n"
    (bundle / "app.c").write_text(program)
    includes = ["-Isrc/network", "-Isrc/loader"]
    command = ["arm-none-eabi-gcc", "-std=c99", "-Wall", "-Werror", *includes, "-c", "app.c"]
    subprocess.run(command, cwd=bundle, check=True)
    assert "for the address 0x200000" in text and (bundle / "network.bin").is_file()
