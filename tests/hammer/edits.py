"""After any single edit, the next build makes the bundle of a clean build.

``python -m tests.hammer.edits [--count 200] [--seconds S] [--seed 0] [--first 0]``
"""

from __future__ import annotations

import copy
import hashlib
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from firmwright.project.new_board import write_new_board
from tests.e2e.conftest import start_python
from tests.hammer.campaign import FindingError, run_campaign
from tests.quantize.networks import residual_network, samples

ROOT = Path(__file__).parents[2]

BASE = {"model": "digits.onnx", "run": {"inputs": "inputs.npz", "samples": 1}}
QUANTIZE = {"calibration": {"inputs": "calibration.npy"}}
FLOAT = {"model": "float.onnx", "quantize": QUANTIZE, "platform": "host"}
LOOSE = {"samples": 1, "tolerance": {"absolute": 20}}
PYTHON = {"image": {"python": "mine:images"}}
LIBRARY = {"name": "extra", "sources": ["extra.c"], "includes": ["extra.h"]}
DEVICES = {"devices": {"dla": "dla:DLA", "dsp": "dsp:DSP"}, "target": "dla, dsp, c"}

RECIPES: Sequence[Mapping[str, Any]] = (
    {**BASE, "platform": "./board.yaml", "selftest": 1, "demo": {}},
    {**BASE, "platform": "host", "toolchain": "./tools.yaml", "libraries": [LIBRARY]},
    {**FLOAT, "run": LOOSE, "evaluate": {"inputs": "calibration.npy", "samples": 4}},
    {**BASE, "platform": "rv32-bare", "batch": 2, "hooks": True},
    {"model": "digits.onnx", "platform": "host", "run": {"inputs": PYTHON, "samples": 2}},
    {**BASE, "platform": "diana", "target": "soma_dory, c", "compare": "c"},
    {
        **BASE,
        "platform": "cortex-m4-bare",
        "export": "cmake",
        "transforms": {"extra": ["mine:same"]},
    },
    {"model": {"python": "network:detector"}, "platform": "./host.yaml", **DEVICES},
)
"""Recipes that together use every stage except the stages of vendors' tools."""

VALUES: Mapping[str, Sequence[Any]] = {
    "arena": ["static", "caller", None],
    "batch": [2, 3, None],
    "budget": [{"flash": "4 MiB"}, {"ram": "1 MiB"}, None],
    "c_prefix": ["net", "other", None],
    "cflags": [["-DONE=1"], ["-O1"], None],
    "compare": ["c", None],
    "clock": ["50 MHz", 48000000, None],
    "compress": [True, {"flash": "4 KiB"}, None],
    "counter": [1, 2, None],
    "demo": [{}, {"profile": "individual"}, {"compare": True}, None],
    "description": ["A network.", "Another one.", None],
    "evaluate.samples": [3, 4],
    "export": ["cmake", "zephyr", ["cmake", "platformio"], None],
    "fuse_layers": [True, False],
    "hooks": [True, False],
    "placement": ["order", "cost", None],
    "platform": ["host", "rv32-bare", "cortex-m4-bare", "./board.yaml"],
    "quantize.arithmetic": ["onnx", "shift"],
    "quantize.bias_correction": [True, False],
    "quantize.calibration.method": ["minmax", "percentile"],
    "quantize.calibration.samples": [4, 8],
    "quantize.equalize": [True, False],
    "quantize.io": ["integer", "float32"],
    "quantize.per_channel": [True, False],
    "quantize.symmetric": [True, False],
    "rounding": ["onnx", "tflite", None],
    "run.samples": [1, 2],
    "run.seed": [1, 2],
    "run.tolerance": [{"absolute": 21}, {"absolute": 22}],
    "selftest": [0, 1, 2],
    "toolchain": ["zig", "gcc", "./tools.yaml", None],
}
"""Values of a recipe's keys; None removes a key. Both builds must reject invalid ones alike."""

MODULE = """\
import numpy as np

def images():
    return np.full((4, 1, 1, 8, 8), {number}, np.float32)

def same(module):
    print({number})
    return module
"""
C_SOURCE = '#include "extra.h"\nint extra(void) {{ return EXTRA + {number}; }}\n'
C_HEADER = "#define EXTRA {number}\nint extra(void);\n"


def describe_board(number: int) -> str:
    data = read_description("platforms/cortex-m4-bare")
    stack = f"{8 + number} KiB"
    return yaml.safe_dump({**data, "name": "board", "board": "./boards/mine", "stack": stack})


def describe_tools(number: int) -> str:
    data = read_description("gcc")
    return yaml.safe_dump({**data, "name": "tools", "flags": [*data["flags"], f"-O{number % 4}"]})


def read_description(name: str) -> dict[str, Any]:
    """Return the description of a built-in platform or toolchain."""
    found: dict[str, Any] = yaml.safe_load((ROOT / f"toolchains/{name}.yaml").read_text("utf-8"))
    return found


FILES: Mapping[str, Callable[[int], str]] = {
    "mine.py": lambda number: MODULE.format(number=number),
    "extra.c": lambda number: C_SOURCE.format(number=number),
    "extra.h": lambda number: C_HEADER.format(number=number),
    "board.yaml": describe_board,
    "tools.yaml": describe_tools,
}
"""The user's files, as functions of a number that an edit changes."""

NUMBERED: Mapping[str, str] = {
    "boards/mine/fw_hal.c": "void fw_hal_init(void)",
    "templates/dla/posix/fw_dla.c.j2": "static uint32_t first;",
    "dla_jobs.py": "fw_dla_start(&job);",
}
"""Code of a board and of a device in which an edit puts a number after a text, as a C comment."""

READERS: Mapping[str, str] = {
    "mine.py": "mine:",
    "extra.c": "extra.c",
    "extra.h": "extra.c",
    "board.yaml": "board.yaml",
    "boards/mine/fw_hal.c": "board.yaml",
    "tools.yaml": "tools.yaml",
    "templates/dla/posix/fw_dla.c.j2": "dla:",
    "dla_jobs.py": "dla:",
    "calibration.npy": "calibration.npy",
}
"""The files that an edit changes, each with a text of the recipes that read the file."""

CHAIN = ("base.yaml", "middle.yaml", "r.yaml")
"""The files of a recipe, from the base on."""


class EditHammer:
    """A folder for each recipe, with a build that all edits continue."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.edits: list[str] = []
        self.recipes = [copy.deepcopy({**recipe}) for recipe in RECIPES]
        for number in range(len(RECIPES)):
            self.prepare(folder / str(number))

    def prepare(self, place: Path) -> None:
        place.mkdir(parents=True)
        for name in ("digits.onnx", "inputs.npz"):
            shutil.copyfile(ROOT / "examples" / "digits" / name, place / name)
        shutil.copytree(ROOT / "examples" / "arm_dsp_dla", place, dirs_exist_ok=True)
        write_new_board("mine", "cortex-m4-bare", place)
        (place / "float.onnx").write_bytes(residual_network())
        write_samples(place, 0)
        for name, text in FILES.items():
            (place / name).write_text(text(0))

    def try_edit(self, draw: random.Random) -> str:
        """Edit one recipe or one of its files, build it twice, and compare."""
        number = draw.randrange(len(RECIPES))
        place, recipe = self.folder / str(number), self.recipes[number]
        if not (place / "r.yaml").exists():
            write_chain(place, recipe, draw)
            build(place, "kept", recipe)
        before = copy.deepcopy(recipe)
        files = [name for name, reader in READERS.items() if reader in str(recipe)]
        is_of_file = draw.random() < 0.4 and files
        edit = edit_file(place, files, draw) if is_of_file else edit_key(recipe, draw)
        self.edits.append(edit)
        write_chain(place, recipe, draw)
        kept = build(place, "kept", recipe)
        shutil.rmtree(place / "clean", ignore_errors=True)
        clean = build(place, "clean", recipe)
        if kept != clean:
            raise FindingError(f"recipe {number}, {edit}: {kept} is not {clean}, of {recipe}")
        if not clean:
            recipe.clear()
            recipe.update(before)
            return "rejected alike"
        return "the same"


def write_chain(place: Path, recipe: Mapping[str, Any], draw: random.Random) -> None:
    """Write the recipe as a chain of three files, with each key in a random file of it."""
    parts: list[dict[str, Any]] = [{}, {"extends": "base.yaml"}, {"extends": "middle.yaml"}]
    for key, value in recipe.items():
        draw.choice(parts)[key] = value
    for name, part in zip(CHAIN, parts, strict=True):
        (place / name).write_text(f"# {draw.random()}\n{yaml.safe_dump(part)}")


def edit_key(recipe: dict[str, Any], draw: random.Random) -> str:
    """Set a key of the recipe to another value."""
    names = [name for name in VALUES if name.partition(".")[0] in recipe or "." not in name]
    name = draw.choice(names)
    value = draw.choice(VALUES[name])
    *path, last = name.split(".")
    parent = recipe
    for part in path:
        parent = parent.setdefault(part, {})
    if value is None:
        parent.pop(last, None)
    else:
        parent[last] = value
    return f"{name}: {value}"


def edit_file(place: Path, files: Sequence[str], draw: random.Random) -> str:
    name = draw.choice(files)
    number = draw.randrange(1, 5)
    if name in FILES:
        (place / name).write_text(FILES[name](number))
    elif name in NUMBERED:
        write_number(place / name, NUMBERED[name], number)
    else:
        write_samples(place, number)
    return f"{name} of number {number}"


def write_number(path: Path, after: str, number: int) -> None:
    pattern = rf"({re.escape(after)})( /\* \d \*/)?"
    path.write_text(re.sub(pattern, rf"\1 /* {number} */", path.read_text(), count=1))


def write_samples(place: Path, seed: int) -> None:
    np.save(place / "calibration.npy", np.stack([s["x"] for s in samples(8, seed=seed)]))


def build(place: Path, outdir: str, recipe: Mapping[str, Any]) -> str:
    """Return the digest of the bundle, or '' if the build fails."""
    command = ["firmwright", "build", "r.yaml", f"outdir={outdir}"]
    done = start_python().run(command, place, {**os.environ, "FIRMWRIGHT_CACHE": ""})
    if "Traceback" in done.stderr:
        raise FindingError(done.stderr)
    if done.returncode:
        return ""
    bundle = place / outdir / f"r-{Path(recipe['platform']).stem}.tar.gz"
    return hashlib.sha256(bundle.read_bytes()).hexdigest()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="firmwright-edits-") as folder:
        hammer = EditHammer(Path(folder))
        return run_campaign("tests.hammer.edits", hammer.try_edit, sys.argv[1:], cases=200)


if __name__ == "__main__":
    sys.exit(main())
