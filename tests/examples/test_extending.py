"""The outputs of the extension examples equal TVM's virtual machine, and their C is used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "extending"
RECIPES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build all examples with one command, which fails if a run differs from the reference."""
    folder = tmp_path_factory.mktemp("extending")
    recipes = ",".join(f"examples/extending/{name}.yaml" for name in RECIPES)
    command = [sys.executable, "-m", "doit", "build", f"outdir={folder}", f"recipe={recipes}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def regions(built: Path, recipe: str) -> list[str]:
    """Return the C of a network's regions, in order."""
    paths = (built / recipe).glob("*/sources/network/network_region_*.c")
    return [path.read_text(encoding="utf-8") for path in sorted(paths)]


def manifest(built: Path, recipe: str) -> dict[str, Any]:
    (path,) = (built / recipe).glob("*/bundle/manifest.json")
    return dict(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_value_is_the_reference_s(built: Path, recipe: str) -> None:
    run = manifest(built, recipe)["run"]
    assert (run["samples"], run["differences"]) == (2, 0)


def test_the_rewrite_leaves_no_division(built: Path) -> None:
    (region,) = regions(built, "rewrite")
    assert "* 0.25f" in region
    assert "/ 4.0f" not in region


def test_the_compute_has_indices_without_floats(built: Path) -> None:
    (region,) = regions(built, "compute")
    body = region[region.index("{") :]
    assert "(y >> 1)" in body
    assert "x / 3" in body
    assert "float" not in body


def test_the_dma_moves_the_schedule_s_blocks_of_eight_rows(built: Path) -> None:
    (region,) = regions(built, "schedule")
    counts, blocks = manifest(built, "schedule")["run"]["counts"], 2 * 8 * 24 // 8  # two samples
    assert counts["dma_transfers"] == 3 * blocks
    assert counts["dma_bytes"] == 3 * blocks * 4 * 8 * 40
    assert "FW_VECTOR_LOOP(16)\n" in region


def test_the_special_case_picks_and_the_other_pooling_compares(built: Path) -> None:
    single, other = regions(built, "special_case")
    assert "INFINITY" not in single
    assert "x_fused * 2" in single
    assert "INFINITY" in other


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_library_s_function_is_called_and_part_of_the_bundle(built: Path, version: str) -> None:
    recipe = f"library_{version}"
    (region,) = regions(built, recipe)
    assert "resize_nchw_1x2(&tensor_0, &tensor_1);" in region
    source = f"resize_nchw_1x2_{version}.c"
    described = manifest(built, recipe)
    assert f"src/network/{source}" in [file["path"] for file in described["files"]]
    assert {source, "library.py", "networks.py"} == set(described["inputs"]["files"])
