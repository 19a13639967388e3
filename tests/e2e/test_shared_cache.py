"""Builds that share the results of stages make the same bundle, never a wrong one."""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path

import pytest

from firmwright.terminal.reporter import HERE
from tests.shared_cache.server import serve

from .conftest import Repository, new_repository, ran

BUNDLE = "build/r/r-host.tar.gz"
ORIGINS = "build/r/host/bundle/origins.json"
RECIPE = "model: digits.onnx\nplatform: host\nrun: {inputs: inputs.npz, samples: 3}\n"
TAKEN = "copied from the shared cache"


def make(folder: Path, place: str) -> Repository:
    """Return a repository whose builds use the cache at an address, or no cache."""
    repository = new_repository(folder)
    repository.write("r.yaml", RECIPE)
    repository.environment["FIRMWRIGHT_CACHE"] = place
    return repository


def build(repository: Repository) -> tuple[list[str], list[str], str]:
    """Return the stages from the cache, the stages that ran, and the output."""
    done = repository.doit("build", "recipe=r.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    taken = [line.split()[1] for line in done.stdout.splitlines() if TAKEN in line]
    return taken, [stage for stage in ran(done.stdout) if stage not in taken], done.stdout


def read_origins(repository: Repository) -> list[str]:
    """Return the origin of the result of each stage."""
    return [*json.loads((repository.folder / ORIGINS).read_text())["stages"].values()]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A cache that one build filled, and the bundle of a build without a cache."""
    folder = tmp_path_factory.mktemp("kept")
    without = make(folder / "without", "")
    assert not build(without)[0]
    first = make(folder / "first", str(folder / "cache"))
    assert not build(first)[0]
    bundle = (without.folder / BUNDLE).read_bytes()
    assert (first.folder / BUNDLE).read_bytes() == bundle
    return folder / "cache", bundle


@pytest.fixture
def cache(kept: tuple[Path, bytes], tmp_path: Path) -> Path:
    return shutil.copytree(kept[0], tmp_path / "cache")


def test_another_platform_takes_what_platforms_share(cache: Path, tmp_path: Path) -> None:
    repository = make(tmp_path / "other", str(cache))
    repository.write("r.yaml", RECIPE.replace("host", "cortex-m4-bare"))
    taken, own, _ = build(repository)
    assert taken == ["model", "samples"]
    assert "partition" in own


def test_another_folder_takes_every_stage(
    kept: tuple[Path, bytes], cache: Path, tmp_path: Path
) -> None:
    repository = make(tmp_path / "other", str(cache))
    plan = repository.doit("build", "recipe=r.yaml", "dry_run=1").stdout.splitlines()[1:]
    taken, own, _ = build(repository)
    assert sorted(line.split()[1] for line in plan if "  cache  " in line) == sorted(taken)
    assert "objects" in taken
    assert not own
    assert {Path(origin).parents[1] for origin in read_origins(repository)} == {cache / "ac"}
    assert (repository.folder / BUNDLE).read_bytes() == kept[1]
    assert build(repository)[:2] == ([], [])  # the second build is up to date
    done = repository.doit("build", "recipe=r.yaml", "outdir=elsewhere")
    assert done.stdout.count(TAKEN) == len(taken), "the build folder's name does not count"
    with (repository.folder / "r.yaml").open("a") as recipe:
        recipe.write("c_prefix: other\n")
    taken, own, _ = build(repository)
    assert "sources" in own
    assert "model" not in own
    assert read_origins(repository).count(HERE) == len(own)


def test_damaged_files_of_a_server_are_named_and_made_again(
    kept: tuple[Path, bytes], tmp_path: Path
) -> None:
    """In each of 100 files, one bit is flipped, the end is cut off, or a byte is added."""
    generator = random.Random(1)
    served = tmp_path / "served"
    for path in kept[0].glob("*/*/*"):  # a server has no folders for the first digits
        (served / path.parts[-3]).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, served / path.parts[-3] / path.name)
    files = sorted(path for path in served.glob("*/*") if path.stat().st_size)
    for path in generator.sample(files, min(100, len(files))):
        data = bytearray(path.read_bytes())
        place = generator.randrange(len(data))
        data[place] ^= 1 << generator.randrange(8)
        path.write_bytes(generator.choice([bytes(data), bytes(data[:place]), bytes(data) + b"\0"]))
    with serve(served) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        repository = make(tmp_path / "other", address)
        taken, own, printed = build(repository)
        assert len(taken) < len(own)
        assert f"shared cache: {address}/" in printed
        assert "the stage ran instead" in printed
        assert (repository.folder / BUNDLE).read_bytes() == kept[1]
        again = make(tmp_path / "again", address)
        assert build(again)[:2] == ([*taken, *own], [])
        assert (again.folder / BUNDLE).read_bytes() == kept[1]


REHEARSAL = """
import sys
from firmwright.pipeline import warm
from firmwright.tasks.pipeline import NETWORKS_PIPELINE, PIPELINE

warm.rehearse(["recipe=r.yaml", "outdir=build/r"], PIPELINE, NETWORKS_PIPELINE)
print("tvm" in sys.modules)
"""


@pytest.mark.parametrize("is_filled", [True, False])
def test_a_fleet_imports_no_stage_that_the_cache_restores(
    is_filled: bool, cache: Path, tmp_path: Path
) -> None:
    repository = make(tmp_path / "r", str(cache if is_filled else tmp_path / "empty"))
    done = repository.run(sys.executable, "-c", REHEARSAL)
    assert (done.stdout, done.stderr) == (f"{not is_filled}\n", "")
