"""Files in the folders of a build that no build wrote."""

from __future__ import annotations

import shutil

import pytest

from .conftest import Repository

pytestmark = pytest.mark.fresh

RECIPE = "recipe=digits.yaml"


def test_foreign_files_among_the_sources_are_neither_packed_nor_removed(
    copy_of_built: Repository, built: Repository
) -> None:
    network = copy_of_built.folder / "build/digits/rv32-bare/sources/network"
    (network / "foreign.c").write_text("int foreign;\n")
    (network / "network.o").write_bytes(b"made by make")
    failed = copy_of_built.doit("build", RECIPE)
    assert failed.returncode == 1
    message = "sources: no build of this version wrote network/foreign.c, network/network.o; move "
    assert message in failed.stderr
    cleaned = copy_of_built.doit("clean", "-a", RECIPE)
    message = "no build wrote build/digits/rv32-bare/sources/network/foreign.c, so it stays\n"
    assert message in cleaned.stdout
    left = [path for path in (copy_of_built.folder / "build/digits").rglob("*") if path.is_file()]
    kept = {"foreign.c": b"int foreign;\n", "network.o": b"made by make"}
    assert {path.name: path.read_bytes() for path in left if path.name != ".firmwright"} == kept

    shutil.rmtree(network.parent)
    copy_of_built.build(RECIPE)
    bundle = "build/digits/digits-rv32-bare.tar.gz"
    assert (copy_of_built.folder / bundle).read_bytes() == (built.folder / bundle).read_bytes()


def test_a_folder_in_the_place_of_an_object_is_made_an_object(copy_of_built: Repository) -> None:
    taken = copy_of_built.folder / "build/digits/rv32-bare/objects/network/network.o"
    taken.unlink()
    taken.mkdir()
    assert copy_of_built.build(RECIPE) == ["objects"]
    assert taken.is_file()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (
            "digits/rv32-bare/plan",
            "no build of this version wrote this; move it elsewhere or remove it",
        ),
        ("digits/rv32-bare", "Not a directory; remove it, and build again"),
    ],
)
def test_a_file_in_the_place_of_a_folder_is_named(
    copy_of_built: Repository, place: str, message: str
) -> None:
    path = copy_of_built.folder / "build" / place
    shutil.rmtree(path)
    path.touch()
    failed = copy_of_built.doit("build", RECIPE)
    assert failed.returncode == 1
    assert failed.stderr.strip().endswith(f"build/{place}: {message}")


def test_the_build_folder_of_another_recipe_is_rejected(copy_of_built: Repository) -> None:
    copy_of_built.write("other.yaml", (copy_of_built.folder / "digits.yaml").read_text())
    bundle = copy_of_built.folder / "build/digits/digits-rv32-bare.tar.gz"
    before = bundle.read_bytes()
    failed = copy_of_built.doit("build", "recipe=other.yaml", "outdir=build/digits")
    assert failed.returncode == 1
    assert "has the results of digits.yaml" in failed.stdout + failed.stderr
    assert bundle.read_bytes() == before
