"""Stages read no key, platform field or variable that they do not declare."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest
import yaml
from onnx import TensorProto, helper

from firmwright.recipe.schema import load_schema
from tests.hammer.edits import BASE, FLOAT, LIBRARY, LOOSE, ROOT, EditHammer

RECIPES: Mapping[str, Mapping[str, object]] = {
    "bare metal": {
        **BASE,
        "platform": "./board.yaml",
        "arena": "caller",
        "budget": {"flash": "4 MiB"},
        "c_prefix": "net",
        "cflags": ["-DONE=1"],
        "clock": "50 MHz",
        "compress": True,
        "counter": 3,
        "demo": {"profile": "individual"},
        "description": "A network.",
        "export": "cmake",
        "hooks": True,
        "libraries": [LIBRARY],
        "memory": {"weights": "flash"},
        "name": "named",
        "postprocess": {"classes": "classes.txt"},
        "release": {"version": "1", "supplier": "A", "time": "2026-11-27T12:00:00Z"},
        "selftest": 2,
        "toolchain": "arm-none-eabi-gcc",
    },
    "quantized": {
        **FLOAT,
        "evaluate": {"inputs": "calibration.npy", "samples": 4, "metric": "mine:metric"},
        "run": LOOSE,
    },
    "batch": {
        **BASE,
        "platform": "rv32-bare",
        "batch": 2,
        "extensions": ["mine:extend"],
        "files": ["classes.txt"],
        "transforms": {"extra": ["mine:same"]},
        "run": {"inputs": {"image": {"python": "mine:images"}}, "samples": 2, "emulator": "qemu"},
    },
    "slot": {
        **BASE,
        "platform": "cortex-m4-bare",
        "arena": "caller",
        "slot": {"address": 2097152, "size": "256 KiB"},
    },
    "two devices": {
        "model": {"python": "networks:one_conv"},
        "platform": "diana",
        "target": "soma_dory, c",
        "allow_fallback": True,
        "compare": "c",
        "fuse_layers": False,
        "placement": "cost",
        "require_offload": 1,
        "rounding": "onnx",
    },
    "open dimension": {
        "model": "open.onnx",
        "platform": "rv32-bare",
        "target": "c",
        "dimensions": {"length": 4},
        "outputs": {"y": {"c_name": "result"}},
    },
    "tools of a vendor": {
        **BASE,
        "platform": "j721s2",
        "compile_for_device": False,
        "calibration": {"inputs": "inputs.npz"},
        "target": "tidl, c",
    },
}
ELSEWHERE = {
    "devices": "examples of custom devices are recorded in the full run",
    "extends": "it is gone before a recipe is read",
    "inputs": "the network's inputs are complete",
    "tune": "a search runs many builds",
}
"""Keys that none of these recipes uses, each with the reason."""


FUNCTIONS = """
def extend(extension):
    pass

def metric(outputs, labels):
    return 1.0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    EditHammer(folder)
    place = folder / "0"
    shutil.copyfile(ROOT / "examples" / "diana" / "networks.py", place / "networks.py")
    (place / "classes.txt").write_text("\n".join(map(str, range(10))))
    functions = (
        "def extend(extension):\n    pass\n\n\ndef metric(outputs, labels):\n    return 1.0\n"
    )
    (place / "mine.py").write_text((place / "mine.py").read_text() + functions)
    onnx.save(network_of_any_length(), place / "open.onnx")
    return place


def network_of_any_length() -> onnx.ModelProto:
    inputs, outputs = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["length"]) for name in "xy"
    )
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [inputs], [outputs])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.needs("arm-none-eabi-gcc", "qemu-system-riscv32")
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_stages_declare_what_they_read(recipe: object, folder: Path, tmp_path: Path) -> None:
    (folder / "r.yaml").write_text(yaml.safe_dump(recipe))
    command = [sys.executable, "-m", "tests.hammer.keys", str(folder / "r.yaml"), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "0 undeclared" in done.stdout, done.stdout + done.stderr


def test_recipes_have_every_key() -> None:
    used = {key for recipe in RECIPES.values() for key in recipe} | ELSEWHERE.keys()
    assert set(load_schema()["properties"]) <= used
