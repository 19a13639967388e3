"""A change in any package of firmwright's code: an incremental build is the clean build."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, Repository

pytestmark = [pytest.mark.fresh, pytest.mark.needs("gcc")]

SOURCE = ROOT / "src" / "firmwright"
DATA = frozenset({"recipes", "templates", "toolchains"})
"""Packages without code: their files are inputs of the stages that read them."""
RECIPE = "recipe=tiny.yaml"

CHANGES = {
    "codegen": ("codegen/templates.py", "wrap_comment(text: str, width: int = 80)",
                "wrap_comment(text: str, width: int = 20)"),
    "emulator": ("emulator/native.py", 'f"native {', 'f"directly on {'),
    "ir": ("ir/records.py", "indent=1", "indent=3"),
    "lowering": ("lowering/region.py", '("int8", True): "weights"', '("int8", True): "factors"'),
    "models/relax": ("models/relax/importer.py", "(host, LLVM)", "(this machine, LLVM)"),
    "partition": ("partition/outline.py", 'f"region_{index', 'f"part_{index'),
    "planning": ("planning/arena.py", "ALIGNMENT = 16", "ALIGNMENT = 64"),
    "report": ("report/manifest.py", "MANIFEST_VERSION = 1", "MANIFEST_VERSION = 100"),
}  # fmt: skip
"""Changes that the bundle of the network below shows: a module, its text, another one."""

NETWORK = """
import numpy as np
from firmwright.device import Graph


def dense() -> Graph:
    graph = Graph()
    x = graph.input("x", (1, 8))
    for name in ("first", "second", "third", "fourth"):
        x = graph.dense(x, name, np.eye(8, dtype="int8"), np.ones(8, "int32"), shift_bits=0)
    return graph.output(x)
"""


def packages() -> list[str]:
    """Return the folders of code below ``firmwright``, by their paths."""
    folders = {p.parent.relative_to(SOURCE) for p in SOURCE.rglob("*.py")}
    folders |= {Path(p.name) for p in SOURCE.iterdir() if p.is_symlink()}
    return sorted(str(p) for p in folders if p.parts[:1] not in {(name,) for name in DATA})


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, to be changed."""
    copy = tmp_path_factory.mktemp("site") / "firmwright"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="module")
def tiny(copied: Path, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A network of four layers, built for this machine by the copy."""
    repository = Repository(tmp_path_factory.mktemp("tiny"))
    repository.environment["PYTHONPATH"] = str(copied.parent)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.write("network.py", NETWORK)
    repository.write(
        "tiny.yaml", 'model: {python: "network:dense"}\nplatform: host\ntoolchain: gcc\n'
    )
    repository.build(RECIPE)
    return repository


def bundle_of(repository: Repository, folder: str) -> bytes:
    assert repository.doit("build", RECIPE, f"outdir={folder}").returncode == 0
    return (repository.folder / folder / "tiny-host.tar.gz").read_bytes()


def test_incremental_build_is_the_clean_build(
    tiny: Repository, copied: Path, tmp_path: Path
) -> None:
    """The changes add up: no build is only there to go back, and one clean build has them all."""
    texts = {name: (copied / name).read_text("utf-8") for name, _, _ in CHANGES.values()}
    built = bundle_of(tiny, "incremental")
    try:
        for package, (name, old, new) in CHANGES.items():
            assert old in texts[name]
            (copied / name).write_text(texts[name].replace(old, new), "utf-8")
            before, built = built, bundle_of(tiny, "incremental")
            assert built != before, package
        assert built == bundle_of(tiny, str(tmp_path))
    finally:
        for name, text in texts.items():
            (copied / name).write_text(text, "utf-8")


def test_unchanged_code_runs_nothing(tiny: Repository) -> None:
    assert statuses(tiny) == {"U"}


@pytest.mark.parametrize("package", packages())
def test_change_in_a_package_runs_every_stage_again(
    tiny: Repository, copied: Path, package: str
) -> None:
    module = next(iter(sorted((copied / package).glob("*.py"))))
    text = module.read_text(encoding="utf-8")
    module.write_text(text + "\nCHANGED = True\n", encoding="utf-8")
    try:
        assert statuses(tiny) == {"R"}
    finally:
        module.write_text(text, encoding="utf-8")


def statuses(repository: Repository) -> set[str]:
    """Return whether doit holds the recipe's stages for up to date (U) or would run them (R)."""
    done = repository.run(sys.executable, "-m", "doit", "list", "--all", "--status", RECIPE)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    others = ("build", "lock", "locked", "reproduce", "tune")
    stages = [words for words in lines if words[1].partition(":")[0] not in others]
    return {words[0] for words in stages if ":tiny" in words[1]}
