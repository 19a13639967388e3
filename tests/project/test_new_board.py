"""A custom board that begins as a copy of a built-in board."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firmwright.codegen.templates import make_environment
from firmwright.errors import UserError
from firmwright.project.board import write_board
from firmwright.project.new_board import describe_emulation, flatten_template, write_new_board
from firmwright.toolchain import load_platform, platform_names
from firmwright.toolchain.boards import list_board_files, load_board


@pytest.mark.parametrize("like", platform_names())
def test_a_copy_of_every_platform_is_like_it(tmp_path: Path, like: str) -> None:
    written = write_new_board("acme", like, tmp_path)
    assert all(path.is_file() for path in written)
    own, ready = load_platform("acme.yaml", tmp_path), load_platform(like)
    assert (own.name, own.board) == ("acme", str(tmp_path / "boards/acme"))
    assert (own.architecture, own.features) == (ready.architecture, ready.features)
    assert (own.memories, own.stack, own.code) == (ready.memories, ready.stack, ready.code)
    assert (own.toolchains, own.emulators, own.qemu) == (
        *(ready.toolchains, ready.emulators, ready.qemu),
    )
    assert own.aliases == ()
    assert (load_board(own.board).families, load_board(own.board).machine) == (
        *(load_board(ready.board).families, load_board(ready.board).machine),
    )
    assert load_board(own.board).vectors == load_board(ready.board).vectors
    assert own.uf2_family == ready.uf2_family


@pytest.mark.parametrize("like", [n for n in platform_names() if load_platform(n).is_bare_metal])
def test_the_files_of_a_copy_are_the_files_of_the_built_in_board(tmp_path: Path, like: str) -> None:
    """They differ in comments. Therefore an emulator that runs the board also runs its copy."""
    write_new_board("acme", like, tmp_path)
    made = []
    memories = dict.fromkeys(("constant_memories", "copied_memories", "arena_memories"), ())
    for platform in (load_platform("acme.yaml", tmp_path), load_platform(like)):
        folder = tmp_path / f"rendered-{platform.name}"
        variables = {"platform": platform, "stack_bytes": platform.stack, **memories}
        write_board(make_environment(), platform.board, variables, folder)
        made.append({file.name: strip_comments(file.read_text()) for file in folder.iterdir()})
    assert made[0]
    assert made[0] == made[1]


def strip_comments(code: str) -> str:
    return "".join(re.sub(r"/\*.*?\*/", "", code, flags=re.S).split())


def test_the_files_stand_for_themselves_and_say_what_to_change(tmp_path: Path) -> None:
    for like in ("cortex-m4-bare", "cortex-m55-bare", "rv32-bare", "diana"):
        write_new_board(f"own-{like}", like, tmp_path)
        folder = tmp_path / "boards" / f"own-{like}"
        for file in folder.iterdir():
            text = file.read_text()
            assert not re.search(r"{% (extends|include|block)|{#", text), file
            assert file.suffix == ".j2" or not re.search("{[{%]", text), file
        for name in ("fw_hal.c", "link.ld.j2"):
            assert "Change: " in (folder / name).read_text()
        ready = {
            file.name.removesuffix(".j2") for file in list_board_files(load_platform(like).board)
        }
        assert {file.name.removesuffix(".j2") for file in folder.iterdir()} == {
            "board.yaml",
            *ready,
        }


def test_blocks_of_the_extending_template_win() -> None:
    text = flatten_template("boards/mps3-an547/fw_hal.c.j2")
    assert "0x59303000u" in text and "0x40004000u" not in text
    assert "AN547" in text and "AN386" not in text
    assert "fw_hal_exit" in text
    assert "ENTRY(Reset_Handler)" in flatten_template("boards/mps3-an547/link.ld.j2")


@pytest.mark.parametrize(
    ("like", "sentence"),
    [
        (
            "cortex-m33-bare",
            "QEMU runs it only .*; a copy of nrf54l15 or rp2350 runs at any address",
        ),
        ("cortex-m55-bare", r"QEMU runs it only at the addresses of its machine\.$"),
        ("avr-atmega2560", r"^No emulator runs avr-atmega2560\.$"),
        ("rp2040", "^unicorn runs it at any address"),
    ],
)
def test_the_file_names_the_emulator_that_can_run_the_copy(like: str, sentence: str) -> None:
    assert re.search(sentence, describe_emulation(load_platform(like)))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    for path in ("acme.yaml", "boards/acme/fw_hal.c"):
        folder = tmp_path / path.partition("/")[0]
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text("mine")
        with pytest.raises(UserError, match=r"acme(\.yaml)? already exists; remove it, "):
            write_new_board("acme", "rv32-bare", folder)
        assert [p.read_text() for p in folder.rglob("*") if p.is_file()] == ["mine"]
        assert write_new_board("acme", "rv32-bare", folder, force=True)
        assert (folder / path).read_text() != "mine"


@pytest.mark.parametrize(
    ("name", "like", "message"),
    [
        ("a b", "rv32-bare", "^'a b' is not a name for a board; use letters"),
        ("../acme", "rv32-bare", "is not a name for a board"),
        ("host", "rv32-bare", "^a platform 'host' comes with firmwright; choose another name$"),
        ("acme", "rv32-bar", "^--like: unknown platform 'rv32-bar'; did you mean 'rv32-bare'"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, name: str, like: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        write_new_board(name, like, tmp_path)
    assert not [*tmp_path.iterdir()]
