"""Builds open only files that are declared as inputs; see :mod:`tests.hammer.opened`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmwright.forked import run_in_copy
from firmwright.pipeline.recipe_arguments import is_description
from tests.hammer.networks import make_tflite
from tests.hammer.opened import Trace, list_parts, trace_build
from tests.quantize.networks import residual_network, samples

ROOT = Path(__file__).parents[2]

SAMPLES = """\
import numpy as np

def three():
    return np.zeros((3, 1, 3, 8, 8), np.float32)

def same(module):
    return module
"""
LIBRARY = "#include <pthread.h>\n#include <time.h>\nint doubled(int x) { return 2 * x; }\n"

RECIPES = {
    "bare metal: TFLite, self-test, demo, packages": (
        "model: sum.tflite\nplatform: cortex-m4-bare\ntoolchain: arm-none-eabi-gcc\n"
        "transforms: {extra: [mine:same]}\n"
        "selftest: 2\ndemo: {}\nexport: cmake\nrun: {samples: 1}\n"
    ),
    "host: C of the user's": (
        "model: float.onnx\nplatform: host\ntoolchain: gcc\n"
        "libraries: [{name: extra, sources: [extra.c]}]\n"
        "run: {inputs: inputs.npz, samples: 1}\n"
    ),
    "batch, Python samples, another C library": (
        "model: float.onnx\nplatform: rv32-bare\ntoolchain: riscv64-unknown-elf-gcc\nbatch: 2\n"
        "run: {inputs: {x: {python: mine:three}}, samples: 2, emulator: qemu}\n"
    ),
    "a chip: model of registers, a comparison, quantized by powers of two": (
        "model: float.onnx\nplatform: diana\ntarget: soma_dory, c\ncompare: c\n"
        "quantize: {scheme: pow2, arithmetic: shift, calibration: {inputs: calibration.npy}}\n"
        "run: {inputs: calibration.npy, samples: 1, tolerance: {absolute: 9}}\n"
    ),
    "TIDL: quantized, evaluated, a comparison": (
        "model: float.onnx\nplatform: am62a\ntarget: tidl, c\ncompare: tidl, c7x\n"
        "quantize: {calibration: {inputs: calibration.npy}}\n"
        "evaluate: {inputs: calibration.npy, thresholds: {cosine: 0.5}}\n"
        "run: {inputs: calibration.npy, samples: 1, tolerance: {absolute: 9}}\n"
    ),
    "the MLA: quantized": (
        "model: float.onnx\nplatform: modalix\ntarget: mla, c\n"
        "quantize: {calibration: {inputs: calibration.npy}}\n"
        "run: {inputs: calibration.npy, samples: 1, tolerance: {absolute: 9}}\n"
    ),
}
TRACED = ("examples/arm_dsp_dla/dma.yaml", "examples/extending/compute.yaml")
"""Recipes with Python modules: a network, three devices, and an extension of a device."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "float.onnx").write_bytes(residual_network())
    shape = (4, 3)
    sum_of_two = make_tflite("ADD", [(shape, "float32")] * 2, shape, options="AddOptions")
    (tmp_path / "sum.tflite").write_bytes(sum_of_two)
    drawn = np.stack([s["x"] for s in samples(4)])
    np.save(tmp_path / "calibration.npy", drawn)
    np.savez(tmp_path / "inputs.npz", x=drawn)
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
    for path in files:  # the test would report each of them if it were not declared
        others = [each for each in traced.declared["files"] if each != path]
        undeclared = Trace(frozenset({path}), {**traced.declared, "files": others})
        assert undeclared.list_undeclared() == [path]


@pytest.mark.needs("strace")
@pytest.mark.parametrize("recipe", TRACED)
def test_recipes_open_what_they_declare(recipe: str) -> None:
    assert trace_build(recipe, ROOT).list_undeclared() == []


def test_each_stage_is_traced_with_each_toolchain_and_device(folder: Path) -> None:
    """The traced builds represent all recipes of the repository."""
    traced = [ROOT / name for name in TRACED]
    for number, text in enumerate(RECIPES.values()):
        traced.append(folder / f"{number}.yaml")
        traced[-1].write_text(text)
    found = [path for folder in ("recipes", "examples/*") for path in ROOT.glob(f"{folder}/*.yaml")]
    recipes = [path for path in found if not is_description(path)]
    assert len(recipes) > 30
    assert list_all_parts(recipes) <= list_all_parts(traced)


def list_all_parts(recipes: list[Path]) -> set[tuple[str, str, str]]:
    """Return the parts of recipes; each recipe is loaded in a copy of this process."""
    return set().union(*(run_in_copy(str(path), list_parts, str(path)) for path in recipes))
