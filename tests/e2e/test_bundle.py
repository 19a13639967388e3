"""The content of a bundle, from the recipe on, is complete and the same in every build."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml

from .conftest import (
    ALL_STAGES,
    HOST_STAGES,
    MLPERF_TINY,
    OTHERS,
    ROOT,
    Repository,
    ran,
)

pytestmark = pytest.mark.fresh

BUNDLE = "build/digits/digits-rv32-bare.tar.gz"


def test_manifest_is_what_its_schema_says_and_what_is_in_the_archive(built: Repository) -> None:
    manifest = built.manifest(BUNDLE)
    schema = json.loads(files("firmwright.report").joinpath("manifest.schema.json").read_text())
    jsonschema.validate(manifest, schema)
    info = built.folder / "build/digits/rv32-bare/sources/network/network_info.c"
    assert manifest["recipe"]["network_sha256"] in info.read_text()
    with tarfile.open(built.folder / BUNDLE) as archive:
        contents = {
            m.name.split("/", 1)[1]: archive.extractfile(m).read()  # type: ignore[union-attr]
            for m in archive.getmembers()
        }
    del contents["manifest.json"]
    listed = {f["path"]: (f["bytes"], f["sha256"]) for f in manifest["files"]}
    assert listed == {n: (len(c), hashlib.sha256(c).hexdigest()) for n, c in contents.items()}
    assert {"firmware.elf", "firmware.bin", "firmware.hex", "firmware.map"} <= set(contents)
    sources = ("network/network.h", "board/link.ld", "demo/main.c", "Makefile")
    assert {f"src/{name}" for name in sources} <= set(contents)
    built_by = ("digits.yaml", "platforms/rv32-bare.yaml", "toolchains/zig.yaml")
    assert {f"recipe/{name}" for name in built_by} <= set(contents)
    assert b"# another comment" not in contents["recipe/digits.yaml"]
    readme = contents["README.md"].decode()
    assert manifest["model"]["sha256"] in readme and "3 of 3 samples exact" in readme
    assert "{.image = image}" in readme


def test_manifest_tells_model_run_and_memory(built: Repository) -> None:
    manifest = built.manifest(BUNDLE)
    model = (built.folder / "digits.onnx").read_bytes()
    assert manifest["model"]["sha256"] == hashlib.sha256(model).hexdigest()
    assert (manifest["name"], manifest["platform"], manifest["target"]) == (
        "digits", "rv32-bare", "c",
    )  # fmt: skip
    run, memory = manifest["run"], manifest["memory"]
    assert (run["samples"], run["mismatches"], run["macs"]) == (3, 0, 54_624)
    assert run["emulator"].startswith("unicorn ")
    assert run["macs"] < run["instructions"] < 100 * run["macs"]
    assert 0 < memory["arena_lower_bound_bytes"] <= memory["arena_bytes"] < memory["ram_bytes"]
    assert memory["flash_bytes"] > 3_762  # at least one byte per weight
    with tarfile.open(built.folder / BUNDLE) as archive:
        header = archive.extractfile("digits-rv32-bare/src/network/network_stack.h")
        assert header is not None
        stated = f"#define NETWORK_STACK_BYTES {memory['stack']['bytes']}u"
        assert stated in header.read().decode()
    assert manifest["versions"]["zig"].startswith("zig 0.17.0")


def test_the_timeline_of_the_layers_is_in_the_manifest_and_in_a_file(built: Repository) -> None:
    manifest = built.manifest(BUNDLE)
    timeline = manifest["timeline"]
    layers = timeline["layers"]
    assert [x["name"] for x in layers][-2:] == ["region_005_matmul", "network_run"]
    assert layers[0]["sources"] == ["stem", "stem_out_QuantizeLinear"]
    starts = [0, *(x["end"] + 1 for x in layers)]
    assert starts == [*(x["start"] for x in layers), timeline["total"]]
    assert (timeline["unit"], timeline["clock"]) == ("cycles", 100_000_000)
    assert timeline["source"] == "by the table of CV32E40P, zero wait states"
    assert timeline["total"] == timeline["counted"] > manifest["run"]["instructions"]
    assert timeline["milliseconds"] == round(timeline["total"] / 100_000, 3)
    with tarfile.open(built.folder / BUNDLE) as archive:
        file = archive.extractfile("digits-rv32-bare/stats/digits_stats.yaml")
        assert file is not None
        written = yaml.safe_load(file)
    assert [*written] == [*range(1, len(layers) + 1)]
    ends = [(x["start_cycle"], x["end_cycle"]) for x in written.values()]
    assert ends == [(x["start"], x["end"]) for x in layers]


def test_the_time_of_another_target_stands_beside_the_recipes(repository: Repository) -> None:
    again = [s for s in ALL_STAGES if s not in ("model", "samples", "advice", "bundle")]
    stages = repository.build("recipe=digits.yaml", "compare=c")
    assert sorted(stages) == sorted([*ALL_STAGES, *again, "comparison"])
    comparison = repository.manifest(BUNDLE)["comparison"]
    assert (comparison["target"], comparison["other_target"]) == ("c", "c")
    names = [row["sources"][0] for row in comparison["layers"][:-1]]
    assert names == ["stem", "downsample", "depthwise", "pointwise", "pool", "dense"]
    assert all(row["base"] == row["other"] for row in comparison["layers"])
    assert repository.build("recipe=digits.yaml", "compare=c") == []
    done = repository.doit("clean", "--clean-all", "recipe=digits.yaml", "compare=c")
    assert done.returncode == 0, done.stderr
    assert not (repository.folder / "build/digits").exists()


def test_where_nothing_is_counted_nothing_is_compared(repository: Repository) -> None:
    done = repository.doit("build", "recipe=digits.yaml", "platform=host", "compare=c")
    assert done.returncode == 0, done.stderr
    assert "nothing to compare: native counts no instructions, and host" in done.stdout
    assert ran(done.stdout) == HOST_STAGES
    assert not done.stderr
    origins = json.loads((repository.folder / "build/digits/host/bundle/origins.json").read_text())
    assert not [stage for stage in origins["stages"] if "-compared" in stage], "none of them ran"
    manifest = repository.manifest("build/digits/digits-host.tar.gz")
    assert (manifest["timeline"], manifest["comparison"]) == (None, None)


def test_same_bytes_in_another_folder_at_another_time_for_another_user(
    repository: Repository, built: Repository
) -> None:
    repository.write("digits.yaml", "# a comment\n" + (built.folder / "digits.yaml").read_text())
    done = repository.doit("reproduce", "recipe=digits.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    digest = hashlib.sha256((built.folder / BUNDLE).read_bytes()).hexdigest()
    assert f"both builds are equal: digits-rv32-bare.tar.gz, sha256 {digest}" in done.stdout


def test_archive_has_no_trace_of_who_and_when(built: Repository) -> None:
    with tarfile.open(built.folder / BUNDLE) as archive:
        members = archive.getmembers()
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, 0, "", "")}
    assert [m.name for m in members] == sorted(m.name for m in members)
    raw = (built.folder / BUNDLE).read_bytes()
    assert raw[4:8] == b"\0\0\0\0"  # the time stamp in gzip's header
    unpacked = subprocess.run(["gzip", "-dc"], input=raw, capture_output=True, check=True).stdout
    assert str(built.folder).encode() not in unpacked


@pytest.mark.parametrize("platform", ["rv32-bare", "cortex-m4-bare", "host"])
def test_project_builds_by_hand_to_the_same_firmware(
    repository: Repository, platform: str, tmp_path: Path
) -> None:
    repository.build("recipe=digits.yaml", f"platform={platform}")
    bundle = repository.folder / f"build/digits/digits-{platform}.tar.gz"
    with tarfile.open(bundle) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / f"digits-{platform}"
    made = subprocess.run(
        ["make", f"PYTHON={sys.executable}"], cwd=unpacked / "src", capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr
    by_hand = (unpacked / "src" / "firmware.elf").read_bytes()
    assert by_hand == (unpacked / "firmware.elf").read_bytes()


@pytest.mark.needs("qemu-system-riscv32", "qemu-system-arm")
def test_qemu_runs_the_same_firmware(repository: Repository) -> None:
    for platform in ("cortex-m4-bare", "cortex-m55-bare", "rv32-bare"):
        assert "run" in repository.build(
            "recipe=digits.yaml", f"platform={platform}", "emulator=qemu"
        )
        manifest = repository.manifest(f"build/digits/digits-{platform}.tar.gz")
        assert manifest["run"]["emulator"].startswith("qemu")
        assert manifest["run"]["differences"] == 0


@pytest.mark.needs("qemu-aarch64")
def test_the_program_for_aarch64_is_exact_in_qemus_user_mode(repository: Repository) -> None:
    repository.build("recipe=digits.yaml", "platform=aarch64-linux")
    manifest = repository.manifest("build/digits/digits-aarch64-linux.tar.gz")
    assert manifest["run"]["emulator"].startswith("qemu-user ")
    assert manifest["run"]["differences"] == 0
    elf = repository.folder / "build/digits/aarch64-linux/firmware/firmware.elf"
    assert elf.read_bytes()[18:20] == b"\xb7\x00"  # e_machine: EM_AARCH64


@pytest.mark.needs("avr-gcc")
def test_a_core_of_8_bits_gets_firmware_that_fits_and_is_not_run(repository: Repository) -> None:
    repository.build("recipe=digits.yaml", "platform=avr-atmega2560")
    manifest = repository.manifest("build/digits/digits-avr-atmega2560.tar.gz")
    assert manifest["run"] is None
    assert manifest["not_run"] == "the platform 'avr-atmega2560' lists no emulator"
    assert manifest["memory"]["ram_bytes"] <= 8192 - 512
    elf = repository.folder / "build/digits/avr-atmega2560/firmware/firmware.elf"
    assert elf.read_bytes()[18:20] == b"\x53\x00"  # e_machine: EM_AVR


@pytest.mark.needs("qemu-riscv64", "riscv64-linux-gnu-gcc")
def test_the_program_for_rv64_is_exact_in_qemus_user_mode(repository: Repository) -> None:
    words = ("platform=rv64-linux", "toolchain=riscv64-linux-gnu-gcc")
    repository.build("recipe=digits.yaml", *words)
    manifest = repository.manifest("build/digits/digits-rv64-linux.tar.gz")
    assert manifest["run"]["emulator"].startswith("qemu-user ")
    assert manifest["run"]["differences"] == 0


@pytest.mark.parametrize(
    ("platform", "toolchain"),
    [
        ("rv32-bare", "riscv64-unknown-elf-gcc"),
        ("cortex-m4-bare", "arm-none-eabi-gcc"),
        ("host", "gcc"),
        ("host", "clang"),
    ],
)
def test_other_toolchains_build_and_agree(
    repository: Repository, platform: str, toolchain: str
) -> None:
    if shutil.which(toolchain) is None:
        pytest.skip(f"{toolchain} is not installed")
    choice = (f"platform={platform}", f"toolchain={toolchain}")
    expected = HOST_STAGES if platform == "host" else ALL_STAGES
    assert repository.build("recipe=digits.yaml", *choice) == expected
    assert repository.manifest(f"build/digits/digits-{platform}.tar.gz")["run"]["differences"] == 0
    firmware = repository.folder / f"build/digits/{platform}/firmware"
    assert "firmware.partial" not in (firmware / "firmware.map").read_text()


def test_generated_c_has_no_undefined_behavior(repository: Repository) -> None:
    repository.write("s.yaml", (repository.folder / "digits.yaml").read_text()
                     + "toolchain: gcc\ncflags: [-g1, -fno-omit-frame-pointer, "
                     "'-fsanitize=address,undefined', -fno-sanitize-recover=all]\n")  # fmt: skip
    assert repository.build("recipe=s.yaml", "platform=host") == HOST_STAGES
    elf = repository.folder / "build/s/host/firmware/firmware.elf"
    assert b"__asan_init" in elf.read_bytes()


def test_tvm_names_for_those_who_had_them(repository: Repository) -> None:
    repository.write("t.yaml", (repository.folder / "digits.yaml").read_text()
                     + "c_prefix: tvmgen_default\n")  # fmt: skip
    done = repository.doit("sources:t-cortex-m0-bare", "recipe=t.yaml", "platform=cortex-m0-bare")
    assert done.returncode == 0, done.stderr
    network = repository.folder / "build/t/cortex-m0-bare/sources/network"
    caller = repository.write(
        "caller.c",
        """
#include "tvmgen_default.h"
#include <stdio.h>
int main(void)
{
    static int8_t image[TVMGEN_DEFAULT_INPUT_IMAGE_ELEMENTS];
    static int8_t scores[TVMGEN_DEFAULT_OUTPUT_SCORES_ELEMENTS];
    struct tvmgen_default_inputs inputs = {.image = image};
    struct tvmgen_default_outputs outputs = {.scores = scores};
    int32_t status = tvmgen_default_run(&inputs, &outputs);
    inputs.image = NULL;
    printf("%d %d", (int)status, (int)tvmgen_default_run(&inputs, &outputs));
    return TVMGEN_DEFAULT_WORKSPACE_SIZE == 0;
}
""",
    )
    sources = [str(path) for path in network.glob("*.c")]
    compiled = repository.run("cc", "-Wall", "-Wextra", "-Werror", "-std=c99", f"-I{network}",
                              "-o", "caller", str(caller), *sources, "-lm")  # fmt: skip
    assert compiled.returncode == 0, compiled.stderr
    called = repository.run(str(repository.folder / "caller"))
    assert (called.returncode, called.stdout) == (0, "0 -1")


READY = [(r, p) for r in MLPERF_TINY for p in ("host", "rv32-bare", "cortex-m4-bare")]
READY.remove(("vww", "host"))  # kws and resnet8 have its kinds of layers


@pytest.mark.parametrize(("recipe", "platform"), [*READY, *OTHERS])
def test_ready_recipe_builds_runs_and_agrees(
    tmp_path_factory: pytest.TempPathFactory,
    mirror: Callable[[str], None],
    recipe: str,
    platform: str,
) -> None:
    mirror(recipe)
    folder = tmp_path_factory.getbasetemp() / "ready"
    folder.mkdir(exist_ok=True)
    repository = Repository(folder, dict(os.environ))
    repository.write("dodo.py", "from firmwright.tasks.dodo import *\n")
    repository.build(f"recipe={ROOT / 'recipes' / recipe}.yaml", f"platform={platform}")
    manifest = repository.manifest(f"build/{recipe}/{recipe}-{platform}.tar.gz")
    assert manifest["run"]["mismatches"] == 0
    counted = manifest["run"]["instructions"]
    assert counted is None if platform == "host" else counted > 0
