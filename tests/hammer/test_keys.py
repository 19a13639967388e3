"""Stages read no key, platform field or variable that they do not declare."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from firmwright.forked import run_in_copy
from firmwright.recipe.schema import load_schema
from firmwright.targets.load_devices import load_target, target_names
from firmwright.tasks.pipeline import NETWORKS_PIPELINE, PIPELINE
from tests.docs.test_custom_operators import write_example
from tests.hammer.edits import BASE, DEVICES, FLOAT, LIBRARY, LOOSE, ROOT, EditHammer
from tests.hammer.keys import find_records, list_names
from tests.hammer.opened import list_parts

DETECTION = {
    "picture": [64, 32],
    "layout": "NCHW",
    "heads": [{"stride": 8}],
    "box": {"encoding": "tanh-sigmoid"},
    "objectness": {"channel": 4, "activation": "sigmoid"},
    "class_scores": {"channel": 5, "activation": "sigmoid"},
    "classes": ["cat", "dog"],
    "threshold": 0.4,
    "iou": 0.5,
    "per_class": False,
    "candidates": 40,
}
SCALE = {"function": "scale_int8", "reference": "operators:scale"}
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
        "model": "float.onnx",
        "platform": "host",
        "quantize": {
            "calibration": {
                "inputs": "calibration.npy",
                "method": "percentile",
                "percentile": 99.9,
                "samples": 8,
            },
            "bias_correction": True,
            "block": 8,
            "compensate_rounding": True,
            "equalize": True,
            "io": "float32",
            "keep_float": {"layers": ["stem"]},
            "layers": [{"match": "dense", "weights": "int16"}],
            "per_channel": True,
            "search": {"flash": "1 MiB"},
            "symmetric": True,
            "weights": "int4",
        },
        "compress": True,
        "evaluate": {
            "inputs": "calibration.npy",
            "labels": "labels.npy",
            "samples": 4,
            "metric": "mine:metric",
        },
        "run": LOOSE,
    },
    "detection": {
        **FLOAT,
        "model": "boxes.onnx",
        "postprocess": {"detection": DETECTION},
        "quantize": {
            "activations": "int8",
            "weights": "int8",
            "scheme": "pow2",
            "arithmetic": "shift",
            "calibration": {"inputs": "shots.npy"},
        },
        "evaluate": {
            "inputs": "shots.npy",
            "thresholds": {"boxes": {"mean_average_precision": 0.1}},
        },
        "run": {**LOOSE, "inputs": "shots.npy", "seed": 1},
    },
    "batch": {
        **BASE,
        "platform": "rv32-bare",
        "batch": {"size": 2, "require": True},
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
    "two networks": {"networks": {"one": "one.yaml", "two": "two.yaml"}, "platform": "host"},
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
    "custom devices": {
        "model": {"python": "network:detector"},
        "platform": "./host.yaml",
        **DEVICES,
    },
    "custom operators": {
        "model": {"path": "net.tflite", "custom_operators": {"Scale": SCALE}},
        "platform": "host",
        "target": "c",
        "libraries": [{"name": "scale", "sources": ["scale.c"]}],
        "run": {"samples": 1},
    },
    "a chip": {
        "model": {"python": "networks:one_conv"},
        "platform": "diana-chip",
        "target": "soma_dory, c",
        "run": {"samples": 2},
    },
    "another vendor": {
        **FLOAT,
        "platform": "modalix",
        "target": "mla, c",
        "evaluate": {"inputs": "calibration.npy", "labels": "labels.npy"},
        "run": {**LOOSE, "inputs": "calibration.npy"},
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
        "compare": "c",
        "target": "tidl, c",
    },
}
PARTS = {"one.yaml": {**BASE, "platform": "host"}, "two.yaml": {**FLOAT, "run": LOOSE}}
"""The recipes of "two networks"."""

OF_VENDORS = {"application", "loadable"}
"""Stages that run only if TI's tools are installed."""

ELSEWHERE = {
    "extends": "it is gone before a recipe is read",
    "inputs": "the network's inputs are complete",
    "model": "only the stage `model` reads its keys",
    "run.board": "it needs a board",
    "tune": "a search runs many builds",
}
"""Keys that none of these recipes uses, each with the reason. A block stands for its keys, except
the keys that are declared separately."""


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
    write_example(place)
    (place / "classes.txt").write_text("\n".join(map(str, range(10))))
    (place / "mine.py").write_text((place / "mine.py").read_text() + FUNCTIONS)
    onnx.save(network_of_any_length(), place / "open.onnx")
    onnx.save(detector(), place / "boxes.onnx")
    np.save(place / "shots.npy", np.random.default_rng(0).random((4, 1, 3, 32, 64), "float32"))
    np.save(place / "labels.npy", np.zeros(8, "int64"))
    for name, recipe in PARTS.items():
        (place / name).write_text(yaml.safe_dump(recipe))
    return place


def network_of_any_length() -> onnx.ModelProto:
    inputs, outputs = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["length"]) for name in "xy"
    )
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [inputs], [outputs])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def detector() -> onnx.ModelProto:
    """A convolution whose results are boxes of two classes; a cell is 8 x 8 pixels."""
    weights = np.random.default_rng(2).normal(0, 0.15, (7, 3, 8, 8)).astype("float32")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="head", strides=[8, 8])],
        "boxes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 7, 4, 8])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.needs("arm-none-eabi-gcc", "qemu-system-riscv32")
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_stages_declare_what_they_read(recipe: object, folder: Path, tmp_path: Path) -> None:
    (folder / "r.yaml").write_text(yaml.safe_dump(recipe))
    command = [sys.executable, "-m", "tests.hammer.keys", str(folder / "r.yaml"), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "0 undeclared" in done.stdout, done.stdout + done.stderr


def test_recipes_have_every_key() -> None:
    """Use each key of the schema, and each key of the blocks whose keys are declared separately."""
    declared = {key for stage in (*PIPELINE, *NETWORKS_PIPELINE) for key in stage.keys}
    blocks = {key.rpartition(".")[0] for key in declared if "." in key}
    records = {prefix.removesuffix("."): record for record, prefix in find_records().items()}
    keys = {f"{block}.{name}" for block in blocks for name in list_names(records[block], block)}
    used = {key for recipe in RECIPES.values() for key in list_keys(recipe)}
    listed = {key for key in keys - declared if key.partition(".")[0] in ELSEWHERE}
    assert keys | set(load_schema()["properties"]) <= used | ELSEWHERE.keys() | listed


def test_recipes_run_every_stage(folder: Path) -> None:
    devices = (load_target(name).stages for name in target_names())
    named = {stage.name for stage in (*PIPELINE, *NETWORKS_PIPELINE)}
    named |= {resolve_name(each).name for stages in devices for each in stages}
    run: set[str] = set()
    for recipe in RECIPES.values():
        (folder / "r.yaml").write_text(yaml.safe_dump(recipe))
        run |= run_in_copy("stages", list_stages, str(folder / "r.yaml"))
    assert named - run == OF_VENDORS


def list_stages(recipe: str) -> set[str]:
    return {stage for stage, _, _ in list_parts(recipe)}


def list_keys(data: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    for key, value in data.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from list_keys(value, "" if key == "postprocess" else f"{prefix}{key}.")
