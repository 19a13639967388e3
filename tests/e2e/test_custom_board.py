"""A custom board and a custom toolchain file are built, run and changed; errors are reported."""

from __future__ import annotations

import pytest

from .conftest import ALL_STAGES, ROOT, Repository, copy_of, new_repository
from .test_snapshot import build
from .test_user_errors import fail

RECIPE = "recipe=digits.yaml"
M33 = {
    "architecture: cortex-m4f": "architecture: cortex-m33f",
    "{origin: 0x00000000, size: 4 MiB}": "{origin: 0x08000000, size: 512 KiB}",
    "{origin: 0x20000000, size: 1 MiB}": "{origin: 0x20000000, size: 64 KiB}",
    "cycles: cortex-m4\n": "",
    "stack: 16 KiB": "stack: 4 KiB",
    "emulators: [unicorn, qemu]": "emulators: [unicorn]",
}
"""Replacements that change the Cortex-M4 to a made-up chip with a Cortex-M33."""


def change(repository: Repository, name: str, changes: dict[str, str]) -> None:
    text = (repository.folder / name).read_text(encoding="utf-8")
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    repository.write(name, text)


@pytest.fixture(scope="session")
def board(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository with a custom board, for which digits is built."""
    repository = new_repository(tmp_path_factory.mktemp("board"))
    command = ["new", "board", "acme", "--like", "cortex-m4-bare"]
    done = repository.firmwright(*command)
    assert done.returncode == 0, done.stderr
    assert "wrote boards/acme/startup.c" in done.stdout
    change(repository, "acme.yaml", M33)
    change(repository, "digits.yaml", {"target: c": "platform: acme.yaml"})
    assert repository.build(RECIPE) == ALL_STAGES
    return repository


def test_a_made_up_chip_is_built_and_run(board: Repository) -> None:
    manifest = board.manifest("build/digits/digits-acme.tar.gz")
    assert manifest["platform"] == "acme"
    assert manifest["run"]["emulator"].startswith("unicorn ")
    assert (manifest["run"]["samples"], manifest["run"]["mismatches"]) == (3, 0)
    assert manifest["not_run"] is None
    own = ("acme.yaml", "boards/acme/board.yaml", "boards/acme/fw_hal.c", "boards/acme/startup.c")
    assert {*own, "boards/acme/link.ld.j2"} < {*manifest["inputs"]["files"]}
    project = board.folder / "build/digits/acme/sources/board"
    assert "ORIGIN = 0x08000000, LENGTH = 524288" in (project / "link.ld").read_text()
    for name in ("fw_hal.c", "startup.c"):
        own_file = board.folder / "boards/acme" / name
        assert (project / name).read_bytes() == own_file.read_bytes()


def test_what_of_a_board_changes_is_noticed(
    board: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = copy_of(board, tmp_path_factory.mktemp("changed"))
    copy.build(RECIPE)
    assert [build(copy) for _ in range(2)] == [(True, []), (False, [])]
    hal = (copy.folder / "boards/acme/fw_hal.c").read_text()
    copy.write("boards/acme/fw_hal.c", hal.replace("BAUD_DIVIDER 217u", "BAUD_DIVIDER 218u"))
    ran_again = copy.build(RECIPE)
    assert ran_again[:3] == ["sources", "objects", "firmware"]
    assert "plan" not in ran_again
    change(copy, "acme.yaml", {"size: 512 KiB": "size: 2 KiB"})
    text = fail(copy, RECIPE)
    assert "plan:digits-acme: the network does not fit acme: its weights need " in text
    assert " bytes of flash; 2,048 are available; the largest:" in text


def test_without_an_emulator_there_is_a_bundle(
    board: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = copy_of(board, tmp_path_factory.mktemp("hardware"))
    change(copy, "acme.yaml", {"emulators: [unicorn]": "emulators: []\nuf2_family: 0xe48bff56"})
    assert not {"run", "stats"} & {*copy.build(RECIPE)}
    manifest = copy.manifest("build/digits/digits-acme.tar.gz")
    assert (manifest["run"], manifest["timeline"]) == (None, None)
    assert manifest["not_run"] == "the platform 'acme' lists no emulator"
    assert manifest["memory"]["flash_bytes"] > 4096
    images = {"firmware.elf", "firmware.hex", "firmware.uf2"}
    assert images < {file["path"] for file in manifest["files"]}
    change(copy, "acme.yaml", {"size: 512 KiB": "size: 8 KiB"})
    assert "firmware.elf: the linker failed" in fail(copy, RECIPE)
    text = fail(copy, RECIPE, "emulator=qemu")
    assert (
        "command line: run.emulator: the platform 'acme' does not list the emulator 'qemu'; "
        "it lists: none" in text
    )


def test_a_mistake_in_a_template_of_a_board_has_its_line(
    board: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = copy_of(board, tmp_path_factory.mktemp("mistake"))
    script = (copy.folder / "boards/acme/link.ld.j2").read_text()
    copy.write("boards/acme/link.ld.j2", f"{{% if %}}\n{script}")
    assert "boards/acme/link.ld.j2:1:1: Expected an expression" in fail(copy, RECIPE)
    copy.write("boards/acme/link.ld.j2", "{{ platform.memories.rom.origin }}\n")
    text = fail(copy, RECIPE)
    assert "boards/acme/link.ld.j2: this template cannot be filled in: " in text
    assert "'rom'" in text


def test_a_toolchain_file_serves_by_its_path(copy_of_built: Repository) -> None:
    zig = (ROOT / "toolchains/zig.yaml").read_text(encoding="utf-8")
    copy_of_built.write("mine.yaml", zig.replace("name: zig", "name: mine", 1))
    stages = copy_of_built.build(RECIPE, "toolchain=./mine.yaml")
    assert "model" not in stages and {"sources", "objects", "bundle"} < {*stages}
    recipe = (copy_of_built.folder / "digits.yaml").read_text()
    copy_of_built.write("digits.yaml", f"{recipe}toolchain: mine.yaml\n")
    copy_of_built.build(RECIPE)
    change(copy_of_built, "mine.yaml", {"  - -O2\n": "  - -Os\n"})
    assert "objects" in copy_of_built.build(RECIPE)
    manifest = copy_of_built.manifest("build/digits/digits-rv32-bare.tar.gz")
    assert "mine.yaml" in manifest["inputs"]["files"]


def test_a_toolchain_file_for_another_core_is_refused(repository: Repository) -> None:
    gcc = (ROOT / "toolchains/gcc.yaml").read_text(encoding="utf-8")
    repository.write("mine.yaml", gcc.replace("name: gcc", "name: mine", 1))
    message = "the toolchain 'mine' does not build for 'rv32imc'; known: native"
    text = fail(repository, RECIPE, "toolchain=mine.yaml")
    assert f"command line: toolchain: {message}" in text
    repository.write("r.yaml", "model: digits.onnx\ntoolchain: ./mine.yaml\n")
    assert f"r.yaml:2:12: toolchain: {message}" in fail(repository, "recipe=r.yaml")
    repository.write("mine.yaml", gcc.replace("flags:", "flgs:"))
    assert "flgs: unknown key; did you mean 'flags'?" in fail(repository, "recipe=r.yaml")
