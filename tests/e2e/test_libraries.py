"""A user's libraries and extensions, from the recipe to the firmware: errors and rebuilds."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from .conftest import ROOT, Repository

EXAMPLE = ROOT / "examples" / "extending"
RECIPE = """\
model: {python: "networks:widened"}
platform: host
target: c7x
extensions: ["library:add"]
libraries:
  - {name: resize, LIBRARY}
"""
SOURCES = "sources: [resize_nchw_1x2_v1.c, weigh.c]"
HELPER = "float weigh(float a, float b);\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository that each test changes; its network is compiled once per platform."""
    folder = tmp_path_factory.mktemp("libraries")
    for path in (*EXAMPLE.glob("*.py"), *EXAMPLE.glob("*.c")):
        shutil.copyfile(path, folder / path.name)
    repository = Repository(folder)
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.write("weigh.c", f"{HELPER}float weigh(float a, float b) {{ return a * b; }}\n")
    return repository


def recipe(repository: Repository, library: str = SOURCES) -> None:
    repository.write("net.yaml", RECIPE.replace("LIBRARY", library))


def mistake(repository: Repository) -> str:
    failed = repository.doit("build", "recipe=net.yaml")
    output = failed.stdout + failed.stderr
    assert failed.returncode != 0, output
    assert "Traceback" not in output
    return output


def archive(repository: Repository, name: str, *flags: str) -> None:
    """Compile the first version of the library with the headers of an earlier build."""
    include = repository.folder / "build" / "net" / "host" / "sources/network"
    source = "resize_nchw_1x2_v1.c"
    compiled = ["cc", *flags, "-O2", "-ffp-contract=off", "-fno-sanitize=undefined", "-c"]
    for command in ([*compiled, f"-I{include}", source, "-o", "v1.o"], ["ar", "rcs", name, "v1.o"]):
        zig = [sys.executable, "-m", "ziglang", *command]
        subprocess.run(zig, cwd=repository.folder, check=True)


def test_a_changed_source_is_compiled_and_linked_again(shared: Repository) -> None:
    recipe(shared)
    assert "kernels" in shared.build("recipe=net.yaml")
    inputs = shared.manifest("build/net/net-host.tar.gz")["inputs"]["files"]
    assert {"library.py", "resize_nchw_1x2_v1.c", "weigh.c"} < set(inputs)
    assert shared.build("recipe=net.yaml") == []
    with (shared.folder / "weigh.c").open("a") as stream:
        stream.write("/* no other machine code */\n")
    # The build id of the firmware depends on the text of a source.
    again = ["sources", "objects", "firmware", "run", "bundle"]
    assert shared.build("recipe=net.yaml") == again


def test_a_changed_extension_lowers_the_network_again(shared: Repository) -> None:
    recipe(shared)
    shared.build("recipe=net.yaml")
    path = shared.folder / "library.py"
    path.write_text(path.read_text() + "# no other strategy\n")
    assert shared.build("recipe=net.yaml") == ["kernels", "bundle"]


def test_a_source_that_needs_what_nothing_defines(shared: Repository) -> None:
    recipe(shared)
    before = (shared.folder / "resize_nchw_1x2_v1.c").read_text()
    wrong = before.replace("static float at", "float wiegh(float a, float b);\n\nstatic float at")
    wrong = wrong.replace("at(from, columns, left) * (1.0f - share)", "wiegh(from[0], share)")
    shared.write("resize_nchw_1x2_v1.c", wrong)
    output = mistake(shared)
    shared.write("resize_nchw_1x2_v1.c", before)
    assert (
        "net.yaml:6:5: libraries[0]: resize_nchw_1x2_v1.o needs 'wiegh', which no file defines; "
        "did you mean 'weigh'?"
    ) in output


def test_a_source_that_the_compiler_refuses(shared: Repository) -> None:
    shared.write("weigh-gain.c", '#include "missing.h"\n')
    recipe(shared, SOURCES.replace("weigh.c", "weigh-gain.c"))
    shared.write("net.yaml", (shared.folder / "net.yaml").read_text() + "cflags: [-g]\n")
    printed = mistake(shared)
    assert "net.yaml:6:5: libraries[0]: network/weigh-gain.c: the compiler rejected it:" in printed


def test_a_strategy_that_calls_what_no_library_has(shared: Repository) -> None:
    recipe(shared)
    before = (shared.folder / "library.py").read_text()
    shared.write("library.py", before.replace('"resize_nchw_1x2"', '"resize_nchw_2x1"'))
    output = mistake(shared)
    shared.write("library.py", before)
    needed = "network_region_000_image_resize2d.o needs 'resize_nchw_2x1', which no file defines"
    hint = "did you mean 'resize_nchw_1x2'?"
    assert f"net.yaml:6:3: libraries: {needed}; {hint}" in output


def test_a_source_whose_name_the_project_has(shared: Repository) -> None:
    name = "network_weights.c"
    shared.write(name, "")
    recipe(shared, f"sources: [{name}]")
    message = f"{name}: the generated project already has a file {name}; rename your file"
    assert f"net.yaml:6:5: libraries[0]: {message}" in mistake(shared)


@pytest.mark.parametrize("extensions", [True, False])
@pytest.mark.parametrize("platform", ["host", "rv32-bare"])
def test_a_symbol_that_two_sources_define(
    shared: Repository, platform: str, extensions: bool
) -> None:
    shared.write("twice.c", "float weigh(float a, float b);\nint network_run(void) { return 1; }\n")
    text = RECIPE.replace("LIBRARY", SOURCES.replace("]", ", twice.c]"))
    text = text.replace("platform: host\ntarget: c7x\n", f"platform: {platform}\n")
    if not extensions:
        text = text.replace('extensions: ["library:add"]\n', "")
    shared.write("net.yaml", text)
    assert f"net.yaml:{5 - (not extensions)}:5: libraries[0]: " in mistake(shared)


def test_an_archive_is_linked_where_it_is_for_the_machine(shared: Repository) -> None:
    archive(shared, "libresize.a")
    recipe(shared, "archive: libresize.a")
    assert "firmware" in shared.build("recipe=net.yaml")
    manifest = shared.manifest("build/net/net-host.tar.gz")
    assert "libresize.a" in manifest["inputs"]["files"]
    assert manifest["run"]["differences"] == 0
    archive(shared, "libresize.a", "-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m")
    assert (
        "net.yaml:6:5: libraries[0]: libresize.a(v1.o) is for RISC-V, 32 bits, little-endian; the "
        "program is for"
    ) in mistake(shared)


def test_the_makefile_links_the_archive(shared: Repository) -> None:
    archive(shared, "libresize.a")
    recipe(shared, "archive: libresize.a")
    shared.build("recipe=net.yaml")
    stages = shared.folder / "build" / "net" / "host"
    project = shutil.copytree(stages / "sources", shared.folder / "by_hand")
    subprocess.run(["make", "-s", f"PYTHON={sys.executable}"], cwd=project, check=True)
    built = (stages / "firmware" / "firmware.elf").read_bytes()
    assert (project / "firmware.elf").read_bytes() == built


def test_the_environment_adds_archives_to_a_network_of_the_c7x(shared: Repository) -> None:
    archive(shared, "libmore.a")
    shared.write("net.yaml", RECIPE.partition("libraries:")[0])
    assert "o needs 'resize_nchw_1x2', which no file defines" in mistake(shared)
    shared.environment["CGT7X_EXT_LIBS"] = f"-l {shared.folder}/libmore.a"
    assert "firmware" in shared.build("recipe=net.yaml")
    inputs = shared.manifest("build/net/net-host.tar.gz")["inputs"]["files"]
    assert "libmore.a" in inputs
    shared.environment["CGT7X_EXT_LIBS"] += " -l /none.lib -l dodo.py"
    done = shared.doit("build", "recipe=net.yaml")
    assert "CGT7X_EXT_LIBS: not linked here: dodo.py is not an archive" in done.stdout
    assert "CGT7X_EXT_LIBS: not linked here: /none.lib: No such file" in done.stdout
    del shared.environment["CGT7X_EXT_LIBS"]


def test_the_lock_holds_extensions_and_libraries(shared: Repository) -> None:
    recipe(shared)
    shared.run("python", "-m", "doit", "lock", "recipe=net.yaml")
    locked = (shared.folder / "net.lock").read_text()
    (shared.folder / "net.lock").unlink()
    for name in ("library.py", "resize_nchw_1x2_v1.c", "weigh.c"):
        assert f'"{name}"' in locked
