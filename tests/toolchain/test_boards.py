"""Built-in and custom boards and families of architectures."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from firmwright.documents.document import load_document
from firmwright.documents.schema_check import read_schema
from firmwright.emulator.unicorn_emulator import find_machines
from firmwright.targets.load_devices import target_names
from firmwright.toolchain import load_toolchain, platform_names, toolchain_names
from firmwright.toolchain.boards import board_names, is_built_elsewhere, load_board
from firmwright.toolchain.families import load_families
from firmwright.toolchain.platform_checks import find_platform_errors
from firmwright.toolchain.platforms import PLATFORMS

SCHEMA = read_schema("toolchains", "board.schema.json")
MODULES = ("c7", "native-")
"""Prefixes of architectures without a platform: other cores, and one kind of host."""


@pytest.mark.parametrize("name", board_names())
def test_a_board_fulfills_the_schema(name: str) -> None:
    path = Path(str(files("firmwright.templates"))) / "boards" / name / "board.yaml"
    assert load_document(path, SCHEMA).data["families"] == [*load_board(name).families]


def test_the_schema_has_every_machine_and_every_family() -> None:
    properties = SCHEMA["properties"]
    assert {*properties["machine"]["enum"]} == {*find_machines(target_names())}
    assert {*load_families()} <= {*properties["families"]["items"]["enum"]}


def test_every_architecture_is_of_one_family() -> None:
    known = {a for name in toolchain_names() for a in load_toolchain(name).architectures}
    families = [a for members in load_families().values() for a in members]
    assert len(families) == len({*families})
    assert {a for a in known if not a.startswith(MODULES)} == {*families}


@pytest.mark.parametrize("name", platform_names())
def test_the_rules_of_a_users_platform_hold_for_ours(name: str) -> None:
    path = Path(str(files("firmwright.toolchains"))) / "platforms" / f"{name}.yaml"
    document = load_document(path, PLATFORMS.load_schema())
    assert list(find_platform_errors(document.data, path.parent)) == []


def test_only_a_board_with_a_makefile_is_built_elsewhere() -> None:
    assert [name for name in board_names() if is_built_elsewhere(name)] == ["diana-chip"]
