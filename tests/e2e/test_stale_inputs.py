"""Every file that a build opens is an input: each change of it is detected.

Each case builds, changes one thing outside of the recipe, and builds again. The new bundle equals
the bundle of a clean build, also with the shared cache. A lock stops the build.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.devices.mla.sdk import RECORDED, install_sdk
from tests.quantize.networks import samples
from tests.quantize.test_channel_factors import normalized_first

from .conftest import Repository, new_repository

pytestmark = pytest.mark.fresh

RECIPE = "model: tiny.onnx\nplatform: host\nrun: {samples: 1}\n"


@dataclass
class Trial:
    """A repository with the recipe ``r.yaml``, and the folder of a shared cache next to it."""

    repository: Repository
    cache: Path = field(init=False)

    def __post_init__(self) -> None:
        self.cache = self.repository.folder.parent / "cache"
        self.repository.environment["FIRMWRIGHT_CACHE"] = str(self.cache)

    def write(self, name: str, text: str) -> Path:
        (self.repository.folder / name).parent.mkdir(parents=True, exist_ok=True)
        return self.repository.write(name, text)

    def build(self, outdir: str, cache: str | None = None) -> str:
        """Build and return the digest of the bundle."""
        if cache is not None:
            self.repository.environment["FIRMWRIGHT_CACHE"] = cache
        self.repository.build("recipe=r.yaml", f"outdir={outdir}")
        (bundle,) = (self.repository.folder / outdir).glob("*.tar.gz")
        return hashlib.sha256(bundle.read_bytes()).hexdigest()

    def lock(self) -> Path:
        done = self.repository.doit("lock", "recipe=r.yaml", "outdir=kept")
        assert done.returncode == 0, done.stdout + done.stderr
        return self.repository.folder / "r.lock"

    def build_locked(self) -> str:
        """Return the message of a build that fails."""
        done = self.repository.doit("build", "recipe=r.yaml", "outdir=kept")
        assert done.returncode != 0, done.stdout
        return done.stdout + done.stderr


def prove_noticed(trial: Trial, change: Callable[[], object], named: str) -> None:
    """Assert that all builds after a change make the bundle of a clean build.

    ``named`` is the input that the message of a locked build names.
    """
    trial.build("kept")
    lock = trial.lock()
    before = trial.build("kept")  # the bundle contains the lock
    change()
    message = trial.build_locked()
    assert "the inputs of the build differ from the lock" in message
    assert named in message
    lock.unlink()
    after = trial.build("kept")
    assert trial.build("from_cache") == after
    assert trial.build("clean", cache="") == after
    assert after != before


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    trial = Trial(new_repository(tmp_path / "r"))
    (trial.repository.folder / "tiny.onnx").write_bytes(make_product(8, 4))
    trial.write("r.yaml", RECIPE)
    return trial


def test_scales_per_channel(tmp_path: Path) -> None:
    trial = Trial(new_repository(tmp_path / "r"))
    # Each channel has a different factor: calibration keeps it only with scales per channel.
    model = normalized_first().SerializeToString()
    (trial.repository.folder / "float.onnx").write_bytes(model)
    np.save(trial.repository.folder / "c.npy", np.stack([s["x"] for s in samples(8)]))
    text = (
        "model: float.onnx\nplatform: host\nrun: {samples: 1, tolerance: {absolute: 9}}\n"
        "quantize: {calibration: {inputs: c.npy}, per_channel: true}\n"
    )
    trial.write("r.yaml", text)
    trial.build("kept")
    trial.write("r.yaml", text.replace("true", "false"))
    after = trial.build("kept")
    assert trial.build("from_cache") == after
    assert trial.build("clean", cache="") == after


def test_constants_that_a_package_needs_as_c(tmp_path: Path) -> None:
    trial = Trial(new_repository(tmp_path / "r"))
    large = make_product(2048, 1100)  # more than 8 MiB of constants
    (trial.repository.folder / "big.onnx").write_bytes(large)
    text = "model: big.onnx\nplatform: host\nrun: {samples: 1}\n"
    trial.write("r.yaml", text)
    before = trial.build("kept")
    trial.write("r.yaml", f"{text}export: cmake\n")
    assert trial.build("kept") == trial.build("clean")
    trial.write("r.yaml", text)
    assert trial.build("kept") == before


def make_product(rows: int, columns: int) -> bytes:
    """Return a network that multiplies its input by a constant matrix of floats."""
    weights = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, columns])],
        [numpy_helper.from_array(weights, "w")],
    )
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    data: bytes = model.SerializeToString()
    return data


@pytest.mark.needs("gcc")
def test_linker_that_comes_first_on_path(trial: Trial, tmp_path: Path) -> None:
    trial.write("r.yaml", f"{RECIPE}toolchain: gcc\n")
    programs = tmp_path / "programs"

    def put_first() -> None:
        programs.mkdir()
        linker = programs / "ld"
        linker.write_text(f'#!/bin/sh\nexec {shutil.which("ld")} "$@" --defsym=replaced=1\n')
        linker.chmod(0o755)
        inherited = trial.repository.environment["PATH"]
        trial.repository.environment["PATH"] = f"{programs}{os.pathsep}{inherited}"

    prove_noticed(trial, put_first, "the files that gcc for native opens")


def write_toolchain(trial: Trial, before: str, after: str) -> None:
    """Write a copy of the toolchain gcc with a changed text, and a recipe that uses it."""
    text = (Path(__file__).parents[2] / "toolchains" / "gcc.yaml").read_text()
    assert before in text
    named = text.replace("name: gcc", "name: mine").replace(before, after)
    trial.write("mine.yaml", named)
    trial.write("r.yaml", f"{RECIPE}toolchain: ./mine.yaml\n")


@pytest.mark.needs("gcc")
def test_c_library(trial: Trial, tmp_path: Path) -> None:
    added = f'link_flags: ["-L{tmp_path}", -lextra, "-Wl,-u,extra", '
    write_toolchain(trial, "link_flags: [", added)

    def compile_library(value: int) -> None:
        source = tmp_path / "extra.c"
        source.write_text(f"int extra(void) {{ return {value}; }}\n")
        library = tmp_path / "libextra.a"
        library.unlink(missing_ok=True)
        subprocess.run(["gcc", "-c", source, "-o", tmp_path / "extra.o"], check=True)
        subprocess.run(["ar", "rD", library, tmp_path / "extra.o"], check=True)

    compile_library(1)
    prove_noticed(trial, lambda: compile_library(2), "the files that mine for native opens")


@pytest.mark.needs("gcc")
def test_header_that_comes_first(trial: Trial, tmp_path: Path) -> None:
    write_toolchain(trial, "flags:\n", f'flags:\n  - "-isystem{tmp_path}"\n')

    def put_first() -> None:
        (tmp_path / "stdint.h").write_text(
            '#include_next <stdint.h>\n__asm__(".ident \\"new\\"");\n'
        )

    prove_noticed(trial, put_first, "the files that mine for native opens")


def install(trial: Trial, folder: Path, text: str, version: str = "1.0") -> None:
    """Install the package ``mynets`` in a folder of PYTHONPATH."""
    for old in folder.glob("mynets*"):
        shutil.rmtree(old)
    for name, content in {
        "mynets/__init__.py": text,
        f"mynets-{version}.dist-info/METADATA": f"Name: mynets\nVersion: {version}\n",
    }.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(content)
    others = os.environ.get("PYTHONPATH")
    places = [str(folder), *filter(None, [others])]
    trial.repository.environment["PYTHONPATH"] = os.pathsep.join(places)


NETWORK = """\
from tvm import relax

from firmwright.device import Graph


def network():
    graph = Graph()
    x = graph.input("x", (1, 4), "float32")
    return graph.output(graph.emit(relax.op.multiply(x, relax.const({scale}, "float32")), "y"))
"""
"""The module of a model in an installed package."""


def test_module_that_is_installed(trial: Trial, tmp_path: Path) -> None:
    install(trial, tmp_path / "site", NETWORK.format(scale=2.0))
    trial.write("r.yaml", 'model: {python: "mynets:network"}\nplatform: host\nrun: {samples: 1}\n')
    change = NETWORK.format(scale=3.0)
    prove_noticed(trial, lambda: install(trial, tmp_path / "site", change), "mynets/__init__.py")


def test_package_that_a_module_of_the_recipe_imports(trial: Trial, tmp_path: Path) -> None:
    install(trial, tmp_path / "site", NETWORK.format(scale=2.0))
    trial.write("mine.py", "def network():\n    import mynets\n    return mynets.network()\n")
    trial.write("r.yaml", 'model: {python: "mine:network"}\nplatform: host\nrun: {samples: 1}\n')
    same, new = NETWORK.format(scale=2.0), NETWORK.format(scale=3.0)
    change = lambda: install(trial, tmp_path / "site", new, "2.0")  # noqa: E731
    prove_noticed(trial, change, "mynets is 2.0; the lock has 1.0")
    install(trial, tmp_path / "site", same)
    assert trial.build("kept") == trial.build("other")


DEVICE = """\
from importlib.metadata import version

from firmwright.devices.cpu import CpuTarget


class Device(CpuTarget):
    name = "npu"
    packages = ("mynets",)

    def extend_project(self, project, variables, context):
        (project / "network" / "mynets.h").write_text(f"/* {version('mynets')} */")
"""


def test_package_that_a_device_names(trial: Trial, tmp_path: Path) -> None:
    install(trial, tmp_path / "site", "")
    trial.write("npu.py", DEVICE)
    trial.write("r.yaml", f"{RECIPE}target: npu\ndevices: {{npu: 'npu:Device'}}\n")
    change = lambda: install(trial, tmp_path / "site", "", "2.0")  # noqa: E731
    prove_noticed(trial, change, "mynets is 2.0; the lock has 1.0")


def test_sdk_that_is_upgraded_in_place(trial: Trial, tmp_path: Path) -> None:
    shutil.copytree(RECORDED, tmp_path / "site")
    sdk = install_sdk(tmp_path / "sdk", tmp_path / "site")
    trial.repository.environment["AFE_PYTHON"] = str(sdk)
    trial.write(
        "r.yaml",
        "model: digits.onnx\nplatform: modalix\ncompile_for_device: false\ntarget: mla, c\n"
        "run: {inputs: inputs.npz, samples: 1}\n",
    )
    release = tmp_path / "site" / "afe" / "apis" / "release_v1.py"

    def upgrade() -> None:
        text = release.read_text()
        assert '"2.' in text
        release.write_text(text.replace('"2.', '"3.'))

    prove_noticed(trial, upgrade, "SiMa Model SDK")
