"""After a change in any package of firmwright, an incremental build equals the clean build."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from firmwright.folders import PACKAGE, TOP
from firmwright.pipeline.code_digest import CODE_FOLDERS, code_digest
from tests.package_copy import copy_package

from .conftest import Repository

pytestmark = pytest.mark.fresh

RECIPE = "recipe=tiny.yaml"

CHANGES = {
    "codegen": ("codegen/templates.py", "wrap_comment(text: str, width: int = 80)",
                "wrap_comment(text: str, width: int = 20)"),
    "emulator": ("emulator/unicorn_emulator.py", 'f"unicorn {', 'f"Unicorn {'),
    "ir": ("ir/records.py", "indent=1", "indent=3"),
    "lowering": ("lowering/region.py", '("int8", True): "weights"', '("int8", True): "factors"'),
    "models/relax": ("models/relax/importer.py", "(host, LLVM)", "(this machine, LLVM)"),
    "partition": ("partition/outline.py", 'f"region_{index', 'f"part_{index'),
    "planning": ("planning/arena.py", "ALIGNMENT = 16", "ALIGNMENT = 64"),
    "report": ("report/manifest.py", "record[name] for name in names}\n    return",
               "record[name] for name in reversed(names)}\n    return"),
}  # fmt: skip
"""Changes that affect the network's bundle: a module, a text in it, and its replacement."""

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
    own = {path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")}
    tasks = {path.parent.relative_to(TOP) for path in (TOP / "tasks").rglob("*.py")}
    return sorted(map(str, own | tasks))


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package that the tests may change."""
    return copy_package(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def tiny(copied: Path, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A network of four layers; the copy of the package has built it for an emulated core."""
    repository = Repository(tmp_path_factory.mktemp("tiny"))
    repository.environment["PYTHONPATH"] = str(copied.parent)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.write("network.py", NETWORK)
    repository.write("tiny.yaml", 'model: {python: "network:dense"}\nplatform: rv32-bare\n')
    repository.build(RECIPE)
    return repository


def bundle_of(repository: Repository, folder: str) -> bytes:
    assert repository.doit("build", RECIPE, f"outdir={folder}").returncode == 0
    return (repository.folder / folder / "tiny-rv32-bare.tar.gz").read_bytes()


def test_incremental_build_is_the_clean_build(
    tiny: Repository, copied: Path, tmp_path: Path
) -> None:
    """The changes add up: no build only restores a state, and one clean build has all changes."""
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


def test_changed_code_runs_every_stage_again(tiny: Repository, copied: Path) -> None:
    with changed_package(copied, "models/relax"):
        assert statuses(tiny) == {"R"}


def test_change_in_each_package_changes_the_digest_of_the_code(copied: Path) -> None:
    def digest() -> str:
        code_digest.cache_clear()
        return code_digest((copied,))

    assert CODE_FOLDERS == (PACKAGE, TOP / "tasks")  # the copy has both in one folder
    before = digest()
    for package in packages():
        with changed_package(copied, package):
            assert digest() != before, package
    assert digest() == before


@contextmanager
def changed_package(copied: Path, package: str) -> Iterator[None]:
    """Add a line to the first module of a package."""
    module = min((copied / package).glob("*.py"))
    text = module.read_text(encoding="utf-8")
    module.write_text(text + "\nCHANGED = True\n", encoding="utf-8")
    try:
        yield
    finally:
        module.write_text(text, encoding="utf-8")


def statuses(repository: Repository) -> set[str]:
    """Return whether doit reports the recipe's stages as up to date (U) or would run them (R)."""
    done = repository.doit("list", "--all", "--status", RECIPE)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    others = ("build", "lock", "locked", "reproduce", "search", "tune")
    stages = [words for words in lines if words[1].partition(":")[0] not in others]
    return {words[0] for words in stages if ":tiny" in words[1]}
