"""A network in a slot of the flash: another network replaces it under the same firmware."""

from __future__ import annotations

import struct
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from firmwright.bundle.archive import BrokenBundleError
from firmwright.bundle.inspect import inspect_file
from firmwright.emulator import Execution, run_firmware
from firmwright.toolchain import load_platform
from tests.e2e.conftest import Repository, new_repository
from tests.networks.tflite_states import write_svdf_network

STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
PLATFORM = "cortex-m4-bare"
RECIPE = """\
model: {model}.onnx
platform: {platform}
arena: caller
counter: {counter}
slot: {{address: {address}, size: 64 KiB, version: 1.2.{counter}, workspace: 2 KiB}}
run: {{inputs: inputs.npz, samples: 3}}
"""
SAMPLES = 3


@dataclass(frozen=True)
class Built:
    """The folder of a build, its images and the outputs of its run."""

    folder: Path

    @property
    def firmware(self) -> Path:
        return self.folder / "firmware/firmware.elf"

    @property
    def network(self) -> Path:
        return self.folder / "firmware/network.elf"

    @property
    def image(self) -> bytes:
        return self.network.with_suffix(".bin").read_bytes()

    @property
    def outputs(self) -> list[list[int]]:
        """The reference's outputs for the samples."""
        with np.load(self.folder / "run/outputs.npz") as arrays:
            outputs: list[list[int]] = arrays["reference_0"].reshape(SAMPLES, -1).tolist()
            return outputs


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository with three networks: the second has other weights, the third another output
    scale.
    """
    repository = new_repository(tmp_path_factory.mktemp("slot"))

    def write(name: str, changed: str, change: Callable[[NDArray[np.generic]], object]) -> None:
        model = onnx.load(repository.folder / "digits.onnx")
        tensor = next(t for t in model.graph.initializer if t.name == changed)
        array = np.ascontiguousarray(change(onnx.numpy_helper.to_array(tensor)))
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, changed))
        onnx.save(model, repository.folder / f"{name}.onnx")

    write("other", "stem.weight_quantized", lambda weights: weights[:, :, ::-1])
    write("scaled", "scores_scale", lambda scale: np.multiply(scale, np.float32(2)))
    return repository


def build(
    repository: Repository, model: str, counter: int = 4, platform: str = PLATFORM,
    address: int = 0x200000,
) -> Built:  # fmt: skip
    name = f"{model}-{counter}-{platform}"
    filled = RECIPE.format(model=model, platform=platform, counter=counter, address=address)
    repository.write(f"{name}.yaml", filled)
    repository.build(f"recipe={name}.yaml")
    return Built(repository.folder / "build" / name / platform)


@pytest.fixture(scope="module")
def digits(repository: Repository) -> Built:
    return build(repository, "digits")


def execute(
    repository: Repository, firmware: Path, *images: Path, emulator: str = "unicorn",
    platform: str = PLATFORM,
) -> Execution:  # fmt: skip
    """Run a firmware on the samples with these images in its flash."""
    with np.load(repository.folder / "inputs.npz") as arrays:
        given = arrays["image"][:SAMPLES].tobytes()
    console = SAMPLES.to_bytes(4, "little") + given
    arguments = load_platform(platform), emulator, console, "main", 10**8
    return run_firmware((firmware, *images), *arguments)


def read_outputs(ran: Execution) -> list[list[int]]:
    lines = ran.console.decode().splitlines()
    found = [line.split()[3] for line in lines if line.startswith("@output")]
    return [np.frombuffer(bytes.fromhex(each), np.int8).tolist() for each in found]


@pytest.mark.parametrize(
    ("emulator", "platform", "address"),
    [
        ("unicorn", PLATFORM, 0x200000),
        pytest.param("qemu", PLATFORM, 0x200000, marks=pytest.mark.needs("qemu-system-arm")),
        ("unicorn", "rv32-bare", 0x80300000),
    ],
)
def test_networks_are_swapped_under_one_firmware(
    repository: Repository, emulator: str, platform: str, address: int
) -> None:
    first = build(repository, "digits", platform=platform, address=address)
    newer = build(repository, "other", counter=5, platform=platform, address=address)
    assert first.outputs != newer.outputs
    for built in (first, newer):
        words = {"emulator": emulator, "platform": platform}
        ran = execute(repository, first.firmware, built.network, **words)
        assert ran.exit_code == 0, ran.console
        assert read_outputs(ran) == built.outputs


def damage(built: Built, change: Callable[[bytes], bytes], target: Path) -> Path:
    """Write a network's ELF with a changed image of equal size."""
    changed = change(built.image)
    assert len(changed) == len(built.image)
    content = built.network.read_bytes()
    assert content.count(built.image) == 1
    target.write_bytes(content.replace(built.image, changed))
    return target


def flip(place: int) -> Callable[[bytes], bytes]:
    return lambda image: image[:place] + bytes([image[place] ^ 1]) + image[place + 1 :]


def restate(place: int, number: int) -> Callable[[bytes], bytes]:
    """Return a function that changes a number in an image's header, and corrects the checksum."""

    def change(image: bytes) -> bytes:
        content = bytearray(image)
        struct.pack_into("<I", content, place, number)
        struct.pack_into("<I", content, 12, zlib.crc32(content[16:]))
        return bytes(content)

    return change


REFUSED = {
    "magic": (flip(0), "there is no image"),
    "form": (flip(4), "the header of the image has a different format"),
    "length": (flip(8), "its checksum is wrong"),
    "large": (flip(11), "its length does not fit the slot"),
    "header": (flip(24), "its checksum is wrong"),
    "code": (flip(3000), "its checksum is wrong"),
    "last": (flip(8000), "its checksum is wrong"),
    "cut": (lambda image: image[:-64] + b"\xff" * 64, "its checksum is wrong"),
    "elsewhere": (restate(16, 0x210000), "it was linked for another address"),
    "older": (restate(24, 3), "its counter is too low"),
    "empty": (lambda image: b"\xff" * len(image), "there is no image"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_image_is_refused(
    repository: Repository, digits: Built, tmp_path: Path,
    change: Callable[[bytes], bytes], message: str,
) -> None:  # fmt: skip
    image = damage(digits, change, tmp_path / "network.elf")
    ran = execute(repository, digits.firmware, image)
    assert ran.exit_code == 1
    assert ran.console.decode() == f"the network in the slot is refused: {message}\n"


def test_a_higher_counter_is_taken(repository: Repository, digits: Built, tmp_path: Path) -> None:
    """A changed header with a right checksum is not a reason for a rejection."""
    image = damage(digits, restate(24, 5), tmp_path / "network.elf")
    assert read_outputs(execute(repository, digits.firmware, image)) == digits.outputs


def test_a_network_of_another_interface_is_refused(repository: Repository, digits: Built) -> None:
    other = build(repository, "scaled", counter=6)
    ran = execute(repository, digits.firmware, other.network)
    assert ran.exit_code == 1
    assert ran.console.decode().endswith("is refused: it has another interface\n")


def test_inspect_tells_what_an_image_is(repository: Repository, digits: Built) -> None:
    found = inspect_file(digits.network.with_suffix(".bin"))
    assert found.kind == "network"
    assert found.network
    network = found.network
    assert (network.name, network.version) == ("digits-4-cortex-m4-bare", "1.2.4")
    assert (network.counter, network.address, network.checksum_matches) == (4, 0x200000, True)
    bundle = f"build/digits-4-{PLATFORM}/digits-4-{PLATFORM}-{PLATFORM}.tar.gz"
    manifest = repository.manifest(bundle)
    assert manifest["network"]["build_id"] == network.build_id == manifest["build_id"]
    assert "version 1.2.4, counter 4, 1" in repository.firmwright("inspect", bundle).stdout


def test_inspect_tells_a_damaged_image(digits: Built, tmp_path: Path) -> None:
    image = tmp_path / "network.bin"
    for change in (flip(3000), lambda content: content[:-1], lambda content: content[:300]):
        image.write_bytes(change(digits.image))
        network = inspect_file(image).network
        assert network
        assert not network.checksum_matches
    for change in (flip(4), lambda content: content[:100], lambda c: c[:120] + b"\xff" + c[121:]):
        image.write_bytes(change(digits.image))
        with pytest.raises(BrokenBundleError, match=r"network\.bin: a damaged image of a network"):
            inspect_file(image)


@pytest.mark.needs("arm-none-eabi-gcc")
def test_a_library_with_variables_is_refused(repository: Repository) -> None:
    """Newlib's expf keeps an error code in RAM, but the image has no variables."""
    given, made = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in ("x", "y")
    )
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "exp", [given], [made])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(
        helper.make_model(graph, opset_imports=opsets, ir_version=8),
        repository.folder / "exp.onnx",
    )
    slot = "arena: caller\nslot: {address: 0x200000, size: 64 KiB}\n"
    repository.write("exp.yaml", f"model: exp.onnx\nplatform: {PLATFORM}\n{slot}")
    repository.build("recipe=exp.yaml")
    done = repository.doit("build", "recipe=exp.yaml", "toolchain=arm-none-eabi-gcc")
    assert done.returncode != 0
    assert "exp.yaml:4:7: slot: network.elf: the linker failed" in done.stdout + done.stderr
    assert "the network has variables of its own" in done.stdout + done.stderr


@pytest.mark.needs("gcc", "g++")
def test_the_sources_compile_strictly_elsewhere(digits: Built) -> None:
    project = digits.folder / "sources"
    sources = [*project.glob("loader/*.c"), project / "network/network_image.c"]
    flags = ["-std=c99", *STRICT, f"-I{project / 'network'}", "-fsyntax-only"]
    subprocess.run(["gcc", *flags, *map(str, sources)], check=True)
    program = '#include "network_slot.h"\nint main() { return network_slot_open(0, 0, 0) == 0; }\n'
    command = ["g++", *STRICT, *flags[-2:], "-x", "c++", "-"]
    subprocess.run(command, input=program.encode(), check=True)


def test_a_network_with_states_goes_on_from_run_to_run(repository: Repository) -> None:
    (repository.folder / "stream.tflite").write_bytes(write_svdf_network([(8, 1, 10), (3, 1, 1)]))
    slot = "arena: caller\nslot: {address: 0x200000, size: 64 KiB}\n"
    repository.write("stream.yaml", f"model: stream.tflite\nplatform: {PLATFORM}\n{slot}")
    repository.build("recipe=stream.yaml", "samples=20")
    manifest = repository.manifest(f"build/stream/stream-{PLATFORM}.tar.gz")
    assert (manifest["run"]["samples"], manifest["run"]["differences"]) == (20, 0)
    header = repository.folder / f"build/stream/{PLATFORM}/sources/network/network_slot.h"
    assert "int32_t (*reset)(const network_context *context);" in header.read_text()


MISTAKES = {
    "platform: host\nslot: {address: 0x200000, size: 64 KiB}\n": "'host' has no flash",
    "slot: {address: 0x500000, size: 64 KiB}\n": "expected a part of the flash of 'cortex-m4-bare'",
    "slot: {address: 0x3ffff0, size: 64 KiB}\n": "expected a part of the flash of 'cortex-m4-bare'",
    "slot: {address: 0x100, size: 64 KiB}\n": "bad.yaml:3:17: slot.address: the firmware ends",
    "slot: {address: 0x200000, size: 1 KiB}\n": "bad.yaml:3:7: slot: ",
    "slot: {address: 0x200000, size: 64 KiB, workspace: 1 KiB}\n": "`workspace` is 1,024 bytes",
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.items())
def test_what_does_not_fit_the_platform_is_told(
    repository: Repository, text: str, message: str
) -> None:
    start = "model: digits.onnx\narena: caller\n"
    end = "" if "platform" in text else f"platform: {PLATFORM}\n"
    repository.write("bad.yaml", start + text + end)
    done = repository.doit("build", "recipe=bad.yaml")
    assert done.returncode != 0
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_firmware_of_several_networks_refuses_a_slot(
    repository: Repository, digits: Built
) -> None:
    assert digits
    member = f"digits-4-{PLATFORM}.yaml"
    repository.write("two.yaml", f"networks: {{a: {member}, b: {member}}}\nplatform: {PLATFORM}\n")
    done = repository.doit("build", "recipe=two.yaml")
    assert done.returncode != 0
    assert "its network is a separate image" in done.stdout + done.stderr
