"""The recipes of the migration pages are built and run, in one command."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Repository, need_mirrored

PAGES = sorted(path for path in (ROOT / "docs/migration").glob("*.md") if path.stem != "index")
INCLUDED = re.compile(r"^```\{literalinclude\} (\S+)$", re.MULTILINE)


def find_recipe(page: Path) -> Path:
    """Return the recipe that a page shows."""
    first: str = INCLUDED.findall(page.read_text(encoding="utf-8"))[0]
    return (page.parent / first).resolve()


def test_there_is_a_page_for_each_tool() -> None:
    tools = {"edge-impulse", "htvm", "keras", "microtvm", "onnx2c", "sima", "stm32cube-ai"}
    tools |= {"tflm", "ti", "ti-nnc"}
    assert {page.stem for page in PAGES} == tools


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_a_recipe_and_says_how_to_build_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    recipe = find_recipe(page)
    assert recipe.is_file()
    assert re.search(r"^\| .*\|\n\|(---\|){2,}$", text, re.MULTILINE), "no table of calls"
    named = (str(recipe.relative_to(ROOT)), recipe.stem)
    assert any(text.endswith(f"    doit build recipe={name}\n") for name in named)


@pytest.mark.needs("qemu-aarch64")
def test_the_recipes_build_and_run(tmp_path: Path) -> None:
    need_mirrored("kws")
    need_mirrored("resnet8-j721s2")
    repository = Repository(ROOT)
    recipes = [find_recipe(page) for page in PAGES]
    words = ",".join(str(path.relative_to(ROOT)) for path in recipes)
    done = repository.doit("build", f"recipe={words}", f"outdir={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    bundles = {path.parent.name: path for path in tmp_path.glob("*/*.tar.gz")}
    assert bundles.keys() == {recipe.stem for recipe in recipes}
    for bundle in bundles.values():
        assert repository.manifest(str(bundle))["run"]["mismatches"] == 0
    for name in ("microtvm", "ti-nnc"):
        with tarfile.open(bundles[name]) as archive:
            headers = [member for member in archive if member.name.endswith(".h")]
            texts = [file.read() for h in headers if (file := archive.extractfile(h))]
            assert any(header.name.endswith("/tvmgen_default.h") for header in headers)
            assert any(b"int32_t tvmgen_default_run(" in text for text in texts)
    assert repository.manifest(str(bundles["sima"]))["batch"]["actual_batch_size"] == 4
