"""Firmware for a Cortex-M55 runs in QEMU with the simulator, and with a replacement of Arm's
driver.

`HEADER` declares the functions of Arm's driver that the generated C calls. `DRIVER` is the
replacement, which passes the jobs to the simulator.
"""

import shutil
from importlib.resources import files
from pathlib import Path

import pytest
from firmwright_ethos_u import ETHOS_U
from small import build

from firmwright.device import Context, UserError
from firmwright.toolchain.platforms import PLATFORMS, load_platform

QEMU = "corstone300-u55-128-qemu"
CHIP = "corstone300-u55-128"
RECIPE = """\
platform: {platform}
toolchain: arm-none-eabi-gcc
target: ethos_u, c
"""
EXPORTS = ["cmake", "zephyr", "cmsis-pack"]
LIBRARY = """\
libraries:
  - {name: driver, sources: [driver.c], includes: [ethosu_driver.h]}
"""
HEADER = """\
#ifndef ETHOSU_DRIVER_H
#define ETHOSU_DRIVER_H
#include <stddef.h>
#include <stdint.h>

struct ethosu_driver { void *registers; };

int ethosu_init(struct ethosu_driver *drv, void *const base_address, const void *fast_memory,
                const size_t fast_memory_size, uint32_t secure_enable, uint32_t privilege_enable);
void ethosu_irq_handler(struct ethosu_driver *drv);
struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr,
                     const int custom_data_size, uint64_t *const base_addr,
                     const size_t *base_addr_size, const int num_base_addr, void *user_arg);
#endif
"""
DRIVER = """\

#include "ethosu_driver.h"

static struct ethosu_driver *initialized;
static int reserved;

int ethosu_init(struct ethosu_driver *drv, void *const base_address, const void *fast_memory,
                const size_t fast_memory_size, uint32_t secure_enable, uint32_t privilege_enable)
{
    drv->registers = base_address;
    initialized = drv;
    return fast_memory || fast_memory_size || !secure_enable || !privilege_enable;
}

void ethosu_irq_handler(struct ethosu_driver *drv)
{
    drv->registers = NULL;
}

struct ethosu_driver *ethosu_reserve_driver(void)
{
    reserved++;
    return initialized;
}

void ethosu_release_driver(struct ethosu_driver *drv)
{
    reserved -= drv == initialized;
}

int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr,
                     const int custom_data_size, uint64_t *const base_addr,
                     const size_t *base_addr_size, const int num_base_addr, void *user_arg)
{
    uint8_t *bases[8];
    uint32_t sizes[8];
    if (drv == NULL || drv->registers != (void *)0x58102000u || reserved != 1 || user_arg) {
        return -1;
    }
    for (int i = 0; i < num_base_addr; i++) {
        bases[i] = (uint8_t *)(uintptr_t)base_addr[i];
        sizes[i] = (uint32_t)base_addr_size[i];
    }
    simulate(custom_data_ptr, (uint32_t)custom_data_size, bases, sizes, (uint32_t)num_base_addr);
    return 0;
}
"""


def test_emulated_core(tmp_path: Path) -> None:
    done = build(tmp_path, RECIPE.format(platform=QEMU) + f"export: [{', '.join(EXPORTS)}]\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 samples exact, largest difference 0" in done.stdout
    assert "by the vendor's estimate (Vela)" in done.stdout
    assert "stack of network_run is not known" not in done.stdout
    (image,) = tmp_path.glob("build/*/*/firmware/firmware.qspi.bin")
    assert b"COP1" in image.read_bytes()  # the payload of the driver is in the flash
    for name, text in zip(
        EXPORTS, ["CMakeLists.txt", "zephyr/CMakeLists.txt", "*.pdsc"], strict=True
    ):
        (package,) = tmp_path.glob(f"build/*/*/exports/{name}")
        assert "ethosu_invoke_v3" in next(package.rglob("fw_ethos_u.c")).read_text()
        assert "fw_ethos_u.c" in next(package.glob(text)).read_text()
        assert "_commands[" in next(package.rglob("network_weights.c")).read_text()


def test_missing_driver(tmp_path: Path) -> None:
    context = Context(load_platform(CHIP), "tflite", {})
    ETHOS_U.extend_project(tmp_path, {}, context)  # no region of the network is on the device
    for name in ("board", "network"):
        (tmp_path / name).mkdir()
    code = files("firmwright_ethos_u").joinpath("templates/ethos_u/driver/fw_ethos_u.c.j2")
    (tmp_path / "board" / "fw_ethos_u.c").write_bytes(code.read_bytes())
    with pytest.raises(UserError, match=r"no library of the recipe contains ethosu_driver.h; clo"):
        ETHOS_U.extend_project(tmp_path, {}, context)
    (tmp_path / "network" / "ethosu_driver.h").write_text(HEADER)
    ETHOS_U.extend_project(tmp_path, {}, context)


def test_chip(tmp_path: Path) -> None:
    """The firmware for the chip runs in QEMU with another driver."""
    package = files("firmwright_ethos_u")
    simulation = package.joinpath("templates/ethos_u/mps3-an547/fw_ethos_u.c.j2").read_text()
    rename = "#define fw_ethos_u_run simulate\n"
    (tmp_path / "driver.c").write_text(rename + simulation + DRIVER)
    (tmp_path / "ethosu_driver.h").write_text(HEADER)
    folder = PLATFORMS.find_file(CHIP).parent
    shutil.copytree(folder / "boards", tmp_path / "boards")
    emulation = PLATFORMS.read_text(QEMU).partition("emulators:")
    text = PLATFORMS.read_text(CHIP).replace("emulators: []\n", "".join(emulation[1:]))
    (tmp_path / "chip.yaml").write_text(text)
    done = build(tmp_path, RECIPE.format(platform="chip.yaml") + LIBRARY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 samples exact, largest difference 0" in done.stdout


@pytest.mark.parametrize("name", [CHIP, QEMU, "host-u55-128"])
def test_platform_is_valid(name: str) -> None:
    assert PLATFORMS.load(str(PLATFORMS.find_file(name)))["name"] == name
