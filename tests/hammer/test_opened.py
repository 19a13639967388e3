"""Builds open no file that is not declared as an input; see :mod:`tests.hammer.opened`."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.hammer.opened import Trace, trace_build
from tests.quantize.networks import residual_network, samples

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"

SAMPLES = """\
import numpy as np

def three():
    return np.zeros((3, 1, 1, 8, 8), np.float32)
"""
LIBRARY = "#include <pthread.h>\n#include <time.h>\nint doubled(int x) { return 2 * x; }\n"

RECIPES = {
    "bare metal: self-test, demo, packages": (
        "model: digits.onnx\nplatform: cortex-m4-bare\ntoolchain: arm-none-eabi-gcc\n"
        "selftest: 2\ndemo: {}\nexport: cmake\nrun: {inputs: inputs.npz, samples: 1}\n"
    ),
    "host: quantized, evaluated, C and Python of the user's": (
        "model: float.onnx\nplatform: host\ntoolchain: gcc\n"
        "quantize: {calibration: {inputs: calibration.npy}}\n"
        "evaluate: {inputs: calibration.npy, thresholds: {cosine: 0.5}}\n"
        "libraries: [{name: extra, sources: [extra.c]}]\n"
        "run: {samples: 1, tolerance: {absolute: 9}}\n"
    ),
    "batch, Python samples, another C library": (
        "model: digits.onnx\nplatform: rv32-bare\ntoolchain: riscv64-unknown-elf-gcc\nbatch: 2\n"
        'run: {inputs: {image: {python: "mine:three"}}, samples: 2, emulator: qemu}\n'
    ),
    "a chip and its model of registers, a comparison": (
        "model: digits.onnx\nplatform: diana\ntarget: soma_dory, c\ncompare: c\n"
        "run: {inputs: inputs.npz, samples: 1}\n"
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("digits.onnx", "inputs.npz"):
        shutil.copyfile(EXAMPLE / name, tmp_path / name)
    (tmp_path / "float.onnx").write_bytes(residual_network())
    np.save(tmp_path / "calibration.npy", np.stack([s["x"] for s in samples(4)]))
    (tmp_path / "mine.py").write_text(SAMPLES)
    (tmp_path / "extra.c").write_text(LIBRARY)
    return tmp_path


@pytest.mark.needs("strace", "gcc", "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc")
@pytest.mark.parametrize("text", RECIPES.values(), ids=RECIPES)
def test_builds_open_what_they_declare(text: str, folder: Path) -> None:
    (folder / "r.yaml").write_text(text)
    traced = trace_build("r.yaml", folder)
    assert traced.list_undeclared() == []
    judged = (f"{folder}/", "/usr/include/", "/usr/lib/gcc/", "/usr/lib/arm-none-eabi/")
    files = [path for path in traced.opened if path.startswith(judged) and ".so" not in path]
    assert files
    for path in files:  # each of them is missed if it is not declared
        others = [each for each in traced.declared["files"] if each != path]
        undeclared = Trace(frozenset({path}), {**traced.declared, "files": others})
        assert undeclared.list_undeclared() == [path]
