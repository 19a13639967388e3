"""Builds small firmwares from C sources, with the real boards, compilers and linkers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import jinja2
import pytest

from firmwright.emulator import Execution, run_firmware
from firmwright.errors import UserError
from firmwright.project.project_files import place_device_files
from firmwright.toolchain import (
    Build,
    Platform,
    compile_object,
    find_compiler,
    link_firmware,
    load_platform,
    load_toolchain,
)
from firmwright.toolchain.boards import list_board_files
from firmwright.toolchain.build import LINKER_SCRIPT

SOURCES = Path(__file__).parent / "firmware"
TEMPLATES = files("firmwright.templates")

BuildFirmware = Callable[..., Path]
RunFirmware = Callable[..., Execution]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the compiler's cache and the emulator's own library."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> BuildFirmware:
    """Return a function that builds tests/emulator/firmware/<source> for a platform, once."""

    @functools.cache
    def build_firmware(
        source: str, platform_name: str, toolchain: str = "", cflags: tuple[str, ...] = ()
    ) -> Path:
        platform = load_platform(platform_name)
        project = tmp_path_factory.mktemp("firmware")
        _render_board(platform, project)
        (project / source).write_bytes((SOURCES / source).read_bytes())
        (project / "xcv.h").write_text((TEMPLATES / "c/layers/xcv.h.j2").read_text("utf-8"))
        settings = Build(load_toolchain(toolchain or platform.toolchains[0]), platform, cflags)
        try:
            compiler = find_compiler(settings.toolchain, platform.architecture)
        except UserError as error:
            pytest.skip(str(error))
        objects = []
        for path in sorted([*project.glob("*.c"), *project.glob("*.S")]):
            objects.append(path.with_suffix(".o"))
            compile_object(settings, compiler, project, path.name, objects[-1], cache)
        elf = project / "firmware.elf"
        link_firmware(settings, compiler, project, objects, elf, cache)
        return elf

    return build_firmware


@pytest.fixture
def run() -> RunFirmware:
    """Return a function that runs a firmware, by default in the platform's first emulator."""

    def run_elf(
        elf: Path,
        platform_name: str,
        console_input: bytes = b"",
        emulator: str = "",
        budget: int = 10_000_000,
    ) -> Execution:
        platform = load_platform(platform_name)
        name = emulator or platform.emulators[0]
        try:
            return run_firmware(elf, platform, name, console_input, "counted", budget)
        except UserError as error:
            if "is not installed" in str(error):
                pytest.skip(str(error))
            raise

    return run_elf


def _render_board(platform: Platform, project: Path) -> None:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(TEMPLATES)),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    templates = [*list_board_files(platform.board), TEMPLATES.joinpath("runtime", "fw_hal.h.j2")]
    for device in platform.accelerators:
        names = place_device_files(device, platform.board)
        templates += [TEMPLATES.joinpath(*name.split("/")) for name in names]
    for template in templates:
        text = environment.from_string(template.read_text(encoding="utf-8")).render(
            platform=platform,
            stack_bytes=platform.stack,
            constant_memories=(),
            copied_memories=(),
        )
        name = template.name.removesuffix(".j2")
        path = project / LINKER_SCRIPT if name == Path(LINKER_SCRIPT).name else project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
