"""Built-in and custom platform and toolchain files."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from importlib.resources import files
from pathlib import Path

import pytest

from firmwright.documents.document import load_document
from firmwright.documents.quantities import parse_size
from firmwright.errors import DiagnosticError, UserError
from firmwright.toolchain import (
    Memory,
    descriptions,
    load_platform,
    load_toolchain,
    platform_names,
    to_host_platform,
    toolchain_names,
)
from firmwright.toolchain.descriptions import DescriptionKind
from firmwright.toolchain.platforms import PLATFORMS
from firmwright.toolchain.toolchains import TOOLCHAINS

OWN = [(kind, name) for kind in (PLATFORMS, TOOLCHAINS) for name in kind.names()]

PLATFORM = """\
name: mine
description: A board of the user's own.
architecture: rv32imc
board: qemu-virt-rv32
memories:
  flash: {origin: 0x20000000, size: 64 KiB}
  ram: {origin: 0x10000000, size: 16384}
stack: 2 KiB
toolchains: [zig]
emulators: [unicorn]
"""


def own_file(kind: DescriptionKind, name: str) -> Path:
    return Path(str(files("firmwright.toolchains"))) / kind.folder / f"{name}.yaml"


def test_platforms_and_toolchains_are_there() -> None:
    assert platform_names() == (
        *("aarch64-dotprod-linux", "aarch64-i8mm-linux", "aarch64-linux", "am62a", "am67a"),
        "apollo4p",
        *("avr-atmega2560", "cortex-m0-bare", "cortex-m33-bare", "cortex-m4-bare"),
        *(
            "cortex-m55-bare",
            "cortex-m55-tcm",
            "cortex-m7-bare",
            "cv32e40p-bare",
            "diana",
            "diana-chip",
            "esp32c3",
            "esp32c6",
            "host",
            "j721e",
            "j721s2",
        ),
        *("j784s4", "mlsoc", "modalix", "nrf52840", "nrf54l15", "rp2040", "rp2350", "rv32-bare"),
        *("rv64-linux", "stm32f407", "stm32f411", "stm32h743"),
    )
    assert toolchain_names() == (
        *("arm-none-eabi-gcc", "arm64-gcc", "avr-gcc", "cl7x", "clang", "gcc", "pulp-gcc"),
        *("riscv64-linux-gnu-gcc", "riscv64-unknown-elf-gcc", "zig"),
    )


def test_a_platform_of_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chip_boards").mkdir()
    text = PLATFORM.replace("board: qemu-virt-rv32", "board: ./boards/chip")
    (tmp_path / "chip_boards" / "chip-board.yaml").write_text(text)
    point = EntryPoint("chip", "chip_boards", "firmwright.platforms")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(descriptions, "find_plugins", lambda _: [point])
    assert load_platform("chip-board").board == f"{tmp_path}/chip_boards/boards/chip"
    assert "chip-board" in platform_names()
    with pytest.raises(UserError, match="unknown platform 'chip-bord'; did you mean 'chip-board'"):
        load_platform("chip-bord")
    point = EntryPoint("chip", "no_boards", "firmwright.platforms")
    monkeypatch.setattr(descriptions, "find_plugins", lambda _: [point])
    with pytest.raises(UserError, match=r"package chip adds 'chip' to .*its installation is incom"):
        platform_names()


@pytest.mark.parametrize(("kind", "name"), OWN, ids=lambda value: getattr(value, "noun", value))
def test_own_files_fulfil_their_schema(kind: DescriptionKind, name: str) -> None:
    document = load_document(own_file(kind, name), kind.load_schema())
    assert document.data["name"] == name


@pytest.mark.parametrize(("kind", "name"), OWN, ids=lambda value: getattr(value, "noun", value))
def test_validation_changes_nothing(kind: DescriptionKind, name: str) -> None:
    load = load_platform if kind is PLATFORMS else load_toolchain
    assert load(name) == load(str(own_file(kind, name)))


@pytest.mark.parametrize("kind", [PLATFORMS, TOOLCHAINS], ids=lambda kind: kind.noun)
def test_schemas_describe_every_key(kind: DescriptionKind) -> None:
    def undescribed(schema: object, place: str) -> list[str]:
        if not isinstance(schema, dict):
            return []
        found = []
        for group in ("properties", "$defs"):
            for name, entry in schema.get(group, {}).items():
                found += [] if "description" in entry else [f"{place}/{name}"]
                found += undescribed(entry, f"{place}/{name}")
        return found

    assert undescribed(kind.load_schema(), "") == []


@pytest.mark.parametrize("name", platform_names())
def test_every_toolchain_of_a_platform_knows_its_architecture(name: str) -> None:
    platform = load_platform(name)
    linked = bool(platform.memories and platform.emulators)  # if it is missing, an SDK links it
    for toolchain in platform.toolchains:
        settings = load_toolchain(toolchain).settings_for(platform.architecture)
        assert any("{script}" in flag for flag in settings.link_flags) == linked


def test_every_toolchain_has_the_common_flags() -> None:
    common = {"-std=c99", "-O2", "-g0", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"}
    common |= {"-ffunction-sections", "-fdata-sections"}
    for name in set(toolchain_names()) - {"cl7x", "pulp-gcc"}:
        assert common <= set(load_toolchain(name).flags), name


def test_sizes_are_bytes() -> None:
    platform = load_platform("rv32-bare")
    assert platform.memories["flash"] == Memory(0x80000000, 4 * 1024 * 1024, read_only=True)
    assert platform.memories["ram"] == Memory(origin=0x80400000, size=1024 * 1024)
    assert platform.stack == 16 * 1024
    assert load_platform("host").memories == {}


@pytest.mark.parametrize(
    ("size", "number"), [(7, 7), ("12 B", 12), ("16KiB", 16384), ("3 GiB", 3 * 2**30)]
)
def test_sizes_have_units(size: int | str, number: int) -> None:
    assert parse_size(size) == number


def test_an_unknown_name_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"^unknown platform 'rv32-bar'; did you mean 'rv32-bare'"):
        load_platform("rv32-bar")
    with pytest.raises(UserError, match=r"^unknown toolchain 'iar'; known: arm-none-eabi-gcc, "):
        load_toolchain("iar")


def test_a_users_own_platform_is_found_beside_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(PLATFORM)
    platform = load_platform("mine.yaml", relative_to=tmp_path)
    assert platform.memories["ram"] == Memory(origin=0x10000000, size=16384)
    assert platform.stack == 2048


@pytest.mark.parametrize(
    ("line", "wrong", "place"),
    [
        ("stack: 2 KiB", "stack: 2 kB", "mine.yaml:8:8: stack: "),
        ("stack: 2 KiB\n", "", "mine.yaml:1:1: "),
        ("emulators: [unicorn]", "emulators: [spike]", "mine.yaml:10:13: emulators"),
        ("board: qemu-virt-rv32", "bord: qemu-virt-rv32", "mine.yaml:4:1: bord: "),
    ],
)
def test_a_mistake_in_a_users_platform_has_its_place(
    line: str, wrong: str, place: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(PLATFORM.replace(line, wrong))
    with pytest.raises(DiagnosticError) as caught:
        load_platform("mine.yaml", relative_to=tmp_path)
    assert place in str(caught.value)


def test_an_accelerator_has_its_numbers_and_another_platform_may_emulate_it() -> None:
    numbers = load_platform("diana").accelerators["soma_dory"]
    assert (numbers["l1"], numbers["weights"]) == (256_000, 64_000)
    assert load_platform("host").accelerators["soma_dory"] == numbers
    assert load_platform("rv32-bare").accelerators == {}


def test_a_name_or_an_alias_means_one_platform() -> None:
    every = [name for own in platform_names() for name in (own, *load_platform(own).aliases)]
    assert len(every) == len(set(every))
    assert {"J7", "am68pa", "am68a", "am69a", "AM62A", "J722S"} < set(every)


def test_what_no_page_of_the_vendor_confirms_is_marked() -> None:
    am62a = load_platform("am62a").accelerators["tidl"]
    assert (am62a["silicon"], am62a["l2"], am62a["msmc"]) == (7504, 224 * 1024, 1024 * 1024)
    for name in platform_names():
        facts = load_platform(name).accelerators.get("tidl", {"unverified": []})
        assert set(facts["unverified"]) <= set(facts), name


def test_an_accelerator_of_a_platform_without_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"{PLATFORM}accelerators: {{soma_dory: rv32-bare}}\n")
    with pytest.raises(UserError, match="platform 'rv32-bare' has no soma_dory"):
        load_platform("mine.yaml", relative_to=tmp_path)


def test_a_device_of_your_own_has_any_numbers_and_memories_that_there_are(tmp_path: Path) -> None:
    own = "accelerators: {npu: {kind: third, cache: 2 KiB, lanes: 4, memories: [ram]}}\n"
    (tmp_path / "mine.yaml").write_text(PLATFORM + own)
    numbers = load_platform("mine.yaml", relative_to=tmp_path).accelerators["npu"]
    assert numbers == {"kind": "third", "cache": 2048, "lanes": 4, "memories": ["ram"]}
    (tmp_path / "mine.yaml").write_text(PLATFORM + own.replace("[ram]", "[ram, rom]"))
    with pytest.raises(DiagnosticError) as caught:
        load_platform("mine.yaml", relative_to=tmp_path)
    assert str(caught.value) == (
        "mine.yaml:11:75: accelerators.npu.memories[1]: no memory 'rom' for the data of a device; "
        "did you mean 'ram'?"
    )


@pytest.mark.parametrize("name", ["dsp", "npu"])
def test_a_device_waits_for_others_of_the_platform(tmp_path: Path, name: str) -> None:
    own = f"accelerators: {{dla: {{lanes: 4}}, npu: {{waits_for: [dla, {name}]}}}}\n"
    (tmp_path / "mine.yaml").write_text(PLATFORM + own)
    with pytest.raises(DiagnosticError) as caught:
        load_platform("mine.yaml", relative_to=tmp_path)
    assert str(caught.value).startswith(
        "mine.yaml:11:56: accelerators.npu.waits_for[1]: no other device "
        f"'{name}' for 'npu' to wait for"
    )


def test_a_host_stands_in_with_the_accelerators_of_the_platform() -> None:
    chip, machine = load_platform("j721s2"), load_platform("host")
    stand_in = to_host_platform(chip)
    assert stand_in.name == "j721s2-host"
    assert stand_in.accelerators == chip.accelerators != machine.accelerators
    assert (stand_in.architecture, stand_in.toolchains, stand_in.emulators, stand_in.qemu) == (
        *("native", machine.toolchains, ("native",), None),
    )


def test_a_platform_without_a_host_is_not_built_for_one(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(PLATFORM)
    with pytest.raises(
        UserError, match="compile_for_device: the platform 'mine' has no key `host:`"
    ):
        to_host_platform(load_platform("mine.yaml", relative_to=tmp_path))


def test_an_unknown_architecture_names_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"'gcc' has no settings for architecture 'z80'.*native"):
        load_toolchain("gcc").settings_for("z80")


def test_own_files_are_read_without_heavy_imports() -> None:
    program = (
        "import sys; from firmwright.toolchain import load_platform, load_toolchain;"
        "load_toolchain(load_platform('rv32-bare').toolchains[0]);"
        "heavy = {'jsonschema', 'elftools', 'intelhex', 'numpy', 'tvm', 'jinja2'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert output.strip() == "[]"
