"""The code for DIANA itself: its calls of DORY's functions, recorded; and what make asks for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from firmwright.codegen.templates import make_environment, render
from firmwright.project.board import render_makefile
from firmwright.toolchain import Build, load_platform, load_toolchain, makefile_variables

DORY = Path(__file__).parent / "dory"
CHIP = load_platform("diana-chip")
TEMPLATES = {
    "fw_soma.h": "soma_dory/fw_soma.h.j2",
    "fw_soma.c": "soma_dory/diana-chip/fw_soma.c.j2",
    "fw_hal.h": "runtime/fw_hal.h.j2",
    "fw_hal.c": "boards/diana-chip/fw_hal.c.j2",
}
PROGRAM = """
#include "fw_soma.h"
uint8_t l2[4096];
int main(void)
{
%s
    return 0;
}
"""
LAYER = """
    const fw_soma_layer layer = {
        .in_channels = 3, .in_height = 8, .in_width = 20,
        .out_channels = 32, .out_height = 4, .out_width = 10,
        .kernel_height = 3, .kernel_width = 5, .stride = 2,
        .pad_top = 1, .pad_left = 1, .pad_bottom = 0, .pad_right = 2, .skip = SKIP,
        .shift = 9, .relu = 1,
    };
"""


def calls(tmp_path: Path, body: str, *defines: str) -> list[str]:
    """Compile and run a program that uses the accelerator; return the calls of DORY's functions."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    for name, template in TEMPLATES.items():
        (tmp_path / name).write_text(render(make_environment(), template, {"platform": CHIP}))
    (tmp_path / "main.c").write_text(PROGRAM % body)
    flags = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", f"-I{DORY}", *defines]
    sources = ["main.c", "fw_soma.c", "fw_hal.c", str(DORY / "recorder.c")]
    subprocess.run(["gcc", *flags, "-o", "program", *sources], cwd=tmp_path, check=True)
    ran = subprocess.run([tmp_path / "program"], capture_output=True, text=True)
    return ran.stdout.splitlines()


def test_one_layer(tmp_path: Path) -> None:
    body = (
        LAYER
        + """
    const fw_soma_copy tile = {0, 3, 8, 32, 8 * 48, 48, 8 * 32, 32};
    const fw_soma_copy results = {1024, 32, 4, 16, 4 * 16, 16, 4 * 16, 16};
    fw_soma_load(&tile, l2 + 64);
    fw_soma_conv2d(&layer, 0, l2 + 2048, 1024);
    fw_soma_store(&results, l2);
    """
    )
    geometry = "c=3 k=32 cx=32 cy=8 fx=5 fy=3 ox=16 oy=4"
    assert calls(tmp_path, body, "-DSKIP=0") == [
        "allocate",
        "copy ext=64 loc=0 planes=3*384 rows=8*48 bytes=32 dir=0 hwc=0 channel=7",
        "copied dir=0",
        "barrier",
        f"conv x=0 l2=2048 second=0 y=1024 {geometry} relu=1 shift=9 padding=0x102 dilation=1 "
        "stride=1",
        "barrier",
        # Bytes without a gap are as many planes of 16.
        "copy ext=0 loc=1024 planes=128*16 rows=1*16 bytes=16 dir=1 hwc=0 channel=7",
        "copied dir=1",
    ]


def test_every_kind_of_job(tmp_path: Path) -> None:
    body = (
        LAYER
        + """
    const fw_soma_layer vector = {64, 1, 1, 16, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 7, 0};
    const fw_soma_layer sum = {3, 8, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0};
    fw_soma_depthwise_conv2d(&layer, 0, l2 + 16, 1024);
    fw_soma_dense(&vector, 0, l2 + 32, 64);
    fw_soma_add(&sum, 0, 768, 1536);
    """
    )
    jobs = [call for call in calls(tmp_path, body, "-DSKIP=0") if " x=" in call]
    assert [job.split(" c=")[0] for job in jobs] == [
        "depthwise x=0 l2=16 second=0 y=1024",
        "dense x=0 l2=32 second=0 y=64",
        "sum x=0 l2=-1 second=768 y=1536",
    ]
    assert "c=64 k=16 cx=1 cy=1 fx=1 fy=1 ox=1 oy=1 relu=0 shift=7 padding=0 " in jobs[1]
    assert "c=3 k=3 cx=32 cy=8 fx=1 fy=1 ox=32 oy=8 relu=0 shift=1 padding=0 " in jobs[2]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (f"{LAYER} fw_soma_conv2d(&layer, 0, l2, 1024);", "rows from their first byte on"),
        (f"{LAYER} fw_soma_layer a = layer; a.skip = 0; fw_soma_add(&a, 0, 768, 1536);", "no ReLU"),
        (
            "const fw_soma_copy far = {0, 2, 2, 16, 1 << 17, 1 << 16, 32, 16};"
            "fw_soma_load(&far, l2);",
            "strides of up to 65535 bytes",
        ),
    ],
)
def test_what_dorys_interface_cannot_say_is_refused(
    tmp_path: Path, body: str, sentence: str
) -> None:
    fault, *rest = [line for line in calls(tmp_path, body, "-DSKIP=4") if line]
    assert fault.startswith("@fault fw_soma") and sentence in fault
    assert rest == []


def make(folder: Path, *variables: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    build = Build(load_toolchain("pulp-gcc"), CHIP, ())
    written = {**makefile_variables(build, ["main.c", "network.c"]), "demo": False}
    text = render_makefile(make_environment(), CHIP.board, written)
    (folder / "Makefile").write_text(text)
    return subprocess.run(["make", *variables], cwd=folder, capture_output=True, text=True)


def test_make_names_what_is_missing_before_it_compiles(tmp_path: Path) -> None:
    sdk, hal = tmp_path / "sdk", tmp_path / "hal"
    for folder in (sdk / "install/rules", hal / "include", hal / "src"):
        folder.mkdir(parents=True)
    assert "No file /install/rules/pulp.mk: set PULP_SDK_HOME to" in make(tmp_path).stderr
    rules = sdk / "install/rules/pulp.mk"
    rules.write_text("all:\n\t@echo $(PULP_APP): $(notdir $(PULP_APP_SRCS)) $(PULP_CFLAGS)\n")
    (hal / "src/dory.c").touch()
    wanting = make(tmp_path, f"PULP_SDK_HOME={sdk}", f"DORY_HAL={hal}")
    assert f"No file {hal}/include/dory.h: set DORY_HAL to" in wanting.stderr
    (hal / "include/dory.h").touch()
    built = make(tmp_path, f"PULP_SDK_HOME={sdk}", f"DORY_HAL={hal}")
    assert built.stdout.startswith("firmware: main.c network.c dory.c -std=gnu99 ")
    assert f"-I{hal}/include" in built.stdout
