"""Packages for build systems that are not available here: their contents and their checks."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from kconfiglib import BOOL, Kconfig

from tests.project.exported import export
from tests.project.packages import (
    REGISTRY,
    try_arduino,
    try_cmsis_pack,
    try_esp_idf,
    try_platformio,
    try_rust,
    try_zephyr,
    write_sketch,
)
from tests.project.test_portable_c import run_on_avr


@pytest.mark.needs("cargo", "cc")
@pytest.mark.parametrize("caller_arena", [False, True])
def test_cargo_builds_and_runs_the_crate(tmp_path: Path, caller_arena: bool) -> None:
    if not list(REGISTRY.glob("cc-*")):
        pytest.skip("Debian's package librust-cc-dev is not installed")
    package = export("rust", tmp_path, caller_arena=caller_arena)
    try_rust(package, "digits", tmp_path)


@pytest.mark.needs("cmake", "gcc")
def test_zephyr_gets_a_module_and_its_sample_is_right(tmp_path: Path) -> None:
    package = export("zephyr", tmp_path)
    module = yaml.safe_load((package / "zephyr" / "module.yml").read_text())
    assert module["name"] == "digits"
    assert (package / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    options = Kconfig(str(package / module["build"]["kconfig"]), warn_to_stderr=False)
    assert (options.syms["FIRMWRIGHT_DIGITS"].type, options.warnings) == (BOOL, [])
    text = (package / module["build"]["kconfig"]).read_text()
    sources = [source.read_text() for source in (package / "src").glob("*.c")]
    uses_floats = any(re.search(r"\bfloat\b", source) for source in sources)
    assert ("imply FPU if CPU_HAS_FPU" in text) == uses_floats
    calls_math = any("#include <math.h>" in source for source in sources)
    assert ("select REQUIRES_FULL_LIBC" in text) == calls_math
    options.load_config(str(package / "samples/check/prj.conf"))
    assert options.syms["FIRMWRIGHT_DIGITS"].str_value == "y"
    try_zephyr(package, "digits", tmp_path)


@pytest.mark.needs("cmake", "gcc")
def test_esp_idf_gets_a_component_and_its_example_is_right(tmp_path: Path) -> None:
    package = export("esp-idf", tmp_path)
    assert yaml.safe_load((package / "idf_component.yml").read_text())["version"] == "1.2.0"
    named = yaml.safe_load((package / "examples/check/main/idf_component.yml").read_text())
    path = named["dependencies"]["digits"]["path"]
    assert (package / "examples/check/main" / path).resolve() == package
    renamed = package.rename(tmp_path / "esp-idf")  # as in a bundle
    try_esp_idf(renamed, "digits", tmp_path)


@pytest.mark.needs("avr-gcc", "simavr")
def test_the_arduino_sketch_is_right_on_avr(tmp_path: Path) -> None:
    package = export("arduino", tmp_path)
    lines = (package / "library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    assert (properties["name"], properties["version"]) == ("digits", "1.2.0")
    assert (package / "src" / properties["includes"]).is_file()
    check_arduino_lint(properties)
    sources = [*sorted((package / "src").glob("*.c")), write_sketch(package, tmp_path)]
    assert "digits: right" in run_on_avr(sources, tmp_path, f"-I{package}/src")


def check_arduino_lint(properties: dict[str, str]) -> None:
    """Check the rules of arduino-lint's schema of library.properties, of its level "strict"."""
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_. -]{0,62}", properties["name"])
    assert not properties["name"].lower().startswith("arduino")
    for key in ("author", "maintainer", "sentence", "paragraph", "architectures", "includes"):
        assert properties[key], key
    assert properties["category"] == "Data Processing"
    assert urlsplit(properties["url"]).scheme
    known = "name version author maintainer sentence paragraph category url architectures includes"
    assert {*properties} <= {*known.split()}


@pytest.mark.needs("arm-none-eabi-gcc", "arm-none-eabi-g++", "qemu-system-arm")
def test_the_arduino_sketch_is_right_on_arm(tmp_path: Path) -> None:
    try_arduino(export("arduino", tmp_path), "digits", tmp_path)


@pytest.mark.needs("gcc")
def test_platformio_is_told_what_compiles_and_runs(tmp_path: Path) -> None:
    package = export("platformio", tmp_path)
    described = json.loads((package / "library.json").read_text())
    assert described["description"] == 'Reads digits: "0" & <9>'
    (example,) = described["examples"]
    base = package / example["base"]
    assert all((base / file).is_file() for file in example["files"])
    try_platformio(package, "digits", tmp_path)


@pytest.mark.needs("gcc")
def test_the_cmsis_pack_lists_what_it_holds(tmp_path: Path) -> None:
    package = export("cmsis-pack", tmp_path)
    root = ET.parse(package / "firmwright.digits.pdsc").getroot()
    assert (root.findtext("vendor"), root.findtext("name")) == ("firmwright", "digits")
    assert root.findtext("description") == 'Reads digits: "0" & <9>'
    listed = {file.get("name", "") for file in root.iter("file")}
    assert {"src/", "src/digits.h", "src/digits_weights.c", "example/main.c"} <= listed
    try_cmsis_pack(package, "digits", tmp_path)
    with zipfile.ZipFile(package / "firmwright.digits.1.2.0.pack") as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    files = {path.relative_to(package).as_posix(): path for path in package.rglob("*.*")}
    assert packed == {n: p.read_bytes() for n, p in files.items() if not n.endswith(".pack")}
    layer = yaml.safe_load((package / "digits.clayer.yml").read_text())["layer"]
    assert layer["packs"] == [{"pack": "firmwright::digits@1.2.0", "path": "."}]
