"""Several networks in one firmware share an arena and constants; each result is compared."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from firmwright.toolchain.flash_images import list_symbols
from tests.e2e.conftest import ROOT, Repository, new_repository
from tests.project.packages import REGISTRY, try_cmsis_pack, try_rust

NETWORKS = "networks: {digits: digits.yaml, sums: sums.yaml}\n"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository with the recipes of two networks, the second in float."""
    repository = new_repository(tmp_path_factory.mktemp("networks"))
    weights = np.random.default_rng(0).normal(size=(600, 4)).astype(np.float32)
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("Exp", ["positive"], ["large"]),
        helper.make_node("MatMul", ["large", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "sums",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 600])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, repository.folder / "sums.onnx")
    repository.write(
        "made.py", "import numpy as np\n\n\ndef x():\n    return np.ones((5, 1, 600), 'f4')\n"
    )
    run = 'run: {samples: 5, inputs: {x: {python: "made:x"}}}'
    repository.write("sums.yaml", f"model: sums.onnx\nplatform: host\n{run}\n")
    return repository


def build(repository: Repository, name: str, text: str) -> tuple[dict[str, Any], Path]:
    """Build a firmware of several networks; return its manifest and the folder of its stages."""
    repository.write(f"{name}.yaml", text)
    done = repository.doit("build", f"recipe={name}.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    (bundle,) = (repository.folder / "build" / name).glob("*.tar.gz")
    with tarfile.open(bundle) as archive:
        member = archive.extractfile(f"{bundle.name.removesuffix('.tar.gz')}/manifest.json")
        assert member is not None
        return json.load(member), bundle


def write_sources(repository: Repository, name: str, text: str) -> Path:
    """Write the C of a firmware of several networks for the host; return its folder."""
    repository.write(f"{name}.yaml", text)
    done = repository.doit(f"sources:{name}-host", f"recipe={name}.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return repository.folder / "build" / name / "host/sources/network"


def read_arenas(repository: Repository, name: str) -> dict[str, int]:
    folder = repository.folder / "build"
    plans = {key: folder / f"{name}-{key}" for key in ("digits", "sums")}
    return {
        key: json.loads(next(place.rglob("plan.json")).read_text())["arena_bytes"]
        for key, place in plans.items()
    }


def test_two_networks_share_an_arena_on_a_board(repository: Repository) -> None:
    manifest, bundle = build(repository, "pair", NETWORKS + "platform: cortex-m4-bare\n")
    assert manifest["run"] == {
        "emulator": "unicorn 2.1.4",
        "turns": 5,
        "networks": {
            "digits": {
                "values": 50, "mismatches": 0, "differences": 0,
                "exact_samples": 5, "max_difference": 0.0,
            },
            "sums": manifest["run"]["networks"]["sums"],
        },
    }  # fmt: skip
    assert manifest["run"]["networks"]["sums"]["mismatches"] == 0
    assert "README.md" in {file["path"] for file in manifest["files"]}
    arenas = read_arenas(repository, "pair")
    elf = bundle.parent / "cortex-m4-bare/firmware/firmware.elf"
    sizes = {symbol.name: symbol.bytes for symbol in list_symbols(elf)}
    assert sizes["arena"] == max(-(-size // 16) * 16 for size in arenas.values())

    assert "objects   <- sources" in repository.firmwright("graph", "pair.yaml").stdout
    printed = repository.firmwright("inspect", str(bundle)).stdout
    assert "pair on cortex-m4-bare" in printed
    assert (
        "networks/pair-digits-cortex-m4-bare.tar.gz, arena 1,328 bytes, 0 of 50 values" in printed
    )
    refused = repository.firmwright("diff", str(bundle), str(bundle))
    assert refused.returncode != 0
    assert "a firmware of several networks; it contains a bundle per network" in refused.stderr

    again = repository.doit("build", "recipe=pair.yaml")
    assert again.returncode == 0
    assert "✓" not in again.stdout


@pytest.mark.needs("gcc")
def test_concurrent_networks_have_arenas_of_their_own(repository: Repository) -> None:
    text = "platform: host\ntoolchain: gcc\nconcurrent: true\n"
    header = (write_sources(repository, "threads", NETWORKS + text) / "threads.h").read_text()
    found = re.search(r"THREADS_WORKSPACE_SIZE (\d+)u", header)
    arenas = read_arenas(repository, "threads")
    assert found
    assert int(found[1]) == sum(-(-size // 16) * 16 for size in arenas.values())


@pytest.mark.needs("gcc")
def test_what_is_equal_is_stored_once(repository: Repository) -> None:
    text = "networks: {left: digits.yaml, right: digits.yaml}\nplatform: host\ntoolchain: gcc\n"
    network = write_sources(repository, "eyes", text)
    assert not re.search(r"^const", (network / "right_weights.c").read_text(), re.MULTILINE)
    helpers = {
        path.name for path in network.glob("*.c") if re.search(r"_[0-9a-f]{8}\.c", path.name)
    }
    assert helpers
    assert all(name.startswith("left_") for name in helpers)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
    sources = [str(path) for path in network.glob("*.c")]
    subprocess.run(["gcc", *strict, "-c", *sources], cwd=network, check=True)
    program = '#include "eyes.h"\nint main() { return EYES_WORKSPACE_SIZE == 0; }\n'
    command = ["g++", "-Wall", "-Werror", f"-I{network}", "-x", "c++", "-", "-fsyntax-only"]
    subprocess.run(command, input=program.encode(), check=True)


SAMPLES = {
    "arduino": "examples/check/check.ino",
    "cmake": "example/main.c",
    "esp-idf": "examples/check/main/main.c",
    "platformio": "examples/check/src/main.c",
    "zephyr": "samples/check/src/main.c",
}
"""The program of each package that contains the same C function as a CMSIS pack."""


@pytest.fixture(scope="module")
def packages(repository: Repository) -> Path:
    """Return the folder with the packages of two networks, for each build system."""
    several = [*SAMPLES, "cmsis-pack", "rust"]
    text = f"platform: host\ntoolchain: gcc\nconcurrent: true\nexport: {several}\n"
    repository.write("packed.yaml", NETWORKS + text)
    done = repository.doit("build", "recipe=packed.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return repository.folder / "build/packed/host/exports"


@pytest.mark.needs("gcc")
def test_packages_have_both_networks(packages: Path, tmp_path: Path) -> None:
    """One package is compiled and run; the others contain the same C files and function."""
    try_cmsis_pack(packages / "cmsis-pack", "packed", tmp_path)
    sources = {path.name for path in (packages / "cmsis-pack/src").iterdir()}
    assert {"packed.h", "digits.h", "sums.c"} < sources
    for kind, program in SAMPLES.items():
        assert {path.name for path in (packages / kind / "src").iterdir()} == sources
        assert "sums_compare_sample(&context.sums)" in (packages / kind / program).read_text()
        readme = (packages / kind / "README.md").read_text()
        assert "`packed_init()`, `digits_run()` and `sums_run()`" in readme


@pytest.mark.needs("cargo", "cc")
def test_a_crate_has_both_networks(packages: Path, tmp_path: Path) -> None:
    if not list(REGISTRY.glob("cc-*")):
        pytest.skip("Debian's package librust-cc-dev is not installed")
    try_rust(packages / "rust", "packed", tmp_path)


def test_the_command_exports_both_networks_together(repository: Repository) -> None:
    repository.write("typed.yaml", NETWORKS + "platform: host\ntoolchain: gcc\n")
    done = repository.firmwright("export", "typed.yaml")
    assert done.returncode == 2
    assert "typed.yaml: the key `export` is missing; add it, or --as NAME\n" in done.stderr
    listed = repository.firmwright("list", "typed.yaml", "--export", "cmake").stdout
    assert re.findall(r"exports:\S+", listed) == ["exports:typed-host"]


TWO = "networks: {%s, %s}\n"
HOST = "platform: host\n"
MISTAKES = {
    "networks: {digits: digits.yaml}\n" + HOST: "1:11: networks: expected a mapping of 2 or more",
    NETWORKS: "platform' is missing",
    NETWORKS + "platform: m5\n": "bad.yaml:2:11: platform: unknown platform 'm5'",
    NETWORKS + HOST + "model: digits.onnx\n": "3:1: model: unknown key",
    NETWORKS + HOST + "concurrent: maybe\n": "3:13: concurrent: expected true or false",
    TWO % ("int: digits.yaml", "b: sums.yaml") + HOST: "1:12: networks.int: a C prefix is an",
    TWO % ("bad: digits.yaml", "b: sums.yaml") + HOST: "'bad' is also the name of the firmware",
    TWO % ("a: digits.yaml", "a: sums.yaml") + HOST: "1:28: networks.a: duplicate key",
    TWO % ("a: digits.yaml", "A: sums.yaml") + HOST: (
        "1:28: networks.A: 'A' and 'a' have equal macros; choose another name"
    ),
    TWO % ("a: digits.yaml", "a_info: sums.yaml") + HOST: (
        "1:36: networks.a_info: 'a_info' and 'a' would both have a file a_info.c; choose another"
    ),
    TWO % ("a: digits.yaml", "a_regions: sums.yaml") + HOST: "would both have a file a_regions.",
    "name: a_info\n" + TWO % ("a: digits.yaml", "b: sums.yaml") + HOST: (
        "2:15: networks.a: 'a' and 'a_info' would both have a file a_info.c; choose another name"
    ),
    NETWORKS + HOST + "export: mlperf-tiny\n": (
        "3:9: export: mlperf-tiny supports one network; state it in the recipe of one network"
    ),
    "name: main\n" + NETWORKS + HOST + "export: [cmake, esp-idf]\n": (
        "4:9: export: esp-idf reserves the name 'main'; choose another `name`"
    ),
    NETWORKS + "platform: cortex-m4-bare\nexport: esp-idf\n": (
        "3:9: export: esp-idf does not build for cortex-m"
    ),
    TWO % ("a: digits.yaml", "b: none.yaml") + HOST: "b: no such file: none.yaml; a relative",
    TWO % ("a: digits.yaml", "b: bad.yaml") + HOST: "bad.yaml is a recipe of several networks",
}
"""Messages, by the text of the recipe."""


@pytest.mark.parametrize(("text", "message"), MISTAKES.items())
def test_mistakes_are_told_at_their_place(repository: Repository, text: str, message: str) -> None:
    repository.write("bad.yaml", text)
    done = repository.doit("build", "recipe=bad.yaml")
    assert done.returncode != 0
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.needs("gcc")
def test_paths_start_at_the_recipe_and_words_hold_for_all(repository: Repository) -> None:
    platform = (ROOT / "toolchains/platforms/host.yaml").read_text()
    repository.write("own.yaml", platform.replace("name: host", "name: own", 1))
    (repository.folder / "below").mkdir()
    text = "networks: {left: ../digits.yaml, right: ../digits.yaml}\nplatform: ../own.yaml\n"
    repository.write("below/eyes.yaml", "name: below\n" + text)
    done = repository.doit("build", "recipe=below/eyes.yaml", "toolchain=gcc", "samples=2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("2 of 2 samples exact") == 4
    assert (repository.folder / "build/below/below-own.tar.gz").is_file()


def test_recipes_of_two_boards_are_refused(repository: Repository) -> None:
    repository.write("desk.yaml", "description: a desk\nssh: {host: desk}\n")
    repository.write("there.yaml", "model: digits.onnx\nplatform: host\nrun: {board: desk.yaml}\n")
    repository.write("bad.yaml", TWO % ("a: digits.yaml", "b: there.yaml") + HOST)
    done = repository.doit("build", "recipe=bad.yaml")
    assert done.returncode != 0
    message = "there.yaml:3:14: run.board: desk.yaml, but nothing in digits.yaml"
    assert message in done.stdout + done.stderr


def test_recipes_that_are_compiled_in_two_ways_are_refused(repository: Repository) -> None:
    repository.write("small.yaml", "model: digits.onnx\nplatform: host\ncflags: [-DSMALL]\n")
    repository.write("bad.yaml", TWO % ("a: digits.yaml", "b: small.yaml") + HOST)
    done = repository.doit("build", "recipe=bad.yaml")
    assert done.returncode != 0
    message = (
        "small.yaml:3:9: cflags: [-DSMALL], but [] in digits.yaml; all networks of one firmware "
    )
    assert message in done.stdout + done.stderr


def test_an_accelerator_is_refused(repository: Repository) -> None:
    recipe = "model: digits.onnx\ntarget: tidl, c\nplatform: am62a\n"
    repository.write("ti.yaml", recipe + "run: {inputs: inputs.npz, samples: 1}\n")
    text = "networks: {ti: ti.yaml, sums: sums.yaml}\nplatform: am62a\n"
    repository.write("bad.yaml", text)
    done = repository.doit("build", "recipe=bad.yaml")
    assert done.returncode != 0
    assert "several instances of a network, which cannot share tidl" in done.stdout + done.stderr
