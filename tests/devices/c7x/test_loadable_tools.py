"""A loadable for the C7x: the arguments of TI's tools, and the errors if tools are missing.

The tools are closed. These stand-ins record their calls and compile with this machine's GCC.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from firmwright.devices.c7x.loadable import (
    LOADABLE_NAME,
    link_loadable,
    loadable_makefile_variables,
    make_loadable_build,
    object_name,
)
from firmwright.errors import UserError
from firmwright.pipeline.tool_stamps import compiler_tool
from firmwright.toolchain import compile_project, find_compiler, load_platform, to_host_platform
from tests.toolchain.folders import calls, fake_cgt7x_folder
from tests.toolchain.projects import render

SILICON = {"j721e": 7100, "j721s2": 7120, "j784s4": 7120, "am62a": 7504, "am67a": 7524}
PASSED_ON = {
    *("HOME", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONSAFEPATH"),
    *("TMPDIR", "ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"),
}
SOURCES = ("weights.asm", "../network/network.c")


@pytest.fixture
def cgt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = fake_cgt7x_folder(tmp_path / "ti-cgt-c7000")
    monkeypatch.setenv("CGT7X_ROOT", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "sources" / "c7x"
    folder.mkdir(parents=True)
    weights = '; weights\n        .sect   ".const:net"\n        .global answer\nanswer:\n'
    (folder / "weights.asm").write_text(f"{weights}        .byte   42, 0, 0, 0\n")
    (folder / "link.cmd").touch()
    network = "extern const int answer;\nint network(void);\nint network(void) { return answer; }\n"
    (folder.parent / "network").mkdir()
    (folder.parent / "network" / "network.c").write_text(network)
    return folder


def compiled(root: Path, silicon: int, output: str, source: str) -> list[str]:
    return [
        *("-mv" + str(silicon), "-o3", "--abi=eabi", "--gcc", "--c11", f"-I{root}/include"),
        *("-I../network", "--compile_only", f"--output_file={output}", source),
    ]


def linked(root: Path, silicon: int, folder: str, *libraries: str) -> list[str]:
    return [
        *("--abi=eabi", "-z", "--ram_model", "--dynamic=lib", "--relocatable"),
        *("--no_entry_point", "--warn_sections", "-x", "-heap", "0"),
        *("-m", f"{folder}c7x_deploy_tvm.map", f"-i{root}/lib"),
        *("-o", f"{folder}c7x_deploy_tvm.out", f"{folder}weights.obj", f"{folder}network.obj"),
        *(*libraries, "-l", f"rts{silicon}_le.lib", "link.cmd"),
    ]


@pytest.mark.parametrize("platform", SILICON)
def test_the_tools_are_called_as_tis_own_builds_call_them(
    platform: str, cgt: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("C7X_C_OPTION", "-g")  # the user's settings do not affect a build
    build = make_loadable_build(load_platform(platform))
    assert build is not None
    compiler = find_compiler(build.toolchain, build.platform.architecture)
    output = tmp_path / "loadable" / LOADABLE_NAME
    libraries = ["-l", "mine.lib"]
    folder = output.parent
    objects = compile_project(build, compiler, project, folder, tmp_path, SOURCES, object_name)
    link_loadable(build, compiler, project, objects, libraries, tmp_path, output)
    version, *compilations, link, strip = calls(cgt)
    silicon, up = SILICON[platform], "../../loadable/"
    assert version["arguments"] == ["--compiler_revision"]
    assert sorted(str(c["arguments"]) for c in compilations) == sorted(
        str(compiled(cgt, silicon, f"{up}{Path(source).stem}.obj", source)) for source in SOURCES
    )
    assert link["arguments"] == linked(cgt, silicon, up, *libraries)
    assert (strip["program"], strip["arguments"]) == ("strip7x", ["-p", f"{up}{LOADABLE_NAME}"])
    for call in (*compilations, link, strip):
        assert call["folder"] == str(project)
        assert set(call["environment"]) <= PASSED_ON
    assert ctypes.CDLL(str(output)).network() == 42
    assert output.with_suffix(".map").read_text() == (
        f"\nOUTPUT FILE NAME:   <{LOADABLE_NAME}>\n\nMEMORY\n"
    )


def test_the_makefile_calls_them_alike(cgt: Path, project: Path) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    build = make_loadable_build(load_platform("am62a"))
    assert build is not None
    makefile = {**loadable_makefile_variables(build, SOURCES), "script": "link.cmd"}
    (project / "Makefile").write_text(render("c7x/loadable/Makefile.j2", **makefile))
    before = sorted(project.iterdir())
    subprocess.run([make, "CGT7X_EXT_LIBS=-l mine.lib"], cwd=project, check=True)
    found = [call["arguments"] for call in calls(cgt)]
    assert found == [
        *(compiled(cgt, 7504, f"{Path(source).stem}.obj", source) for source in SOURCES),
        linked(cgt, 7504, "", "-l", "mine.lib"),
        ["-p", LOADABLE_NAME],
    ]
    subprocess.run([make, "clean"], cwd=project, check=True)
    assert sorted({*project.iterdir()} - {project / "weights.s"}) == before
    refused = subprocess.run([make, "CGT7X_ROOT=/nowhere"], cwd=project, capture_output=True)
    assert b"No file /nowhere/bin/cl7x: set CGT7X_ROOT to" in refused.stderr


@pytest.mark.parametrize(
    ("version", "platform", "since"),
    [("1.4.2.LTS", "j721s2", "2.0"), ("2.0.1.STS", "am62a", "3.0"), ("3.1.0.LTS", "am67a", "4.0")],
)
def test_a_compiler_older_than_the_chip_is_refused(
    version: str, platform: str, since: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgt = fake_cgt7x_folder(tmp_path / "ti-cgt-c7000", version)
    monkeypatch.setenv("CGT7X_ROOT", str(cgt))
    build = make_loadable_build(load_platform(platform))
    assert build is not None
    with pytest.raises(UserError) as caught:
        find_compiler(build.toolchain, build.platform.architecture)
    number = version.rpartition(".")[0]
    assert str(caught.value) == (
        f"toolchain 'cl7x': cl7x {number} does not support c{SILICON[platform]}; install "
        f"version {since} or later"
    )


@pytest.mark.parametrize("missing", ["bin/strip7x", "lib/rts7504_le.lib"])
def test_what_is_half_installed_is_named(missing: str, cgt: Path) -> None:
    (cgt / missing).unlink()
    build = make_loadable_build(load_platform("am62a"))
    assert build is not None
    with pytest.raises(UserError, match=f"^CGT7X_ROOT={cgt} has no file {missing}; set CGT7X_ROOT"):
        find_compiler(build.toolchain, build.platform.architecture)


@pytest.mark.usefixtures("cgt")
def test_a_refusal_of_the_compiler_is_shown(project: Path, tmp_path: Path) -> None:
    source = project.parent / "network" / "network.c"
    source.write_text("int network(void) { return nothing; }\n")
    build = make_loadable_build(load_platform("am62a"))
    assert build is not None
    compiler = find_compiler(build.toolchain, build.platform.architecture)
    message = r"^../network/network.c: the compiler rejected it:[^$]*output: "
    with pytest.raises(UserError, match=message):
        compile_project(build, compiler, project, tmp_path, tmp_path, SOURCES, object_name)


def test_only_a_chip_has_a_loadable() -> None:
    for platform in (load_platform("host"), to_host_platform(load_platform("am62a"))):
        assert make_loadable_build(platform) is None


def test_a_build_knows_one_installation_from_another(
    cgt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = make_loadable_build(load_platform("am62a"))
    assert build is not None
    compiler = compiler_tool(build)
    first = compiler.stamp()
    (cgt / "include").mkdir(exist_ok=True)
    (cgt / "include" / "c7x.h").write_text("/* a header that the toolchain does not list */")
    second = compiler.stamp()
    (cgt / "lib" / "rts7504_le.lib").write_text("another library")
    assert len({first, second, compiler.stamp()}) == 3
    monkeypatch.delenv("CGT7X_ROOT")
    assert compiler.stamp() == "not installed"
