"""The recipes of the migration pages: built and run, in one command."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from firmwright.data.fetch import find_in_mirror
from tests.e2e.conftest import ROOT, Repository

from .tutorial import MODEL

PAGES = sorted(path for path in (ROOT / "docs/migration").glob("*.md") if path.stem != "index")
INCLUDED = re.compile(r"^```\{literalinclude\} (\S+)$", re.MULTILINE)
RECIPES = [path for path in (ROOT / "docs/migration/recipes").glob("*.yaml")
           if "\nmodel:" in path.read_text(encoding="utf-8")]  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_a_recipe_and_says_how_to_build_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    recipe = (page.parent / INCLUDED.findall(text)[0]).resolve()
    assert recipe.is_file()
    named = (str(recipe.relative_to(ROOT)), recipe.stem)
    assert any(text.endswith(f"    doit build recipe={name}\n") for name in named)


@pytest.mark.slow
@pytest.mark.needs("qemu-aarch64")
def test_the_recipes_build_and_run(tmp_path: Path) -> None:
    if find_in_mirror("", MODEL["sha256"]) is None:
        pytest.skip(f"no folder of FIRMWRIGHT_MIRROR holds the model {MODEL['sha256']}")
    repository = Repository(ROOT)
    words = ",".join(str(path.relative_to(ROOT)) for path in RECIPES)
    done = repository.doit("build", f"recipe={words}", f"outdir={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    bundles = {path.parent.name: path for path in tmp_path.glob("*/*.tar.gz")}
    assert bundles.keys() == {recipe.stem for recipe in RECIPES}
    for bundle in bundles.values():
        assert repository.manifest(str(bundle))["run"]["mismatches"] == 0
    for name in ("microtvm", "ti-nnc"):
        with tarfile.open(bundles[name]) as archive:
            headers = [member for member in archive if member.name.endswith(".h")]
            texts = [file.read() for h in headers if (file := archive.extractfile(h))]
            assert any(header.name.endswith("/tvmgen_default.h") for header in headers)
            assert any(b"int32_t tvmgen_default_run(" in text for text in texts)
    assert repository.manifest(str(bundles["sima"]))["batch"]["actual_batch_size"] == 4
