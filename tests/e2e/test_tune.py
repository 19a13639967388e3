"""The search for the fastest C of each layer, and builds that read its result."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from firmwright.recipe.tuned import TunedNetwork, read_tuned
from firmwright.tune.variant_trials import TRIAL
from firmwright.verify.run_records import RunRecord
from tests.fleet.cluster import Cluster
from tests.fleet.processes import find_processes

from .conftest import DIGITS, ROOT, Repository, new_repository, ran
from .test_user_errors import fail

RECIPE = f"{DIGITS}tune: {{trials: 3}}\n"
DENSE, CONVOLUTION = "region_005_matmul", "region_001_conv2d"
PLATFORMS = ROOT / "toolchains" / "platforms"


def search(repository: Repository) -> str:
    done = repository.firmwright("tune", "digits.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def found_in(repository: Repository) -> TunedNetwork:
    return read_tuned(repository.folder / "digits.tuned").platforms["rv32-bare"]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository whose recipe was tuned and not built, for tests that only read."""
    repository = new_repository(tmp_path_factory.mktemp("tuned"))
    repository.write("digits.yaml", RECIPE)
    assert "5 layers in 3 trials" in search(repository)
    return repository


@pytest.fixture
def changed(tuned: Repository, tmp_path: Path) -> Repository:
    shutil.copytree(tuned.folder, tmp_path / "copy", copy_function=shutil.copy2)
    return Repository(tmp_path / "copy")


def read_run(repository: Repository) -> RunRecord:
    from firmwright.ir.records import read_record

    return read_record(repository.folder / "build/digits/rv32-bare/run/run.json", RunRecord)


def test_a_build_takes_the_ways_that_were_found(changed: Repository) -> None:
    stages = changed.build("recipe=digits.yaml")
    assert "model" not in stages and "kernels" in stages
    layers, run = found_in(changed).layers, read_run(changed)
    assert run.exact_samples == run.samples == 3
    for name, layer in layers.items():
        assert layer.instructions == run.instructions_by_region[name] // run.samples
        # The address of the code decides the cycles of misaligned instructions.
        assert layer.cycles == pytest.approx(run.cycles_by_region[name] / run.samples, rel=0.03)
        assert layer.cycles is not None and layer.default_cycles is not None
        assert layer.cycles <= layer.default_cycles
    tuned = layers[CONVOLUTION]
    assert tuned.variant == "rv32m_conv2d separate tile=4x2"
    assert tuned.default == "rv32m_conv2d shared"
    assert tuned.instructions < tuned.default_instructions
    assert layers[DENSE].variant == layers[DENSE].default == "portable_dense separate"

    bundle = "build/digits/digits-rv32-bare.tar.gz"
    with tarfile.open(changed.folder / bundle) as archive:
        assert "digits-rv32-bare/recipe/digits.tuned" in archive.getnames()
    assert "digits.tuned" in changed.manifest(bundle)["inputs"]["files"]
    source = changed.folder / "build/digits/rv32-bare/sources/network/network_regions.c"
    message = " ".join(source.read_text().replace("\n *", " ").split())
    assert "Form rv32m_conv2d: " in message
    assert f"Tuned: {tuned.variant}, {tuned.cycles:,} cycles" in message
    explained = changed.firmwright("explain", "digits.yaml").stdout
    assert f"{tuned.variant}, tuned" in explained


def test_fewer_trials_leave_out_the_later_ways(changed: Repository) -> None:
    """Both searches count the same instructions, although the second begins without results."""
    before = found_in(changed).layers
    shutil.rmtree(changed.folder / "build")
    (changed.folder / "digits.tuned").unlink()
    changed.environment["FIRMWRIGHT_CACHE"] = ""
    changed.write("digits.yaml", RECIPE.replace("trials: 3", "trials: 2"))
    assert "5 layers in 2 trials" in search(changed)
    after = found_in(changed).layers
    assert after[DENSE].variant == "portable_dense separate"
    assert after[CONVOLUTION].variant == "rv32m_conv2d separate"
    third = {name for name in before if before[name].variant != after[name].variant}
    assert third >= {name for name, layer in before.items() if "tile" in layer.variant}
    cycles = [(before[name].cycles, after[name].cycles) for name in third]
    assert all(fewer is not None and more is not None and fewer < more for fewer, more in cycles)
    assert all(before[name] == after[name] for name in before.keys() - third)


def test_the_ways_of_another_network_are_refused(changed: Repository) -> None:
    changed.write("digits.yaml", f"{RECIPE}fuse_layers: false\n")
    said = fail(changed, "recipe=digits.yaml")
    assert (
        "digits.tuned:7:14: platforms.rv32-bare.network: measured for a different network; " in said
    )
    assert "search again with `firmwright tune digits.yaml`, or remove the file" in said


def edit(repository: Repository, changes: dict[str, str]) -> list[int]:
    """Replace the first of each text in the tuned file; return the lines of the changes."""
    path = repository.folder / "digits.tuned"
    text = path.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    return [text[: text.index(new)].count("\n") + 1 for new in changes.values()]


def test_a_file_that_does_not_fit_is_refused_at_its_places(changed: Repository) -> None:
    """The variants are checked only if the network is the right one."""
    (layer,) = edit(changed, {DENSE: "region_009"})
    (stage,) = edit(changed, {'toolchain: "zig"': 'toolchain: "gcc"'})
    said = fail(changed, "recipe=digits.yaml")
    assert f"digits.tuned:{stage}:16: platforms.rv32-bare.toolchain: measured for 'gcc'; " in said
    assert "region_009" not in said
    edit(changed, {'"gcc"': '"zig"', "rv32m_conv2d separate": "fast"})
    said = fail(changed, "recipe=digits.yaml")
    place = f"digits.tuned:{layer}:7: platforms.rv32-bare.layers"
    assert f"{place}.region_009: not a layer with several variants; " in said
    assert f"layers: the layer '{DENSE}' is missing; " in said
    assert ".variant: not a variant of this layer; expected rv32m_conv2d shared, " in said


def test_a_damaged_file_is_not_replaced(changed: Repository) -> None:
    path = changed.folder / "digits.tuned"
    damaged = f"<<<<<<< HEAD\n{path.read_text()}"
    path.write_text(damaged)
    said = changed.doit("tune", "recipe=digits.yaml")
    assert said.returncode == 1
    assert "digits.tuned:" in said.stderr
    assert path.read_text() == damaged


def test_a_tile_that_a_layer_does_not_have_is_refused(changed: Repository) -> None:
    (line,) = edit(changed, {"tile=4x2": "tile=8x2"})
    said = fail(changed, "recipe=digits.yaml")
    assert f"digits.tuned:{line}:18: platforms.rv32-bare.layers.region_00" in said
    assert (
        ".variant: not a variant of this layer; expected rv32m_conv2d shared, "
        "rv32m_conv2d separate, rv32m_conv2d separate tile=4x2, "
        "rv32m_conv2d separate tile=4x3, " in said
    )


def test_a_platform_that_was_not_tuned_is_built_as_usual(changed: Repository) -> None:
    done = changed.doit("kernels:digits-cortex-m4-bare", "recipe=digits.yaml",
                        "platform=cortex-m4-bare")  # fmt: skip
    assert "kernels" in ran(done.stdout), done.stdout + done.stderr
    assert "not tuned for cortex-m4-bare: `firmwright tune digits.yaml " in done.stdout


def test_a_trial_that_does_not_fit_is_left_out(changed: Repository) -> None:
    """Separate functions need 700 bytes more than this flash has."""
    text = (PLATFORMS / "rv32-bare.yaml").read_text()
    small = {"name: rv32-bare": "name: small", "size: 4 MiB": "size: 17100"}
    for old, new in small.items():
        assert old in text
        text = text.replace(old, new)
    changed.write("small.yaml", text)
    changed.write(
        "digits.yaml", f"{RECIPE.replace('trials: 3', 'trials: 2')}platform: small.yaml\n"
    )
    said = search(changed)
    assert "trial 1 is not used: firmware:digits-small: firmware.elf: the linker failed" in said
    platforms = read_tuned(changed.folder / "digits.tuned").platforms
    unchanged = platforms["rv32-bare"].layers[CONVOLUTION]
    assert unchanged.variant == "rv32m_conv2d separate tile=4x2"
    assert all(layer.variant == layer.default for layer in platforms["small"].layers.values())


def test_without_counted_instructions_nothing_is_tuned(changed: Repository) -> None:
    done = changed.firmwright("tune", "digits.yaml", "platform=host")
    assert done.returncode == 1
    assert (
        "command line: platform: the emulator of 'host' does not count instructions"
        in done.stdout + done.stderr
    )


def test_a_cluster_finds_the_same(tuned: Repository, tmp_path: Path) -> None:
    """A worker dies during its trial, the other worker completes it, and the result is the same."""
    repository = new_repository(tmp_path / "repository")
    repository.write("digits.yaml", RECIPE)
    with ExitStack() as stack:
        cluster = Cluster(stack, tmp_path)
        cluster.add("steady")
        doomed = cluster.add("doomed")
        search = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "firmwright.cli", "tune", "digits.yaml",
                 f"scheduler={cluster.address}"],
                cwd=repository.folder, env=repository.environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
        )  # fmt: skip
        while not (trials := find_processes(doomed.pid, TRIAL.partition(":")[0])):
            assert search.poll() is None
            time.sleep(0.05)
        doomed.kill()
        said = search.communicate()[0]
    assert search.returncode == 0, said
    assert "its worker ended; another worker runs it" in said
    assert "failed on the cluster" not in said
    assert not any(trial.is_running() for trial in trials)
    found = (repository.folder / "digits.tuned").read_bytes()
    assert found == (tuned.folder / "digits.tuned").read_bytes()
    assert not (repository.folder / "build/digits/.cache/tune").exists()  # no trial ran here


def test_what_fails_on_a_cluster_is_tried_here(changed: Repository, tmp_path: Path) -> None:
    """The worker cannot import TVM, although the version is the right one."""
    before = (changed.folder / "digits.tuned").read_bytes()
    (changed.folder / "digits.tuned").unlink()
    package = tmp_path / "packages" / "tvm.py"
    package.parent.mkdir()
    package.write_text("raise OSError('libtvm.so: cannot open')\n")
    changed.environment["FIRMWRIGHT_CACHE"] = ""
    with ExitStack() as stack:
        cluster = Cluster(stack, tmp_path)
        cluster.add("broken", str(package.parent))
        done = changed.firmwright("tune", "digits.yaml", "--scheduler", cluster.address)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trial 0 failed on the cluster: " in done.stdout
    assert (changed.folder / "digits.tuned").read_bytes() == before


def test_as_many_trials_run_at_a_time_as_asked(tmp_path: Path) -> None:
    """With one trial at a time, each begins after the last one has ended; the platforms share a
    file.
    """
    repository = new_repository(tmp_path / "repository")
    repository.write("digits.yaml", RECIPE.replace("trials: 3", "trials: 2"))
    platforms = "rv32-bare,cortex-m4-bare"
    words = ("digits.yaml", "--platform", platforms, "--outdir", "elsewhere", "-n", "1")
    done = repository.firmwright("tune", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    found = read_tuned(repository.folder / "digits.tuned").platforms
    assert found.keys() == {"rv32-bare", "cortex-m4-bare"}
    trials = [*(repository.folder / "elsewhere/.cache/tune").glob("*/*")]
    assert len(trials) >= 4
    assert not (repository.folder / "build").exists()
    times = sorted(
        ((trial / name).stat().st_mtime_ns, trial)
        for trial in trials
        for name in ("variants.tuned", ".doit.db")  # its first file and its last file
    )
    in_order = [trial for _, trial in times]
    assert in_order[::2] == in_order[1::2]


def test_a_cluster_has_workers_of_its_own(repository: Repository) -> None:
    words = ("digits.yaml", "--scheduler", "tcp://10.0.0.7:8786", "-n", "2")
    done = repository.firmwright("tune", *words)
    assert done.returncode == 3
    said = "-n 2: scheduler=tcp://10.0.0.7:8786 already has workers; remove one of them"
    assert said in done.stderr
    assert not (repository.folder / "build/digits").exists()


def test_a_build_takes_no_scheduler(changed: Repository) -> None:
    said = fail(changed, "recipe=digits.yaml", "scheduler=tcp://10.0.0.7:8786")
    only = "only `doit tune` and `doit fleet` run on a cluster"
    assert said.rstrip() == f"scheduler=tcp://10.0.0.7:8786: {only}"
