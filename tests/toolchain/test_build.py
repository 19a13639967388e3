"""Real programs are compiled and linked with every installed toolchain."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from firmwright.errors import UserError
from firmwright.toolchain import Build, compile_object, link_firmware, makefile_variables
from firmwright.toolchain.build import THREADS, compile_each
from firmwright.toolchain.compilers import Compiler, find_errors, run_compiler
from tests.sanitizers import SANITIZERS

from .projects import load_build, render, write_linker_script, write_project

COMBINATIONS = [
    ("host", "zig"),
    ("host", "gcc"),
    ("host", "clang"),
    ("rv32-bare", "zig"),
    ("rv32-bare", "riscv64-unknown-elf-gcc"),
    ("cortex-m4-bare", "zig"),
    ("cortex-m4-bare", "arm-none-eabi-gcc"),
    ("cortex-m55-bare", "zig"),
    ("cortex-m55-bare", "arm-none-eabi-gcc"),
]
MADE = [pair for pair in COMBINATIONS if pair[1] != "zig" or pair[0] == "host"]
"""Combinations whose Makefile runs here. tests/e2e/test_bundle.py runs Makefiles of zig for bare
metal, each of which compiles zig's library for 5 s."""
HOSTS = [toolchain for platform, toolchain in COMBINATIONS if platform == "host"]
MACHINES = {"rv32-bare": "EM_RISCV", "cortex-m4-bare": "EM_ARM", "cortex-m55-bare": "EM_ARM"}


def build_project(build: Build, compiler: Compiler, folder: Path, cache: Path) -> Path:
    """Build the small project in a folder as the build's stages do; return the ELF."""
    project = folder / "sources"
    sources = write_project(build, project)
    objects = []
    for source in sources:
        objects.append(folder / "objects" / f"{Path(source).stem}.o")
        compile_object(build, compiler, project, source, objects[-1], cache)
    elf = folder / "firmware" / "firmware.elf"
    link_firmware(build, compiler, project, objects, elf, cache)
    return elf


@pytest.mark.parametrize(("platform", "toolchain"), COMBINATIONS)
def test_every_platform_builds_with_every_toolchain(
    platform: str, toolchain: str, tmp_path: Path, compiler_cache: Path
) -> None:
    build, compiler = load_build(platform, toolchain)
    elf = build_project(build, compiler, tmp_path, compiler_cache)
    with elf.open("rb") as stream:
        image = ELFFile(stream)
        if platform in MACHINES:
            assert image["e_machine"] == MACHINES[platform]
            assert image["e_entry"] & ~1 == build.platform.memories["flash"].origin
    assert ".text" in elf.with_suffix(".map").read_text()


@pytest.mark.parametrize("toolchain", HOSTS)
def test_a_host_build_runs(toolchain: str, tmp_path: Path, compiler_cache: Path) -> None:
    build, compiler = load_build("host", toolchain)
    elf = build_project(build, compiler, tmp_path, compiler_cache)
    assert subprocess.run([elf], check=False).returncode == 0


@pytest.mark.parametrize("platform", ["host", "rv32-bare", "cortex-m4-bare"])
def test_zig_gives_the_same_bytes_in_another_folder_with_a_cold_cache(
    platform: str, tmp_path: Path
) -> None:
    build, compiler = load_build(platform, "zig")
    first = build_project(build, compiler, tmp_path / "a", tmp_path / "cache-a")
    deeper = tmp_path / "b" / "a much deeper folder"
    second = build_project(build, compiler, deeper, tmp_path / "b" / "cache")
    for suffix in (".elf", ".map"):
        assert first.with_suffix(suffix).read_bytes() == second.with_suffix(suffix).read_bytes()


def test_a_build_folder_may_be_a_symbolic_link(tmp_path: Path, compiler_cache: Path) -> None:
    build, compiler = load_build("rv32-bare", "zig")
    (tmp_path / "disk" / "deep").mkdir(parents=True)
    (tmp_path / "build").symlink_to(tmp_path / "disk" / "deep")
    project = tmp_path / "build"
    (project / "freestanding").mkdir()
    (project / "x.c").write_text("int x;\n")
    compile_object(build, compiler, project, "x.c", tmp_path / "x.o", compiler_cache)
    assert (tmp_path / "x.o").exists()


def test_nothing_of_the_environment_reaches_the_compiler(
    tmp_path: Path, compiler_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, compiler = load_build("rv32-bare", "zig")
    plain = build_project(build, compiler, tmp_path / "plain", compiler_cache)
    (tmp_path / "decoy").mkdir()
    (tmp_path / "decoy" / "math.h").write_text("#error the wrong math.h\n")
    monkeypatch.setenv("CPATH", str(tmp_path / "decoy"))
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", "/nowhere")
    monkeypatch.delenv("HOME", raising=False)
    other = build_project(build, compiler, tmp_path / "other", compiler_cache)
    assert plain.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("user", "shared"), [("user", "user/firmwright/zig"), ("/dev/null/no-folder", "own/zig")]
)
def test_libraries_are_shared_where_the_user_s_cache_can_be_written(
    user: str, shared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / user))
    printed = run_compiler(("env",), tmp_path, tmp_path / "own").splitlines()
    assert f"ZIG_GLOBAL_CACHE_DIR={tmp_path / shared}" in printed
    (objects,) = (line.partition("=")[2] for line in printed if line.startswith("ZIG_LOCAL"))
    assert not Path(objects).exists()  # otherwise, another call would trust the file


@pytest.mark.parametrize("name", ["feature%2Fx", "C:", "line\nline"])
def test_libraries_are_shared_in_folders_that_zig_takes_for_something_else(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    command = 'printf %s "$ZIG_GLOBAL_CACHE_DIR" && touch "$ZIG_GLOBAL_CACHE_DIR/kept"'
    seen = run_compiler(("sh", "-c", command), tmp_path, tmp_path / "own")
    assert name not in seen
    assert (tmp_path / name / "firmwright/zig/kept").exists()


@pytest.mark.parametrize(("platform", "toolchain"), MADE)
def test_the_makefile_gives_the_same_firmware(
    platform: str, toolchain: str, tmp_path: Path, compiler_cache: Path
) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    build, compiler = load_build(platform, toolchain, '-DREMARK="a $b #c"')
    expected = build_project(build, compiler, tmp_path / "stages", compiler_cache)
    project = tmp_path / "by hand"
    sources = write_project(build, project)
    variables = {**makefile_variables(build, sources), "demo": False, "prefixes": ["network"]}
    makefile = render("project/Makefile.j2", **variables)
    (project / "Makefile").write_text(makefile)
    assert not any(line.endswith(" ") for line in makefile.splitlines())
    before = sorted(project.rglob("*"))
    subprocess.run([make, f"PYTHON={sys.executable}"], cwd=project, check=True)
    assert (project / "firmware.elf").read_bytes() == expected.read_bytes()
    subprocess.run([make, "clean"], cwd=project, check=True)
    assert sorted(project.rglob("*")) == before


def test_a_users_flags_come_last(tmp_path: Path, compiler_cache: Path) -> None:
    build, compiler = load_build("host", "zig", "-O0", "-Wno-error")
    assert build.compile_flags[-2:] == ("-O0", "-Wno-error")
    (tmp_path / "x.c").write_text("int main(void) { int unused; return 0; }\n")
    compile_object(build, compiler, tmp_path, "x.c", tmp_path / "x.o", compiler_cache)
    assert (tmp_path / "x.o").exists()


def test_a_mistake_in_c_is_shown_with_file_line_and_command(
    tmp_path: Path, compiler_cache: Path
) -> None:
    build, compiler = load_build("rv32-bare", "zig")
    (tmp_path / "x.c").write_text("int main(void)\n{\n    return undeclared;\n}\n")
    with pytest.raises(UserError) as caught:
        compile_object(build, compiler, tmp_path, "x.c", tmp_path / "x.o", compiler_cache)
    message = str(caught.value)
    assert message.startswith("x.c: the compiler rejected it:\n")
    assert "x.c:3:12: error" in message
    log = compiler_cache / "failed-x.c.txt"
    assert message.endswith(f"'undeclared'\ncommand and whole output: {log}")
    assert "-target riscv32-unknown-elf -march=rv32imc" in log.read_text()


def test_of_a_long_output_the_first_errors_are_shown() -> None:
    noise = ["In file included from a.c:1:", "a.c:2:3: warning: odd", "    2 |   x", "      |   ^"]
    errors = [f"a.c:{line}:1: error: number {line}" for line in range(3, 12)]
    found = find_errors("\n".join([*noise, *errors, "9 errors generated."]))
    assert found == [*errors[:6], "and 3 more"]
    assert find_errors("\n".join([*noise, *errors[:6]])) == errors[:6]
    linked = "ld: x.o: in function `f':\nx.c:(.text+0x4): undefined reference to `g'"
    assert "x.c:(.text+0x4): undefined reference to `g'" in find_errors(linked)
    assert find_errors("Killed\n") == ["Killed"]


def test_a_warning_stops_the_build(tmp_path: Path, compiler_cache: Path) -> None:
    build, compiler = load_build("cortex-m4-bare", "zig")
    (tmp_path / "x.c").write_text("int f(int x);\nint f(int x) { int unused; return x; }\n")
    with pytest.raises(UserError, match="unused variable"):
        compile_object(build, compiler, tmp_path, "x.c", tmp_path / "x.o", compiler_cache)


def test_an_undefined_symbol_is_named(tmp_path: Path, compiler_cache: Path) -> None:
    build, compiler = load_build("rv32-bare", "zig")
    project = tmp_path / "sources"
    write_project(build, project)
    (project / "x.c").write_text(
        "int nobody_has_this(void);\nvoid start(void);\n"
        '__attribute__((section(".text.start"))) void start(void) { nobody_has_this(); }\n'
    )
    compile_object(build, compiler, project, "x.c", tmp_path / "x.o", compiler_cache)
    elf = tmp_path / "out" / "firmware.elf"
    with pytest.raises(UserError, match=r"firmware.elf: the linker failed:\n.*nobody_has_this"):
        link_firmware(build, compiler, project, [tmp_path / "x.o"], elf, compiler_cache)


@pytest.mark.parametrize(
    "toolchain",
    [
        "zig",
        pytest.param("riscv64-unknown-elf-gcc", marks=pytest.mark.needs("riscv64-unknown-elf-gcc")),
    ],
)
def test_a_program_that_exceeds_the_memory_gets_a_hint(
    toolchain: str, tmp_path: Path, compiler_cache: Path
) -> None:
    build, compiler = load_build("rv32-bare", toolchain)
    (tmp_path / "freestanding").mkdir()
    (tmp_path / "x.c").write_text("char store[70000];\nvoid start(void) { store[0] = 1; }\n")
    script = "ENTRY(start)\nMEMORY { ram : ORIGIN = 0x80000000, LENGTH = 64K }\n"
    sections = "SECTIONS { .text : { *(.text*) } > ram .bss : { *(.bss*) } > ram }\n"
    write_linker_script(tmp_path, script + sections)
    compile_object(build, compiler, tmp_path, "x.c", tmp_path / "x.o", compiler_cache)
    elf = tmp_path / "out" / "firmware.elf"
    with pytest.raises(UserError, match=r"overflowed by \d+ bytes(\n.*)*too little memory"):
        link_firmware(build, compiler, tmp_path, [tmp_path / "x.o"], elf, compiler_cache)


def test_a_failed_link_leaves_no_unfinished_image(tmp_path: Path, compiler_cache: Path) -> None:
    build, compiler = load_build("rv32-bare", "zig")
    (tmp_path / "freestanding").mkdir()
    # The range of the branch is only 4 KiB; the linker detects this when it writes the image.
    (tmp_path / "x.S").write_text(".globl start\nstart: beq a0, a1, far_away\n")
    script = "ENTRY(start)\nfar_away = 0x90000000;\nSECTIONS { .text 0x80000000 : { *(.text) } }\n"
    write_linker_script(tmp_path, script)
    compile_object(build, compiler, tmp_path, "x.S", tmp_path / "x.o", compiler_cache)
    elf = tmp_path / "out" / "firmware.elf"
    with pytest.raises(UserError, match="out of range"):
        link_firmware(build, compiler, tmp_path, [tmp_path / "x.o"], elf, compiler_cache)
    assert not list(elf.parent.glob("firmware.elf*"))


def test_the_sanitizers_stop_at_undefined_behavior(tmp_path: Path, compiler_cache: Path) -> None:
    build, compiler = load_build("host", "gcc", *SANITIZERS)
    (tmp_path / "x.c").write_text(
        "int main(int count, char **names)\n"
        "{\n    int numbers[2] = {1, 2};\n    (void)names;\n    return numbers[count + 1];\n}\n"
    )
    compile_object(build, compiler, tmp_path, "x.c", tmp_path / "x.o", compiler_cache)
    elf = tmp_path / "firmware.elf"
    link_firmware(build, compiler, tmp_path, [tmp_path / "x.o"], elf, compiler_cache)
    finished = subprocess.run([elf], capture_output=True, text=True, check=False)
    assert finished.returncode != 0
    assert "out of bounds" in finished.stderr


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder with the sources a, b and c, of which b is the largest."""
    for name, size in {"a": 1, "b": 3, "c": 2}.items():
        (tmp_path / name).write_bytes(bytes(size))
    return tmp_path


def test_a_variable_says_how_many_files_are_compiled_at_once(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def compile_one(source: str) -> str:
        threads.append(threading.get_ident())
        time.sleep(0.01)
        return source.upper()

    monkeypatch.setenv(THREADS, "1")
    assert compile_each(compile_one, sources, "abc") == [*"ABC"]
    assert len(set(threads)) == 1
    monkeypatch.setenv(THREADS, "3")
    together = threading.Barrier(3, timeout=60)
    assert compile_each(lambda _: together.wait() >= 0, sources, "abc") == [True] * 3
    monkeypatch.setenv(THREADS, "0")
    with pytest.raises(UserError, match="FIRMWRIGHT_THREADS: expected a whole number from 1 on"):
        compile_each(compile_one, sources, "a")


def test_the_largest_file_is_begun_first_and_the_first_mistake_is_told(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def refuse(source: str) -> None:
        begun.append(source)
        raise UserError(source)

    monkeypatch.setenv(THREADS, "1")
    with pytest.raises(UserError, match="a"):
        compile_each(refuse, sources, "abc")
    assert begun == [*"bca"]
